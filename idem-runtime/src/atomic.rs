//! One transaction: claim → handler → stored answer → commit.
//!
//! Everything here runs in a future that no disconnect of a client can drop (see `detach`).

mod claim;
mod ending;
mod record;

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use axum::response::Response;
use futures_util::FutureExt;
use tokio::time::{Instant, timeout};
use uuid::Uuid;

use self::claim::Begun;
use crate::accept::{Buffered, Finished, Landed, Ticket};
use crate::backend::{Backend, Claim, TransactionState};
use crate::backoff::{Doubt, jitter};
use crate::call;
use crate::faults;
use crate::fingerprint::Fingerprint;
use crate::flight::Claiming;
use crate::guard::Watch;
use crate::idempotency::StoreError;
use crate::operation::{Errors, InFlight};
use crate::options;
use crate::outbox::TraceContext;
use crate::problem::{Code, Problem};
use crate::response::{CapturedResponse, NotStorable};
use crate::scope::{RecordId, ScopeKey};
use crate::settle::Fate;
use crate::telemetry::Signal;
use crate::tx::Tx;

pub(crate) type Prepare<DB> = call::Prepare<Tx<DB>>;
pub(crate) type Ready<DB> = call::Ready<Tx<DB>>;

/// How often a handler is run for one request when the database asks for it.
pub(crate) const MAX_RUNS: u32 = 5;
/// How long an attempt that is over may take to find out what became of its transaction.
pub(crate) const CLEAN_UP: Duration = Duration::from_secs(1);
/// How long a commit, or the storing of an answer before it, may take until its outcome is read from the
/// record instead.
pub(crate) const COMMIT: Duration = Duration::from_secs(5);
/// The first and the longest pause between two looks at a key that another process works on.
pub(crate) const POLL: (Duration, Duration) =
    (Duration::from_millis(10), Duration::from_millis(250));

/// A request that runs its handler for its key.
pub(crate) struct Attempt<DB: Backend> {
    pub(crate) ticket: Arc<Ticket<DB>>,
    pub(crate) buffered: Buffered,
    pub(crate) scope: ScopeKey,
    pub(crate) id: RecordId,
    pub(crate) operation_id: Uuid,
    pub(crate) fingerprint: Fingerprint,
    pub(crate) claiming: Claiming<Landed>,
}

/// Where one try of an attempt led.
enum Step {
    Finished(Finished),
    /// Another process works on the key.
    InFlight,
    /// The database asks for another run.
    Again,
    /// Another attempt's record was there first: it answers.
    Conflict,
    /// The commit's acknowledgement is lost: the record tells.
    Unacknowledged(CapturedResponse),
}

/// What a handler did with its time.
pub(crate) enum Ran {
    Answered(Fate, CapturedResponse),
    NotStorable(NotStorable),
    Panicked,
    TimedOut,
}

/// The answers of commits that were not acknowledged, by the owner that they were stored under.
pub(crate) type Unacknowledged = Vec<([u8; 16], CapturedResponse)>;

