//! One request whose attempt is lost, and what follows.

use std::cell::RefCell;
use std::time::Duration;

use axum::body::Body;
use futures_util::future::LocalBoxFuture;
use http::{Request, StatusCode};
use tokio::time::timeout;

use super::answer::Answer;
use super::client::Client;
use super::count::Count;
use super::crashes::{CrashEnd, CrashPoint, Crashes};
use super::phases::{new_key, replayed, same, succeeded};
use super::violation::{Phase, Violation};
use crate::faults::Plan;

/// Between two looks for what is to be recovered.
const RECOVER_AGAIN: Duration = Duration::from_millis(20);

/// A crash test that has all it needs.
pub(super) struct Trial<'t> {
    pub(super) request: &'t dyn Fn(&str) -> Request<Body>,
    pub(super) effects: &'t Count,
    pub(super) calls: Option<&'t Count>,
    pub(super) recovery: Option<&'t dyn Fn() -> LocalBoxFuture<'static, Result<(), String>>>,
    pub(super) crashes: &'t Crashes,
}

/// What the request does without a crash.
pub(super) struct Usual {
    /// How many points it passes.
    pub(super) points: usize,
    status: StatusCode,
    calls: u64,
}

/// What there is at one moment.
pub(super) struct Counted {
    effects: u64,
    calls: u64,
}

/// What an operation must have added.
#[derive(Clone, Copy)]
enum Wanted {
    Exactly(u64),
    AtMost(u64),
}

impl Wanted {
    fn number(self) -> u64 {
        match self {
            Wanted::Exactly(number) | Wanted::AtMost(number) => number,
        }
    }

    fn allows(self, added: i128) -> bool {
        match self {
            Wanted::Exactly(number) => added == i128::from(number),
            Wanted::AtMost(number) => (0..=i128::from(number)).contains(&added),
        }
    }
}

