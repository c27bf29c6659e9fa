//! The end of an attempt: the answer stored and committed, or everything undone.

use std::time::Duration;

use tokio::time::timeout;

use super::{Attempt, CLEAN_UP, COMMIT, Step};
use crate::accept::{Finished, Landed};
use crate::backend::{
    self, Answer, Backend, Claim, Completed, EndFailure, Fault, State, TransactionState,
};
use crate::faults::{self, Plant};
use crate::idempotency::StoreError;
use crate::parcel::Parcel;
use crate::problem::Code;
use crate::response::CapturedResponse;
use crate::telemetry::Signal;
use crate::tx::{Tx, tell_unacknowledged};

impl<DB: Backend> Attempt<DB> {
    /// Stores the answer and commits.
    pub(super) async fn commit(
        &self,
        mut tx: Tx<DB>,
        claim: &Claim<'_>,
        response: CapturedResponse,
        took_over: bool,
    ) -> Result<Step, StoreError> {
        let parcel = match self.parcel(&response, tx.resources()) {
            Ok(parcel) => parcel,
            Err(error) => {
                tx.roll_back().await;
                return Err(error);
            }
        };
        let answer = parcel.answer(&self.ticket.rules);
        if faults::planted(Plant::AnswerBefore) {
            self.alone(claim, State::Completed, &answer).await?;
            faults::point("planted.between");
            tx.commit_within(COMMIT)
                .await
                .map_err(StoreError::Database)?;
            return Ok(Step::Finished(
                self.accepted(&parcel, response, None, false),
            ));
        }
        if faults::planted(Plant::AnswerAfter) {
            tx.commit_within(COMMIT)
                .await
                .map_err(StoreError::Database)?;
            faults::point("planted.between");
            self.alone(claim, State::Completed, &answer).await?;
            return Ok(Step::Finished(
                self.accepted(&parcel, response, None, false),
            ));
        }
        if faults::planted(Plant::NoClaim) || faults::planted(Plant::ExpiredNotAtomic) {
            let (connection, _) = tx.parts();
            let _ = DB::settle_alone(connection, claim, State::Completed, &answer).await;
            tx.commit_within(COMMIT)
                .await
                .map_err(StoreError::Database)?;
            return Ok(Step::Finished(
                self.accepted(&parcel, response, None, false),
            ));
        }
        if DB::fuses_commit(tx.session(), &answer) {
            // A part that was dropped has not rolled back yet; its count says so already.
            if tx.is_nested() {
                return Ok(self.left_open(tx, claim).await);
            }
            return self.commit_fused(tx, claim, &parcel, response).await;
        }
        faults::point("complete.before");
        let (connection, session) = tx.parts();
        let completed = timeout(COMMIT, DB::complete(connection, session, claim, &answer)).await;
        faults::point("complete.after");
        let Ok(completed) = completed else {
            tx.abandon();
            return Err(StoreError::TimedOut("the storing of an answer"));
        };
        let stored = match completed {
            Ok(Completed::Stored(stored)) => stored,
            Ok(Completed::Lost) => {
                tx.roll_back().await;
                return Ok(Step::Conflict);
            }
            Ok(Completed::NotOpen(TransactionState::RolledBack)) => {
                tx.roll_back().await;
                return Ok(Step::Finished(self.released(Code::TransactionAborted)));
            }
            Ok(Completed::NotOpen(_)) => {
                return self.ended(tx, claim, Code::TransactionEnded).await;
            }
            Err(error) => {
                if backend::fault(&error) == Fault::Aborted
                    && let Some(ended) = self.state(&mut tx, claim).await
                {
                    return self.gone(tx, claim, ended).await;
                }
                return self.not_stored(tx, error).await;
            }
        };
        if tx.is_nested() {
            return Ok(self.left_open(tx, claim).await);
        }
        faults::point("commit.before");
        let committed = tx.commit_within(COMMIT).await;
        faults::point("commit.after");
        match committed {
            Ok(()) => {}
            Err(_) if faults::planted(Plant::CommitSwallowed) => {}
            Err(error) => {
                return match backend::fault(&error) {
                    Fault::RunAgain => Ok(Step::Again),
                    Fault::Constraint | Fault::Aborted => Ok(self.constraint_failed(claim, &error)),
                    Fault::Store => {
                        tell_unacknowledged(Some(claim.operation), Some(&error));
                        Ok(Step::Unacknowledged(response))
                    }
                };
            }
        }
        Ok(Step::Finished(self.accepted(
            &parcel,
            response,
            stored.expires_at,
            took_over,
        )))
    }

