//! One attempt of an operation: its handler runs under a lease, from what is recorded, until it answers or can't go on.

mod completion;
mod lease;
mod leaving;

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
use crate::atomic::{MAX_RUNS, POLL};
use crate::backend::Backend;
use crate::backend::operations::{Fence, OperationRow};
use crate::backoff::jitter;
use crate::call::Ready;
use crate::faults;
use crate::guard::Watch;
use crate::idempotency::{Idempotency, Rules, StoreError};
use crate::operation::{Errors, Spec};
use crate::outbox::TraceContext;
use crate::problem::{Code, Problem};
use crate::response::CapturedResponse;
use crate::settle::Fate;

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