impl<DB: Backend> Attempt<DB> {
    pub(crate) async fn run(self, mut prepare: Prepare<DB>) -> Finished {
        let options = options::encode(self.ticket.spec);
        let shared = self.ticket.idempotency.shared.clone();
        let mut owner = new_owner();
        let mut unacknowledged = Unacknowledged::new();
        // One limit for all that precedes the handler.
        let mut limit = self.limit();
        // A key that was answered lately is most likely a replay, and one statement answers it. Where one
        // writer at a time is all there is, a replay must not wait for its turn.
        if DB::SINGLE_WRITER || shared.recent.contains(&self.id) {
            match self.look(limit, &unacknowledged, false).await {
                Ok(Some(finished)) => return finished,
                Ok(None) => {}
                Err(error) => return self.store_failure(&error),
            }
        }
        let wait_until = Instant::now() + self.ticket.rules.wait;
        let mut pause = POLL.0;
        let mut doubt = Doubt::of::<DB>();
        let mut runs = 0;
        let mut conflict = false;
        let mut ready = None;
        loop {
            if ready.is_none() {
                match prepare(&self.buffered.parts, &self.buffered.body).await {
                    Ok(prepared) => ready = Some(prepared),
                    Err(rejection) => return self.rejected(rejection).await,
                }
            }
            let claim = Claim {
                id: &self.id,
                scope: &self.scope,
                operation: self.ticket.spec.name,
                fingerprint: &self.fingerprint,
                fingerprint_options: options.as_deref(),
                owner,
                lock_namespace: shared.settings.lock_namespace(),
            };
            let step = self
                .once(&claim, &mut ready, &unacknowledged, conflict, limit)
                .await;
            limit = self.limit();
            match step {
                Ok(Step::Finished(finished)) => {
                    if matches!(finished.landed, Landed::Completed(_)) {
                        shared.recent.insert(&self.id);
                        faults::keep(&self.id);
                    }
                    return finished;
                }
                Ok(Step::InFlight) => {
                    let reject = self.ticket.rules.in_flight == InFlight::Reject;
                    if !unacknowledged.is_empty() && Instant::now() >= wait_until {
                        return self.refused(Code::StoreUnavailable, Signal::StoreFailure);
                    }
                    if reject && unacknowledged.is_empty() || Instant::now() >= wait_until {
                        if doubt.is_over() {
                            return self.refused(Code::KeyInProgress, Signal::PendingDuplicate);
                        }
                        doubt.pause().await;
                        continue;
                    }
                    tokio::time::sleep(jitter(pause)).await;
                    pause = (pause * 2).min(POLL.1);
                    continue;
                }
                Ok(Step::Conflict) => {
                    conflict = true;
                    shared.recent.insert(&self.id);
                }
                Ok(Step::Again) => tokio::time::sleep(jitter(POLL.0 * (runs + 1))).await,
                Ok(Step::Unacknowledged(response)) => unacknowledged.push((owner, response)),
                // Whether or not the handler ran: its transaction is rolled back.
                Err(error) => return self.store_failure(&error),
            }
            owner = new_owner();
            runs += 1;
            if runs >= MAX_RUNS {
                return self.given_up(limit, &unacknowledged).await;
            }
        }
    }

    /// No more runs. A commit that was not acknowledged may have happened, or be about to.
    async fn given_up(&self, limit: Instant, unacknowledged: &Unacknowledged) -> Finished {
        if unacknowledged.is_empty() {
            return self.released(Code::SerializationFailure);
        }
        match self.look(limit, unacknowledged, true).await {
            Ok(Some(finished)) => finished,
            Ok(None) => self.refused(Code::StoreUnavailable, Signal::StoreFailure),
            Err(error) => self.late_failure(&error),
        }
    }

    /// One transaction.
    async fn once(
        &self,
        claim: &Claim<'_>,
        ready: &mut Option<Ready<DB>>,
        unacknowledged: &Unacknowledged,
        conflict: bool,
        limit: Instant,
    ) -> Result<Step, StoreError> {
        let (mut tx, took_over) = match self.claimed(claim, unacknowledged, conflict, limit).await?
        {
            Begun::Won { tx, took_over } => (tx, took_over),
            Begun::Not(step) => return Ok(*step),
        };
        tx.belong_to(TraceContext::of(&self.buffered.parts.headers));
        self.claiming.claimed();
        let Some(ready) = ready.take() else {
            tx.abandon();
            return Ok(Step::Again);
        };
        let watch = Arc::new(Watch::default());
        let ran = run(&self.ticket, &mut tx, ready, &watch).await;
        faults::point("handler.after");
        if watch.took_connection() {
            return self.ended(tx, claim, Code::EffectOutsideTransaction).await;
        }
        match ran {
            Ran::Answered(Fate::Commit, _) if tx.is_poisoned() => {
                tracing::error!(target: "idem", operation = claim.operation, "a savepoint was cancelled; the transaction is rolled back");
                self.undo(tx, claim, self.released(Code::TransactionAborted))
                    .await
            }
            Ran::Answered(fate, response)
                if (fate == Fate::Commit || self.rejects(fate, &response))
                    && !options::resources_fit(tx.resources()) =>
            {
                tracing::error!(target: "idem", operation = claim.operation, "the references of an operation are too long to be stored");
                self.undo(tx, claim, self.released(Code::ResponseNotStorable))
                    .await
            }
            Ran::Answered(Fate::Commit, response) => {
                self.commit(tx, claim, response, took_over).await
            }
            // Another run would double what the handler has made durable itself.
            Ran::Answered(Fate::Retry, _) => match self.state(&mut tx, claim).await {
                Some(TransactionState::Ended | TransactionState::Unclear) => {
                    self.ended(tx, claim, Code::TransactionEnded).await
                }
                _ => {
                    tx.roll_back().await;
                    Ok(Step::Again)
                }
            },
            Ran::Answered(fate, response) if self.rejects(fate, &response) => {
                self.reject(tx, claim, response).await
            }
            Ran::Answered(_, response) => self.undo(tx, claim, Finished::unstored(response)).await,
            Ran::NotStorable(error) => {
                tracing::warn!(target: "idem", operation = self.ticket.spec.name, %error, "an answer can't be stored");
                self.undo(tx, claim, self.released(Code::ResponseNotStorable))
                    .await
            }
            Ran::Panicked => {
                self.undo(tx, claim, self.released(Code::HandlerPanicked))
                    .await
            }
            Ran::TimedOut => {
                self.ticket.idempotency.cancel(tx.session()).await;
                self.undo(tx, claim, self.released(Code::HandlerTimedOut))
                    .await
            }
        }
    }

