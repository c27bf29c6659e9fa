//! One attempt of an operation: its handler runs under a lease, from what is recorded, until it answers or can't go on.

mod completion;

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::core::{self, Clock, Core, Progress};
use super::stop::{Interrupt, Stop};
use super::{Journal, StepState, Steps};
use crate::accept::Completed;
use crate::atomic::{CLEAN_UP, MAX_RUNS, POLL, jitter};
use crate::backend::Backend;
use crate::backend::operations::{Fence, OperationRow};
use crate::backoff::doubled;
use crate::call::Ready;
use crate::faults;
use crate::guard::{self, Watch};
use crate::idempotency::{Idempotency, Rules, StoreError};
use crate::operation::{Errors, Spec};
use crate::operations::OperationId;
use crate::outbox::TraceContext;
use crate::problem::{Code, Problem};
use crate::response::CapturedResponse;
use crate::settle::Fate;
use crate::telemetry;

/// How long the pauses between attempts are at most.
const LONGEST_PAUSE: Duration = Duration::from_secs(300);
/// What a shutdown leaves an attempt to come to a recorded point.
const LAST_CALL: Duration = Duration::from_secs(10);

/// Makes the handler ready to run, as often as it takes.
pub(crate) type Again<DB, E> =
    Box<dyn FnMut() -> BoxFuture<'static, Result<Ready<Steps<DB, E>>, Interrupt>> + Send>;

/// An operation that this process has the lease of.
pub(crate) struct Attempt<DB: Backend> {
    pub(crate) idempotency: Idempotency<DB>,
    pub(crate) spec: &'static Spec,
    pub(crate) rules: Rules,
    /// Of the key, for signals.
    pub(crate) digest: String,
    pub(crate) fence: Fence,
    pub(crate) operation_id: Uuid,
    pub(crate) journal: Journal,
    pub(crate) clock: Clock,
    /// How many attempts were begun that did not end in order, this one among them.
    pub(crate) tries: i32,
    /// Whether `replay_with` rebuilds the answer, so that only its status is stored.
    pub(crate) rebuilds: bool,
    /// Of the request, if there still is one.
    pub(crate) trace: Option<TraceContext>,
    /// Of the worker that took the operation over, if one did.
    pub(crate) shutdown: Option<CancellationToken>,
}

/// Where an attempt led.
#[derive(Debug)]
pub(crate) enum Ended {
    /// The answer is stored.
    Completed(Completed, CapturedResponse),
    /// Nothing was recorded, and the key is free again.
    Released(CapturedResponse),
    /// The same, with an answer of the framework's own.
    Refused(Problem),
    /// The operation is somebody else's now: what is recorded tells.
    Elsewhere,
    /// The outcome is unknown, until an operator resolves it.
    Unknown,
    /// It goes on later.
    Later,
    /// The store can't be reached; what is recorded goes on later.
    Store(StoreError),
}

/// What a handler did with its time.
enum Ran {
    Answered(Fate, CapturedResponse),
    NotStorable(String),
    Panicked,
    TimedOut,
    Stopped(Interrupt),
    TookConnection,
}

