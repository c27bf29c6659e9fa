//! What runs the consumers of one source: take → run → acknowledge, give back or bury.

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tokio::sync::{RwLockReadGuard, RwLockWriteGuard};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::ConsumerSpec;
use super::consumer::{Outcome, Run};
use super::message::Incoming;
use super::source::{Delivery, Redelivery, Source, SourceError};
use super::suspects::{self, Watched};
use crate::backend::Backend;
use crate::backoff::{Backoff, doubled, jitter};
use crate::faults;
use crate::idempotency::Idempotency;

/// The first and the longest pause between two tries of what is out of reach.
const OUTAGE: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));
/// How often a consumer is run again at once that says that the database went away under it. It may be what it asks of the
/// database that ends its connection.
const INTERRUPTIONS: u32 = 5;
/// How much of the time after which a message is delivered again may be used, where it can't be extended.
pub(super) const USABLE: f64 = 0.8;
/// How often an acknowledgement is tried. A message whose acknowledgement is lost is a duplicate later, which costs a look.
const ACKNOWLEDGEMENTS: u32 = 3;
/// How long a broker may take to confirm.
const CONFIRMATION: Duration = Duration::from_secs(10);

/// A consumer, with its types erased.
pub(super) struct Registered<DB: Backend, S> {
    pub(super) spec: &'static ConsumerSpec,
    pub(super) run: Run<DB, S>,
}

/// What all messages of one source share.
pub(super) struct Worker<DB: Backend, S> {
    pub(super) idempotency: Idempotency<DB>,
    pub(super) state: S,
    pub(super) source: String,
    pub(super) consumers: Vec<Registered<DB, S>>,
    pub(super) concurrency: usize,
    pub(super) max_deliveries: u32,
    pub(super) retry_pause: (Duration, Duration),
    pub(super) redelivery: Redelivery,
}

/// A source, with its type erased.
pub(super) trait AnySource<DB: Backend, S>: Send {
    fn start(&mut self) -> BoxFuture<'_, Result<Redelivery, SourceError>>;

    /// Works until it is told to stop, and what runs then is finished.
    fn work(
        self: Box<Self>,
        worker: Arc<Worker<DB, S>>,
        stop: CancellationToken,
    ) -> BoxFuture<'static, ()>;
}

impl<DB: Backend, S: Clone + Send + Sync + 'static, T: Source> AnySource<DB, S> for T {
    fn start(&mut self) -> BoxFuture<'_, Result<Redelivery, SourceError>> {
        Source::start(self).boxed()
    }

    fn work(
        self: Box<Self>,
        worker: Arc<Worker<DB, S>>,
        stop: CancellationToken,
    ) -> BoxFuture<'static, ()> {
        work(*self, worker, stop).boxed()
    }
}

async fn work<DB, S, T>(mut source: T, worker: Arc<Worker<DB, S>>, stop: CancellationToken)
where
    DB: Backend,
    S: Clone + Send + Sync + 'static,
    T: Source,
{
    let mut running = JoinSet::new();
    let mut pauses = Backoff::new(OUTAGE);
    while !stop.is_cancelled() {
        while running.try_join_next().is_some() {}
        let free = worker.concurrency - running.len();
        if free == 0 {
            running.join_next().await;
            continue;
        }
        match stop.run_until_cancelled(source.receive(free)).await {
            None => break,
            Some(Ok(deliveries)) => {
                pauses.reset();
                for delivery in deliveries {
                    running.spawn(deliver(delivery, worker.clone(), stop.clone()));
                }
            }
            Some(Err(error)) => {
                tracing::warn!(target: "idem", source = worker.source, %error, "no message can be received; it is tried again");
                stop.run_until_cancelled(tokio::time::sleep(pauses.next()))
                    .await;
            }
        }
    }
    // The source lives on: what runs is acknowledged over its connection.
    while running.join_next().await.is_some() {}
}

