//! The test itself: what it is given, and what it tells.

use std::fmt;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use http::Request;

use super::client::{Client, MakeRequest};
use super::count::Count;
use super::phases;
use super::violation::{Phase, Violation};
use crate::response::HeaderPolicy;

/// A test of the contract: one key, one effect, one answer, whatever the network does. See the
/// [module](super) for an example.
///
/// | phase | it sends | it wants |
/// |---|---|---|
/// | [`Sequence`](Phase::Sequence) | the request, twice | one effect; the same status, header fields and body, marked `Idempotent-Replayed` |
/// | [`Concurrent`](Phase::Concurrent) | the request many times at once, over all instances | one effect; that answer for each, or 409 or 503 with `Retry-After`, and then that answer for a retry |
/// | [`Changed`](Phase::Changed) | another request with a used key | 422 and no effect; an effect with a key of its own |
/// | [`LostAnswer`](Phase::LostAnswer) | the request, whose answer is dropped after one poll, after two, and so on, then a retry | one effect each, and an answer |
/// | [`Aftermath`](Phase::Aftermath) | nothing | no effect that came late |
///
/// Instances stand for processes: build each router from an [`Idempotency`](crate::Idempotency) and a
/// pool of its own, on one database. With one instance the duplicates meet inside the process only, and
/// the database's part is hardly tested.
///
/// Not proved here: that a crash leaves nothing half done, for which there is [`Crashes`](super::Crashes), nor that a handler
/// writes through its transaction alone. The run-time [`guard`](crate::guard()) finds the latter.
pub struct Contract {
    instances: Vec<Router>,
    request: Option<MakeRequest>,
    changed: Option<MakeRequest>,
    effects: Option<Count>,
    concurrency: usize,
    losses: u32,
    patience: Duration,
    grace: Duration,
    policy: HeaderPolicy,
}

/// What a test that was passed had seen.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Report {
    /// The phases, in their order.
    pub phases: Vec<PhaseReport>,
}

/// One phase that was passed.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct PhaseReport {
    /// Which.
    pub phase: Phase,
    /// How many requests were sent.
    pub requests: u64,
    /// How many effects they had, which is how many they should have had.
    pub effects: u64,
}

impl Contract {
    /// A test of one handler, served by some instances of its router.
    #[must_use]
    pub fn new(instances: Vec<Router>) -> Contract {
        Contract {
            instances,
            request: None,
            changed: None,
            effects: None,
            concurrency: 16,
            losses: 8,
            patience: Duration::from_secs(30),
            grace: Duration::from_millis(200),
            policy: HeaderPolicy::default(),
        }
    }

    /// The request, as a function of its key (a new UUID for each use), which goes into its
    /// `Idempotency-Key`. Called with one key it must make equal requests, and a first use must succeed.
    #[must_use]
    pub fn request(mut self, request: impl Fn(&str) -> Request<Body> + 'static) -> Contract {
        self.request = Some(Box::new(request));
        self
    }

    /// Another request to the same operation, with the key that it is given. It must be one that succeeds
    /// with a key of its own.
    #[must_use]
    pub fn changed(mut self, changed: impl Fn(&str) -> Request<Body> + 'static) -> Contract {
        self.changed = Some(Box::new(changed));
        self
    }

    /// Counts all effects that there are; a request is expected to add one. It must read what is
    /// committed, on a connection of its own, and nothing else may add effects meanwhile.
    #[must_use]
    pub fn effects<F, E>(mut self, effects: F) -> Contract
    where
        F: AsyncFn() -> Result<u64, E> + 'static,
        E: fmt::Display,
    {
        self.effects = Some(Count::new(effects));
        self
    }

    /// How many requests are sent at once: 16 unless said, 2 at least.
    #[must_use]
    pub fn concurrency(mut self, requests: usize) -> Contract {
        self.concurrency = requests.max(2);
        self
    }

    /// How many answers are lost, each after one poll more than the last: 8 unless said.
    #[must_use]
    pub fn losses(mut self, losses: u32) -> Contract {
        self.losses = losses;
        self
    }

    /// How long a request may go without an answer, its retries included: 30 seconds unless said.
    #[must_use]
    pub fn patience(mut self, patience: Duration) -> Contract {
        self.patience = patience;
        self
    }