    /// The same in one message, where the claim was one with the begin.
    async fn commit_fused(
        &self,
        mut tx: Tx<DB>,
        claim: &Claim<'_>,
        parcel: &Parcel,
        response: CapturedResponse,
    ) -> Result<Step, StoreError> {
        let answer = parcel.answer(&self.ticket.rules);
        faults::point("complete.before");
        let (connection, session) = tx.parts();
        let committed = DB::complete_and_commit(connection, session, claim, &answer);
        let committed = timeout(COMMIT, committed).await;
        faults::point("commit.after");
        let error = match committed.unwrap_or(Err(EndFailure::Open(None))) {
            Ok(Completed::Stored(stored)) => {
                tx.release();
                let finished = self.accepted(parcel, response, stored.expires_at, false);
                return Ok(Step::Finished(finished));
            }
            Ok(Completed::Lost) => {
                tx.roll_back().await;
                return Ok(Step::Conflict);
            }
            Ok(Completed::NotOpen(_)) => {
                return self.ended(tx, claim, Code::TransactionEnded).await;
            }
            Err(EndFailure::Storing(error)) => {
                if let Some(ended) = self.state(&mut tx, claim).await {
                    return self.gone(tx, claim, ended).await;
                }
                return self.not_stored(tx, error).await;
            }
            Err(_) if faults::planted(Plant::CommitSwallowed) => {
                tx.abandon();
                return Ok(Step::Finished(self.accepted(parcel, response, None, false)));
            }
            Err(EndFailure::Open(error)) => {
                tx.abandon();
                tell_unacknowledged(Some(claim.operation), error.as_ref());
                return Ok(Step::Unacknowledged(response));
            }
            Err(EndFailure::RolledBack(error)) => error,
        };
        tx.roll_back().await;
        match backend::fault(&error) {
            Fault::RunAgain => Ok(Step::Again),
            Fault::Constraint | Fault::Aborted => Ok(self.constraint_failed(claim, &error)),
            Fault::Store => Err(StoreError::Database(error)),
        }
    }

    /// The database refused to store the answer in the claim's transaction.
    async fn not_stored(&self, mut tx: Tx<DB>, error: sqlx::Error) -> Result<Step, StoreError> {
        let fault = backend::fault(&error);
        if fault == Fault::Store {
            tx.doubt();
        }
        tx.roll_back().await;
        match fault {
            Fault::RunAgain => Ok(Step::Again),
            Fault::Aborted => Ok(Step::Finished(self.released(Code::TransactionAborted))),
            Fault::Constraint | Fault::Store => Err(StoreError::Database(error)),
        }
    }

    /// A transaction that the handler began inside its own was forgotten: what the commit would end is unclear.
    async fn left_open(&self, tx: Tx<DB>, claim: &Claim<'_>) -> Step {
        tracing::error!(target: "idem", operation = claim.operation, "a transaction inside the handler's was never ended; all is rolled back");
        tx.roll_back().await;
        Step::Finished(self.released(Code::TransactionAborted))
    }

    /// A deferred constraint failed, or the handler ignored an error: the database rolled back.
    fn constraint_failed(&self, claim: &Claim<'_>, error: &sqlx::Error) -> Step {
        tracing::error!(target: "idem", operation = claim.operation, %error, "the transaction failed at its end");
        Step::Finished(self.released(Code::TransactionAborted))
    }

    /// The effect is undone, and its answer stored by a statement of its own.
    pub(super) async fn reject(
        &self,
        mut tx: Tx<DB>,
        claim: &Claim<'_>,
        response: CapturedResponse,
    ) -> Result<Step, StoreError> {
        if let Some(ended) = self.state(&mut tx, claim).await {
            return self.gone(tx, claim, ended).await;
        }
        let parcel = match self.parcel(&response, tx.resources()) {
            Ok(parcel) => parcel,
            Err(error) => {
                tx.roll_back().await;
                return Err(error);
            }
        };
        let _turn = tx.take_turn();
        tx.roll_back().await;
        faults::point("reject.before");
        let stored = self
            .alone(claim, State::Completed, &parcel.answer(&self.ticket.rules))
            .await;
        faults::point("reject.after");
        Ok(match stored {
            Ok(Some(stored)) => {
                Step::Finished(self.accepted(&parcel, response, stored.expires_at, false))
            }
            Ok(None) => Step::Conflict,
            // Another node of a cluster was first.
            Err(StoreError::Database(error)) if backend::asks_to_run_again(&error) => Step::Again,
            Err(error) => return Err(error),
        })
    }