/// Held while a message runs.
enum Place<'a> {
    Among(#[expect(dead_code, reason = "held")] RwLockReadGuard<'a, ()>),
    Alone(#[expect(dead_code, reason = "held")] RwLockWriteGuard<'a, ()>),
}

/// What all consumers of a message came to.
#[derive(Debug, PartialEq, Eq)]
enum Whole {
    Done,
    /// Deliver it again; `None`: at once, and it does not count.
    Retry(Option<String>),
    Reject(String),
}

/// Runs a message to its end, and tells the broker.
async fn deliver<DB, S, D>(mut delivery: D, worker: Arc<Worker<DB, S>>, stop: CancellationToken)
where
    DB: Backend,
    S: Clone + Send + Sync + 'static,
    D: Delivery,
{
    let message = delivery.message().clone();
    let whole = {
        let work = worker.process(&message, &stop);
        let Redelivery {
            timeout, extends, ..
        } = worker.redelivery;
        match timeout {
            None => work.await,
            Some(timeout) if extends => {
                tokio::select! {
                    biased;
                    whole = work => whole,
                    never = keep(&mut delivery, timeout) => match never {},
                }
            }
            // What is not done by then is undone, before the broker gives it to somebody else.
            Some(timeout) => tokio::time::timeout(timeout.mul_f64(USABLE), work)
                .await
                .unwrap_or(Whole::Retry(None)),
        }
    };
    faults::point("acknowledge.before");
    let told = match whole {
        Whole::Done => worker.acknowledge(&mut delivery).await,
        Whole::Reject(reason) => worker.bury(&mut delivery, &reason).await,
        Whole::Retry(None) => confirmed(delivery.retry(Duration::ZERO)).await,
        Whole::Retry(Some(reason)) if suspects::is_last(&message, worker.max_deliveries) => {
            let number = message.delivery();
            let reason = format!("{number} deliveries did not process it; the last: {reason}");
            worker.bury(&mut delivery, &reason).await
        }
        Whole::Retry(Some(reason)) => {
            let after = worker.pause(message.delivery());
            tracing::warn!(target: "idem", source = worker.source, ?message, reason, after_seconds = after.as_secs_f64(), "a message failed; it is delivered again");
            confirmed(delivery.retry(after)).await
        }
    };
    if let Err(error) = told {
        tracing::warn!(target: "idem", source = worker.source, ?message, %error, "the broker did not hear what became of a message; it delivers it again");
    }
}

/// Extends the delivery's time for ever.
async fn keep<D: Delivery>(delivery: &mut D, timeout: Duration) -> std::convert::Infallible {
    loop {
        tokio::time::sleep(timeout / 3).await;
        if let Ok(Err(error)) = tokio::time::timeout(timeout / 3, delivery.extend()).await {
            tracing::warn!(target: "idem", %error, "a message's time could not be extended");
        }
    }
}

impl<DB: Backend, S: Clone + Send + Sync + 'static> Worker<DB, S> {
    /// Runs all consumers, one after the other. Those that are done are duplicates when the message comes again.
    async fn process(&self, message: &Incoming, stop: &CancellationToken) -> Whole {
        let most = suspects::runs_of(message, self.max_deliveries);
        let consuming = &self.idempotency.shared.consuming;
        let place = async {
            match most {
                Some(_) => Place::Alone(consuming.write().await),
                None => Place::Among(consuming.read().await),
            }
        };
        let Some(_place) = stop.run_until_cancelled(place).await else {
            return Whole::Retry(None);
        };
        let mut retry = None;
        let mut reject = None;
        for consumer in &self.consumers {
            let spec = consumer.spec;
            let outcome = match most {
                Some(most) => self.watched(consumer, message, most, stop).await,
                None => self.run(consumer, message, stop).await,
            };
            let named = |reason: &str| format!("consumer `{}`: {reason}", spec.name);
            match outcome {
                // It stops, and the message is as it was.
                Outcome::Outage(_) | Outcome::Interrupted(_) => return Whole::Retry(None),
                Outcome::Done => {}
                Outcome::Duplicate => {
                    tracing::debug!(target: "idem", consumer = spec.name, ?message, "a duplicate");
                }
                Outcome::Retry(reason) => retry = retry.or(Some(named(&reason))),
                Outcome::Reject(reason) => reject = reject.or(Some(named(&reason))),
            }
        }
        match (retry, reject) {
            (Some(reason), _) => Whole::Retry(Some(reason)),
            (None, Some(reason)) => Whole::Reject(reason),
            (None, None) => Whole::Done,
        }
    }

    /// Runs a consumer. While the database is out of reach it waits: giving the message back would only count its deliveries up.
    async fn run(
        &self,
        Registered { spec, run }: &Registered<DB, S>,
        message: &Incoming,
        stop: &CancellationToken,
    ) -> Outcome {
        let mut pauses = Backoff::new(OUTAGE);
        let mut interruptions = 0;
        loop {
            let outcome = run(
                self.idempotency.clone(),
                self.state.clone(),
                message.clone(),
            );
            let mut outcome = outcome.await;
            if let Outcome::Interrupted(reason) = outcome {
                interruptions += 1;
                outcome = if interruptions < INTERRUPTIONS {
                    Outcome::Outage(reason)
                } else {
                    Outcome::Retry(reason)
                };
            }
            match outcome {
                Outcome::Outage(reason) if waits(spec, &reason, &mut pauses, stop).await => {}
                outcome => return outcome,
            }
        }
    }

    /// The same for a message that may be what ends the process: a run that does not come back is counted.
    async fn watched(
        &self,
        consumer: &Registered<DB, S>,
        message: &Incoming,
        most: u32,
        stop: &CancellationToken,
    ) -> Outcome {
        let spec = consumer.spec;
        let identity = match spec.identity(message) {
            Ok(identity) => identity,
            Err(error) => return Outcome::of(&error.into()),
        };
        let mut pauses = Backoff::new(OUTAGE);
        let mut watched = Watched::new(&self.idempotency, spec, &identity);
        loop {
            match watched.enter(identity.record, most).await {
                Ok(Ok(())) => break,
                Ok(Err(reason)) => return Outcome::Reject(reason),
                // Whatever it is: the message has not run.
                Err(error) => {
                    let reason = error.to_string();
                    if !waits(spec, &reason, &mut pauses, stop).await {
                        return Outcome::Outage(reason);
                    }
                }
            }
        }
        let outcome = self.run(consumer, message, stop).await;
        watched.leave().await;
        outcome
    }

    async fn acknowledge<D: Delivery>(&self, delivery: &mut D) -> Result<(), SourceError> {
        let mut tries = 1;
        loop {
            let acknowledged = confirmed(delivery.acknowledge()).await;
            if acknowledged.is_ok() || tries == ACKNOWLEDGEMENTS {
                return acknowledged;
            }
            tokio::time::sleep(jitter(OUTAGE.0 * tries)).await;
            tries += 1;
        }
    }

    /// Where a dead letter can't be stored, the message stays what it is.
    async fn bury<D: Delivery>(&self, delivery: &mut D, reason: &str) -> Result<(), SourceError> {
        let message = delivery.message().clone();
        tracing::error!(target: "idem", source = self.source, ?message, reason, "a message can't be processed: to the dead letters");
        let Err(error) = confirmed(delivery.dead_letter(reason)).await else {
            if suspects::runs_of(&message, self.max_deliveries).is_some() {
                self.forget_runs(&message).await;
            }
            return Ok(());
        };
        tracing::error!(target: "idem", source = self.source, ?message, %error, "a dead letter can't be stored; the message is delivered again");
        confirmed(delivery.retry(self.pause(message.delivery()))).await
    }

    async fn forget_runs(&self, message: &Incoming) {
        for consumer in &self.consumers {
            if let Ok(identity) = consumer.spec.identity(message) {
                suspects::forget_all(&self.idempotency, &identity).await;
            }
        }
    }

    /// Doubles with each delivery.
    fn pause(&self, delivery: u32) -> Duration {
        let (first, longest) = self.retry_pause;
        doubled(first, longest, delivery.saturating_sub(1))
    }
}

/// Pauses while the database is out of reach; `false` when it's time to stop.
async fn waits(
    spec: &ConsumerSpec,
    reason: &str,
    pauses: &mut Backoff,
    stop: &CancellationToken,
) -> bool {
    tracing::warn!(target: "idem", consumer = spec.name, reason, "a message waits for the database");
    let pause = tokio::time::sleep(pauses.next());
    stop.run_until_cancelled(pause).await.is_some()
}

/// What is told in time. A broker that is short of memory or disk may not answer at all.
async fn confirmed(told: impl Future<Output = Result<(), SourceError>>) -> Result<(), SourceError> {
    tokio::time::timeout(CONFIRMATION, told)
        .await
        .unwrap_or_else(|_| Err(SourceError::unavailable("no confirmation came")))
}