impl<DB: Backend> Attempt<DB> {
    /// Runs the handler to its end.
    pub(crate) async fn run<E: 'static>(mut self, mut again: Again<DB, E>) -> Ended {
        for run in 1..=MAX_RUNS {
            let ready = match again().await {
                Ok(ready) => ready,
                Err(why) => return self.interrupted(why).await,
            };
            let (ran, core) = self.once(ready).await;
            let interrupt = match self.end(ran, core).await {
                Ok(ended) => return ended,
                Err(Interrupt::Again) => {
                    tokio::time::sleep(jitter(POLL.0 * run)).await;
                    match self.reload().await {
                        Ok(true) => continue,
                        Ok(false) => return Ended::Elsewhere,
                        Err(error) => Interrupt::Store(error),
                    }
                }
                Err(why) => why,
            };
            return self.interrupted(interrupt).await;
        }
        let reason = "the database asked for another run each time";
        self.later(Duration::ZERO, reason).await
    }

    /// One run, from what is recorded.
    async fn once<E: 'static>(&self, ready: Ready<Steps<DB, E>>) -> (Ran, Core<DB>) {
        let stop = Stop::default();
        let progress = Arc::new(Progress::default());
        let mut steps: Steps<DB, E> = Steps::new(Core {
            idempotency: self.idempotency.clone(),
            operation: self.spec.name,
            fence: self.fence,
            operation_id: self.operation_id,
            lease: self.lease(),
            journal: self.journal.clone(),
            taken: 0,
            dirty: false,
            deferred: false,
            open: None,
            inside: false,
            late: None,
            clock: self.clock,
            trace: self.trace.clone(),
            progress: progress.clone(),
            stop: stop.clone(),
        });
        let watch = Arc::new(Watch::default());
        let max_response = self.rules.max_response;
        let handler = async {
            let settled = (ready.call)(&mut steps).await;
            match CapturedResponse::capture(settled.response, max_response).await {
                Ok(response) => Ran::Answered(settled.fate, response),
                Err(error) => Ran::NotStorable(error.to_string()),
            }
        };
        let handler = AssertUnwindSafe(watch.scope(handler)).catch_unwind();
        let ran = tokio::select! {
            biased;
            why = stop.stopped() => Ran::Stopped(why),
            ran = timeout(self.rules.timeout, handler) => match ran {
                Ok(Ok(ran)) => ran,
                Ok(Err(panic)) => {
                    faults::let_through(panic);
                    Ran::Panicked
                }
                Err(_) => Ran::TimedOut,
            },
            why = self.keep(&progress) => Ran::Stopped(why),
        };
        let ran = if watch.took_connection() {
            Ran::TookConnection
        } else {
            ran
        };
        (ran, steps.into_core())
    }

    /// Renews the lease until it is lost, or the worker has waited long enough for its end. A call that can't be repeated is
    /// waited for all the same: what it says, nobody else learns.
    async fn keep(&self, progress: &Progress) -> Interrupt {
        let why = tokio::select! {
            why = self.renew_until_lost(progress) => why,
            () = async {
                self.last_call().await;
                // The lease is renewed as long as that takes.
                progress.call_ended().await;
            } => Interrupt::Shutdown,
        };
        progress.call_ended().await;
        why
    }

    /// Ready when a worker that is being stopped waits no longer.
    async fn last_call(&self) {
        match &self.shutdown {
            Some(shutdown) => shutdown.cancelled().await,
            None => std::future::pending().await,
        }
        tokio::time::sleep(LAST_CALL).await;
    }

    async fn renew_until_lost(&self, progress: &Progress) -> Interrupt {
        let lease = self.lease();
        let mut renewed = Instant::now();
        loop {
            tokio::time::sleep(lease / 3).await;
            // A step's transaction and the renewal write the same row: at a higher isolation the step would run again. And
            // where there is one writer, nobody can take anything over meanwhile.
            if progress.is_open() && (DB::SINGLE_WRITER || renewed.elapsed() < lease / 2) {
                continue;
            }
            faults::point("renew");
            match core::renew(&self.idempotency, &self.fence, lease).await {
                Ok(true) => renewed = Instant::now(),
                Ok(false) => return Interrupt::LostLease,
                // The lease may outlast the outage.
                Err(error) if renewed.elapsed() < lease => {
                    tracing::warn!(target: "idem", operation = self.spec.name, %error, "a lease could not be renewed");
                }
                Err(error) => return Interrupt::Store(error),
            }
        }
    }

    /// Ends a run: the answer is stored, or it says why it is not.
    async fn end(&self, ran: Ran, mut core: Core<DB>) -> Result<Ended, Interrupt> {
        let ended = self.settle(ran, &mut core).await;
        if let Err(
            Interrupt::Later(..) | Interrupt::Again | Interrupt::Fault(..) | Interrupt::Shutdown,
        ) = &ended
        {
            core.record_deferred().await;
        }
        ended
    }

    async fn settle(&self, ran: Ran, core: &mut Core<DB>) -> Result<Ended, Interrupt> {
        let (fate, response) = match ran {
            Ran::Answered(fate, response) => (fate, response),
            Ran::NotStorable(error) => {
                tracing::warn!(target: "idem", operation = self.spec.name, error, "an answer can't be stored");
                let problem = Problem::new(Code::ResponseNotStorable);
                if core.journal.steps.is_empty() {
                    return self.release(Ended::Refused(problem)).await;
                }
                let style = &self.idempotency.shared.settings.problems;
                let response = problem.into_response(style);
                let captured = CapturedResponse::capture(response, usize::MAX).await;
                let captured = captured.map_err(|error| Interrupt::Unknown(error.to_string()))?;
                (Fate::Reject, captured)
            }
            // What the handler left running on a step's connection ends with it.
            Ran::Panicked => {
                return Err(Interrupt::Later(
                    Duration::ZERO,
                    "the handler panicked".to_owned(),
                ));
            }
            Ran::TimedOut => {
                return Err(Interrupt::Later(
                    Duration::ZERO,
                    format!("the handler took longer than {:?}", self.rules.timeout),
                ));
            }
            Ran::Stopped(why) => return Err(why),
            Ran::TookConnection => {
                return Err(Interrupt::Unknown(
                    "the handler took a connection of its own: an effect may be durable that no step records"
                        .to_owned(),
                ));
            }
        };
        if core.inside {
            return Err(Interrupt::Later(
                Duration::ZERO,
                "a step's future was dropped half way".to_owned(),
            ));
        }
        if fate == Fate::Retry {
            return Err(Interrupt::Again);
        }
        if let Some(next) = core.journal.steps.get(core.taken) {
            return Err(Interrupt::Unknown(format!(
                "the handler ended before step `{}`, which it took before",
                next.name
            )));
        }
        // An atomic step that failed undid its writes: nothing of it is durable.
        let nothing = core.open.is_none()
            && core
                .journal
                .steps
                .iter()
                .all(|step| step.state == StepState::Failed);
        let kept = match fate {
            Fate::Commit => true,
            Fate::Reject => response.status.as_u16() < 500,
            Fate::Err => self.rules.errors == Errors::Store && response.status.as_u16() < 500,
            Fate::Release | Fate::Transient | Fate::Retry => false,
        };
        if nothing && !kept {
            return self.release(Ended::Released(response)).await;
        }
        if fate == Fate::Transient && !says_the_same_again(core) {
            // Stored, it would be the answer for good, though the handler says that it may work later.
            let reason = format!("the handler answered {}, for the moment", response.status);
            return Err(Interrupt::Later(Duration::ZERO, reason));
        }
        self.complete(core, response).await
    }

    /// What is recorded now; false: it is not this attempt's any more.
    async fn reload(&mut self) -> Result<bool, StoreError> {
        let limit = self.limit();
        let mut alone = self.idempotency.alone(limit).await?;
        let id = self.fence.id;
        let row = alone.run(limit, async |connection: &mut DB::Connection| {
            DB::inspect(connection, &id).await
        });
        let Some(row) = row.await? else {
            return Ok(false);
        };
        drop(alone);
        if (row.attempt, row.owner) != (self.fence.attempt, self.fence.owner)
            || row.parked_at.is_some()
        {
            return Ok(false);
        }
        self.journal = journal(&self.idempotency, &row)?;
        self.clock = Clock::new(row.now);
        Ok(true)
    }

    /// Ends an attempt that can't begin.
    pub(crate) async fn stopped(self, why: Interrupt) -> Ended {
        self.interrupted(why).await
    }

    /// Leaves the operation to whoever comes after `delay`, as if it had not been taken.
    pub(crate) async fn put_back(self, delay: Duration) -> Ended {
        match self.hand_over(delay, true).await {
            Ok(true) => Ended::Later,
            Ok(false) => Ended::Elsewhere,
            Err(error) => Ended::Store(error),
        }
    }

    async fn interrupted(self, why: Interrupt) -> Ended {
        match why {
            Interrupt::LostLease | Interrupt::Again => Ended::Elsewhere,
            // As if it had not been taken. Where it fails the lease ends by itself.
            Interrupt::Shutdown => {
                let _ = timeout(CLEAN_UP, self.hand_over(Duration::ZERO, true)).await;
                Ended::Elsewhere
            }
            // Who has to look learns what it was, and not only that many attempts did not end it.
            Interrupt::Store(error @ StoreError::Cipher(_)) => {
                self.later(Duration::ZERO, &error.to_string()).await
            }
            Interrupt::Store(error) => {
                // The lease ends by itself; where the store is back already, sooner.
                match self.hand_over(Duration::from_secs(1), false).await {
                    Ok(false) => Ended::Elsewhere,
                    Ok(true) | Err(_) => Ended::Store(error),
                }
            }
            Interrupt::Unknown(reason) => self.park(&reason).await,
            Interrupt::Later(delay, reason) => self.later(delay, &reason).await,
            Interrupt::Fault(code, reason) => {
                tracing::error!(target: "idem", operation = self.spec.name, key = self.digest, reason, "a step failed by its handler's fault");
                match self.release(Ended::Refused(Problem::new(code))).await {
                    Ok(Ended::Refused(problem)) => Ended::Refused(problem),
                    // Something is recorded: another run would meet the same fault, but nothing is lost.
                    _ => self.later(Duration::ZERO, &reason).await,
                }
            }
        }
    }

    /// Leaves the operation to whoever comes later, or gives it up after too many attempts.
    async fn later(self, delay: Duration, reason: &str) -> Ended {
        let settings = &self.idempotency.shared.settings;
        let most = settings.max_attempts;
        if i64::from(self.tries) >= i64::from(most) {
            let reason = format!("{most} attempts did not end it; the last: {reason}");
            return self.park(&reason).await;
        }
        tracing::warn!(target: "idem", operation = self.spec.name, key = self.digest, attempt = self.fence.attempt, reason, "an attempt did not end its operation");
        let doublings = u32::try_from(self.tries.max(1) - 1).unwrap_or(0);
        let pause = doubled(settings.retry_pause, LONGEST_PAUSE, doublings).max(delay);
        match self.hand_over(pause, false).await {
            Ok(true) => Ended::Later,
            Ok(false) => Ended::Elsewhere,
            Err(error) => Ended::Store(error),
        }
    }

    async fn hand_over(&self, delay: Duration, in_order: bool) -> Result<bool, StoreError> {
        hand_over(&self.idempotency, &self.fence, delay, in_order).await
    }

    async fn park(self, reason: &str) -> Ended {
        faults::point("park.before");
        let limit = self.limit();
        let parked = async {
            let mut alone = self.idempotency.alone(limit).await?;
            let parked = alone.run(limit, async |connection: &mut DB::Connection| {
                DB::park(connection, &self.fence, reason).await
            });
            parked.await
        };
        match parked.await {
            Ok(true) => {
                telemetry::parked(self.spec.name, OperationId::of(self.fence.id), reason);
                Ended::Unknown
            }
            Ok(false) => Ended::Elsewhere,
            Err(error) => Ended::Store(error),
        }
    }

    /// Nothing is recorded: the key is free again.
    async fn release(&self, ended: Ended) -> Result<Ended, Interrupt> {
        faults::point("release.before");
        let limit = self.limit();
        let released = async {
            let mut alone = self.idempotency.alone(limit).await?;
            let released = alone.run(limit, async |connection: &mut DB::Connection| {
                DB::release(connection, &self.fence).await
            });
            released.await
        };
        match guard::unwatched(released).await {
            Ok(true) => Ok(ended),
            Ok(false) => Err(Interrupt::LostLease),
            Err(error) => Err(Interrupt::Store(error)),
        }
    }

    fn lease(&self) -> Duration {
        self.idempotency.shared.settings.lease
    }

    fn limit(&self) -> Instant {
        Instant::now() + self.idempotency.shared.settings.store_timeout
    }
}