    /// Whether an error's answer is stored.
    fn rejects(&self, fate: Fate, response: &CapturedResponse) -> bool {
        let asked = match fate {
            Fate::Reject => true,
            Fate::Err => self.ticket.rules.errors == Errors::Store,
            _ => false,
        };
        asked && response.status.as_u16() < 500
    }

    /// The body's extractor refused: a stored answer is replayed all the same, since a deploy may have
    /// tightened the validation between two attempts.
    pub(crate) async fn rejected(&self, rejection: Response) -> Finished {
        match self.look(self.limit(), &Vec::new(), false).await {
            Ok(Some(finished)) => return finished,
            Ok(None) => {}
            Err(error) => return self.store_failure(&error),
        }
        match CapturedResponse::capture(rejection, self.ticket.rules.max_response).await {
            Ok(response) => Finished {
                signal: Signal::Refused,
                released: false,
                ..Finished::unstored(response)
            },
            Err(_) => self.refused(Code::BodyUnreadable, Signal::Refused),
        }
    }

    pub(crate) fn refused(&self, code: Code, signal: Signal) -> Finished {
        Finished::refused(self.ticket.problem(code, self.id), signal)
    }

    fn released(&self, code: Code) -> Finished {
        Finished {
            released: true,
            ..self.refused(code, Signal::Accepted)
        }
    }

    pub(crate) fn store_failure(&self, error: &StoreError) -> Finished {
        error.log(self.ticket.spec.name, "the idempotency store failed");
        self.refused(error.code(), Signal::StoreFailure)
    }

    /// The same, where something may have been done: whatever is missing then, nobody may say that nothing was.
    pub(crate) fn late_failure(&self, error: &StoreError) -> Finished {
        error.log(self.ticket.spec.name, "the idempotency store failed");
        self.refused(Code::StoreUnavailable, Signal::StoreFailure)
    }

    pub(crate) fn limit(&self) -> Instant {
        Instant::now() + self.ticket.idempotency.shared.settings.store_timeout
    }
}

impl Finished {
    pub(crate) fn refused(problem: Problem, signal: Signal) -> Self {
        Self {
            landed: Landed::Refused(problem),
            own: None,
            signal,
            released: false,
        }
    }

    /// A handler's answer whose effect is undone and whose key is free.
    pub(crate) fn unstored(response: CapturedResponse) -> Self {
        Self {
            own: Some((response.clone(), None)),
            landed: Landed::Unstored(response),
            signal: Signal::Accepted,
            released: true,
        }
    }
}

/// Runs the handler and reads its answer, within the time it has.
pub(crate) async fn run<DB: Backend>(
    ticket: &Ticket<DB>,
    tx: &mut Tx<DB>,
    ready: Ready<DB>,
    watch: &Arc<Watch>,
) -> Ran {
    let handler = async {
        let settled = (ready.call)(tx).await;
        let limit = ticket.rules.max_response;
        match CapturedResponse::capture(settled.response, limit).await {
            Ok(response) => Ran::Answered(settled.fate, response),
            Err(error) => Ran::NotStorable(error),
        }
    };
    let bounded = timeout(ticket.rules.timeout, watch.scope(handler));
    match AssertUnwindSafe(bounded).catch_unwind().await {
        Ok(Ok(ran)) => ran,
        Ok(Err(_)) => Ran::TimedOut,
        Err(panic) => {
            faults::let_through(panic);
            Ran::Panicked
        }
    }
}

pub(crate) fn new_owner() -> [u8; 16] {
    fastrand::u128(..).to_be_bytes()
}