impl Trial<'_> {
    /// The request as it is.
    pub(super) async fn undisturbed(&self) -> Result<Usual, Violation> {
        let phase = Phase::Undisturbed;
        let mut client = self.client(phase);
        let before = self.counted(phase).await?;
        let plan = Plan::new(None);
        let answer = client
            .send_planned((self.request)(&new_key()), &plan)
            .await?
            .expect("no point is planned for a loss");
        let status = succeeded(phase, answer)?.status;
        let after = self.counted(phase).await?;
        let one = Wanted::Exactly(1);
        effects_added(phase, client.sent, one, &before, &after)?;
        let calls = after.calls.saturating_sub(before.calls);
        if self.calls.is_some() {
            // A count that stays where it is proves nothing.
            calls_added(phase, Wanted::Exactly(calls.max(1)), &before, &after)?;
        }
        let points = plan.passed().len();
        if points == 0 {
            return Err(Violation::Incomplete(
                "an `#[idempotent]` handler, in the task of its request: this one passes no point to crash at",
            ));
        }
        Ok(Usual {
            points,
            status,
            calls,
        })
    }

    /// The request with a crash at a point, counted from 1, and its retries. `None`: it does not come so far.
    pub(super) async fn crashed(
        &self,
        number: usize,
        usual: &Usual,
    ) -> Result<Option<CrashPoint>, Violation> {
        let mut client = self.client(Phase::Undisturbed);
        let before = self.counted(client.phase).await?;
        let key = new_key();
        let plan = Plan::new(Some(number));
        let answered = client.send_planned((self.request)(&key), &plan).await?;
        let lost = plan.lost();
        if let Some(point) = lost {
            client.phase = Phase::Crash { number, point };
        }
        let phase = client.phase;
        let answer = match answered {
            Some(answer) => answer,
            None => self.retried(&mut client, &key).await?,
        };
        let end = if answer.is_unknown() {
            CrashEnd::Unknown
        } else {
            CrashEnd::Answered
        };
        // Effects first: they are the promise, and answers only tell of it.
        self.added(phase, client.sent, end, usual, &before).await?;
        if end == CrashEnd::Unknown && !self.crashes.unknown_allowed {
            return Err(Violation::Unknown {
                phase,
                answer: Box::new(answer),
            });
        }
        if end == CrashEnd::Answered && answer.status != usual.status {
            return Err(Violation::Retried {
                phase,
                expected: usual.status,
                answer: Box::new(answer),
            });
        }
        let again = self.retried(&mut client, &key).await?;
        same(&self.crashes.policy, phase, &answer, &again)?;
        if end == CrashEnd::Answered {
            replayed(phase, again)?;
        }
        self.added(phase, client.sent, end, usual, &before).await?;
        Ok(lost.map(|name| CrashPoint { name, end }))
    }

    /// Sends the request again until it is answered, while recovery runs.
    async fn retried(&self, client: &mut Client<'_>, key: &str) -> Result<Answer, Violation> {
        let Some(recover) = self.recovery else {
            return client.send_until_answered(|| (self.request)(key)).await;
        };
        let (phase, patience) = (client.phase, client.patience);
        let failed = RefCell::new(None);
        let answered = tokio_util::sync::CancellationToken::new();
        let retry = async {
            let answer = client.send_until_answered(|| (self.request)(key)).await;
            answered.cancel();
            answer
        };
        let recovering = async {
            while !answered.is_cancelled() {
                // One that was begun is not cut off: nothing of it must be left for the next point.
                match timeout(patience, recover()).await {
                    Ok(Ok(())) => {}
                    Ok(Err(error)) => *failed.borrow_mut() = Some(error),
                    Err(_) => *failed.borrow_mut() = Some(format!("not ended in {patience:?}")),
                }
                let pause = tokio::time::sleep(RECOVER_AGAIN);
                answered.run_until_cancelled(pause).await;
            }
        };
        let (answer, ()) = tokio::join!(retry, recovering);
        match (answer, failed.into_inner()) {
            (Err(no_answer @ Violation::NoAnswer { .. }), Some(error)) => {
                Err(Violation::NotRecovered {
                    phase,
                    no_answer: Box::new(no_answer),
                    error,
                })
            }
            (answer, _) => answer,
        }
    }

    pub(super) async fn counted(&self, phase: Phase) -> Result<Counted, Violation> {
        let calls = match self.calls {
            Some(calls) => calls.read(phase).await?,
            None => 0,
        };
        Ok(Counted {
            effects: self.effects.read(phase).await?,
            calls,
        })
    }

    /// Counts again: nothing may have come late.
    pub(super) async fn none_since(&self, before: &Counted) -> Result<(), Violation> {
        let after = self.counted(Phase::Aftermath).await?;
        let none = Wanted::Exactly(0);
        effects_added(Phase::Aftermath, 0, none, before, &after)?;
        calls_added(Phase::Aftermath, none, before, &after)
    }

    /// Counts again: the operation must have added what it does without a crash, or at most that.
    async fn added(
        &self,
        phase: Phase,
        requests: u64,
        end: CrashEnd,
        usual: &Usual,
        before: &Counted,
    ) -> Result<(), Violation> {
        let after = self.counted(phase).await?;
        let wanted = match end {
            CrashEnd::Answered => Wanted::Exactly,
            CrashEnd::Unknown => Wanted::AtMost,
        };
        effects_added(phase, requests, wanted(1), before, &after)?;
        calls_added(phase, wanted(usual.calls), before, &after)
    }

    fn client(&self, phase: Phase) -> Client<'_> {
        Client::new(&self.crashes.instances, phase, self.crashes.patience)
    }
}

fn effects_added(
    phase: Phase,
    requests: u64,
    wanted: Wanted,
    before: &Counted,
    after: &Counted,
) -> Result<(), Violation> {
    let effects = i128::from(after.effects) - i128::from(before.effects);
    if wanted.allows(effects) {
        return Ok(());
    }
    Err(Violation::Effects {
        phase,
        requests,
        expected: wanted.number(),
        effects,
        before: before.effects,
        after: after.effects,
    })
}

fn calls_added(
    phase: Phase,
    wanted: Wanted,
    before: &Counted,
    after: &Counted,
) -> Result<(), Violation> {
    let calls = i128::from(after.calls) - i128::from(before.calls);
    if wanted.allows(calls) {
        return Ok(());
    }
    Err(Violation::Calls {
        phase,
        expected: wanted.number(),
        calls,
        before: before.calls,
        after: after.calls,
    })
}