/// Whether another run could only answer the same: a service refused, which is recorded and told to every run, and what came
/// after it did not fail.
fn says_the_same_again<DB: Backend>(core: &Core<DB>) -> bool {
    let steps = &core.journal.steps;
    let refused = steps.iter().any(|step| step.state == StepState::Refused);
    refused
        && steps
            .last()
            .is_some_and(|step| step.state != StepState::Failed)
}

async fn hand_over<DB: Backend>(
    idempotency: &Idempotency<DB>,
    fence: &Fence,
    delay: Duration,
    in_order: bool,
) -> Result<bool, StoreError> {
    faults::point("hand_over.before");
    let limit = Instant::now() + idempotency.shared.settings.store_timeout;
    let mut alone = idempotency.alone(limit).await?;
    let handed = alone.run(limit, async |connection: &mut DB::Connection| {
        DB::hand_over(connection, fence, delay, in_order).await
    });
    handed.await
}

/// The journal of a row.
pub(crate) fn journal<DB: Backend>(
    idempotency: &Idempotency<DB>,
    row: &OperationRow,
) -> Result<Journal, StoreError> {
    let Some(stored) = &row.journal else {
        return Ok(Journal::default());
    };
    let opened = core::unseal(idempotency, &row.id, b"journal", stored, row.journal_sealed)?;
    Journal::decode(&opened)
        .map_err(|error| StoreError::Corrupt(format!("the journal of an operation: {error}")))
}