    /// How long late effects are waited for at the end: 200 milliseconds unless said.
    #[must_use]
    pub fn grace(mut self, grace: Duration) -> Contract {
        self.grace = grace;
        self
    }

    /// Which header fields a replay keeps, where the service's own policy is not the default.
    #[must_use]
    pub fn headers(mut self, policy: HeaderPolicy) -> Contract {
        self.policy = policy;
        self
    }

    /// Runs the test.
    ///
    /// # Panics
    ///
    /// If the handler breaks the contract; the message says which promise, with figures.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe, but the requests that were sent go on.
    pub async fn assert(self) {
        if let Err(violation) = self.check().await {
            panic!("the idempotency contract is broken\n  {violation}");
        }
    }

    /// Runs the test.
    ///
    /// # Errors
    ///
    /// The first [`Violation`] of the contract.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe, but the requests that were sent go on.
    pub async fn check(self) -> Result<Report, Violation> {
        let given = Given {
            request: self
                .request
                .as_deref()
                .ok_or(Violation::Incomplete("a request: call `.request(..)`"))?,
            changed: self.changed.as_deref().ok_or(Violation::Incomplete(
                "a changed request: call `.changed(..)`",
            ))?,
            effects: self.effects.as_ref().ok_or(Violation::Incomplete(
                "a count of effects: call `.effects(..)`",
            ))?,
            contract: &self,
        };
        if self.instances.is_empty() {
            return Err(Violation::Incomplete("an instance of the router"));
        }
        let start = given.count(Phase::Sequence).await?;
        let mut phases = vec![
            phases::sequence(&given).await?,
            phases::concurrent(&given).await?,
            phases::changed(&given).await?,
            phases::lost_answer(&given).await?,
        ];
        let expected = phases.iter().map(|phase| phase.effects).sum();
        let requests = phases.iter().map(|phase| phase.requests).sum();
        tokio::time::sleep(self.grace).await;
        given
            .counted(Phase::Aftermath, requests, start, expected)
            .await?;
        phases.push(PhaseReport {
            phase: Phase::Aftermath,
            requests: 0,
            effects: 0,
        });
        Ok(Report { phases })
    }
}

impl fmt::Debug for Contract {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Contract")
            .field("instances", &self.instances.len())
            .field("concurrency", &self.concurrency)
            .field("losses", &self.losses)
            .finish_non_exhaustive()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, phase) in self.phases.iter().enumerate() {
            let separator = if index == 0 { "" } else { "\n" };
            let PhaseReport {
                phase,
                requests,
                effects,
            } = phase;
            write!(
                f,
                "{separator}{phase}: {requests} requests, {effects} effects"
            )?;
        }
        Ok(())
    }
}

/// A test that has all it needs.
pub(super) struct Given<'t> {
    request: &'t dyn Fn(&str) -> Request<Body>,
    changed: &'t dyn Fn(&str) -> Request<Body>,
    effects: &'t Count,
    contract: &'t Contract,
}

impl<'t> Given<'t> {
    pub(super) fn request(&self, key: &str) -> Request<Body> {
        (self.request)(key)
    }

    pub(super) fn changed(&self, key: &str) -> Request<Body> {
        (self.changed)(key)
    }

    pub(super) fn client(&self, phase: Phase) -> Client<'t> {
        Client::new(&self.contract.instances, phase, self.contract.patience)
    }

    pub(super) fn concurrency(&self) -> usize {
        self.contract.concurrency
    }

    pub(super) fn losses(&self) -> u32 {
        self.contract.losses
    }

    pub(super) fn policy(&self) -> &HeaderPolicy {
        &self.contract.policy
    }

    pub(super) async fn count(&self, phase: Phase) -> Result<u64, Violation> {
        self.effects.read(phase).await
    }

    /// Counts again: since `before` there must be `expected` more.
    pub(super) async fn counted(
        &self,
        phase: Phase,
        requests: u64,
        before: u64,
        expected: u64,
    ) -> Result<(), Violation> {
        let after = self.count(phase).await?;
        let effects = i128::from(after) - i128::from(before);
        if effects == i128::from(expected) {
            return Ok(());
        }
        Err(Violation::Effects {
            phase,
            requests,
            expected,
            effects,
            before,
            after,
        })
    }
}