    /// Rolls back, and answers `finished` unless another attempt's record is there.
    pub(super) async fn undo(
        &self,
        mut tx: Tx<DB>,
        claim: &Claim<'_>,
        finished: Finished,
    ) -> Result<Step, StoreError> {
        if let Some(ended) = self.state(&mut tx, claim).await {
            return self.gone(tx, claim, ended).await;
        }
        tx.roll_back().await;
        if self.ticket.idempotency.looks_last()
            && let Some(other) = self.look(self.limit(), &Vec::new(), true).await?
        {
            return Ok(Step::Finished(other));
        }
        Ok(Step::Finished(finished))
    }

    /// What became of a transaction that is to be rolled back, when it is no longer open.
    pub(super) async fn state(
        &self,
        tx: &mut Tx<DB>,
        claim: &Claim<'_>,
    ) -> Option<TransactionState> {
        match timeout(CLEAN_UP, tx.state(Some(claim))).await {
            Ok(Ok(TransactionState::Open)) => None,
            // Nothing is left of it, and nothing followed: it is as if it were rolled back now.
            Ok(Ok(TransactionState::RolledBack)) if DB::ENDS_BY_ITSELF => None,
            Ok(Ok(ended)) => Some(ended),
            // The connection is lost, or busy with a statement that can't be stopped: closing it rolls back.
            Ok(Err(_)) | Err(_) => {
                tx.doubt();
                None
            }
        }
    }

    async fn gone(
        &self,
        tx: Tx<DB>,
        claim: &Claim<'_>,
        state: TransactionState,
    ) -> Result<Step, StoreError> {
        match state {
            TransactionState::Ended | TransactionState::Unclear => {
                self.ended(tx, claim, Code::TransactionEnded).await
            }
            _ => {
                tx.roll_back().await;
                Ok(Step::Finished(self.released(Code::TransactionAborted)))
            }
        }
    }

    /// Something may be durable that is not in the transaction: the key is kept, as unknown.
    pub(super) async fn ended(
        &self,
        mut tx: Tx<DB>,
        claim: &Claim<'_>,
        code: Code,
    ) -> Result<Step, StoreError> {
        let id = crate::digest::hex(claim.id.as_bytes());
        tx.breach(code)
            .tell(claim.operation, &self.ticket.digest, &id, code);
        let _turn = tx.take_turn();
        tx.roll_back().await;
        let answer = Answer {
            status: 500,
            content: None,
            resources: None,
            ttl: None,
            tombstone: Duration::ZERO,
        };
        // Even where the store fails now: a retry must not be what the answer asks for.
        if let Err(error) = self.alone(claim, State::Unknown, &answer).await {
            tracing::error!(
                target: "idem",
                operation = claim.operation,
                key = self.ticket.digest,
                id,
                %error,
                "the key could not be kept as unknown: a retry of it would run again"
            );
        }
        Ok(Step::Finished(self.refused(code, Signal::Unresolved)))
    }

    async fn alone(
        &self,
        claim: &Claim<'_>,
        state: State,
        answer: &Answer<'_>,
    ) -> Result<Option<backend::Stored>, StoreError> {
        let limit = self.limit();
        let mut alone = self.ticket.idempotency.reading(limit).await?;
        let settle = async |connection: &mut DB::Connection| {
            DB::settle_alone(connection, claim, state, answer).await
        };
        alone.run(limit, settle).await
    }

    fn accepted(
        &self,
        parcel: &Parcel,
        response: CapturedResponse,
        expires_at: Option<i64>,
        took_over: bool,
    ) -> Finished {
        Finished {
            landed: Landed::Completed(parcel.completed(expires_at)),
            own: Some((response, expires_at)),
            signal: if took_over {
                Signal::Expired
            } else {
                Signal::Accepted
            },
            released: false,
        }
    }
}
