//! The answer of an operation stored, with what its last atomic step left open.

use tokio::time::{Instant, timeout};

use super::super::core::{self, Core};
use super::super::stop::Interrupt;
use super::{Attempt, Ended};
use crate::atomic::COMMIT;
use crate::backend::{self, Answer, Backend, EndFailure, Fault, Stored};
use crate::faults;
use crate::options;
use crate::parcel::Parcel;
use crate::problem::Code;
use crate::response::CapturedResponse;
use crate::tx::{Tx, tell_unacknowledged};

impl<DB: Backend> Attempt<DB> {
    /// Stores the answer, with what the last atomic step left open.
    pub(super) async fn complete(
        &self,
        core: &mut Core<DB>,
        response: CapturedResponse,
    ) -> Result<Ended, Interrupt> {
        if !options::resources_fit(&core.journal.resources) {
            let reason = "the references of the operation are too long to be stored".to_owned();
            return Err(Interrupt::Fault(Code::StepNotStorable, reason));
        }
        core.deferred = false;
        let settings = &self.idempotency.shared.settings;
        let resources = &core.journal.resources;
        let parcel = Parcel::new(
            settings,
            &self.fence.id,
            self.rebuilds,
            &response,
            resources,
        );
        let parcel = parcel.map_err(Interrupt::Store)?;
        let answer: Answer<'_> = parcel.answer(&self.rules);
        let tx = match core.open.take() {
            Some(tx) => tx,
            None => {
                let limit = Instant::now() + settings.store_timeout;
                let begun = self.idempotency.begin_step(self.operation_id, limit).await;
                begun.map_err(Interrupt::Store)?
            }
        };
        let length = answer.content_length();
        let stored = if DB::records_with_commit(tx.session(), length) {
            self.end_with_commit(tx, &answer).await?
        } else {
            self.end_alone(tx, &answer).await?
        };
        Ok(Ended::Completed(
            parcel.completed(stored.expires_at),
            response,
        ))
    }

    async fn end_alone(&self, mut tx: Tx<DB>, answer: &Answer<'_>) -> Result<Stored, Interrupt> {
        faults::point("complete.before");
        let mark = tx.mark();
        let (connection, _) = tx.parts();
        let completed = DB::complete_operation(connection, mark.as_deref(), &self.fence, answer);
        let stored = match timeout(COMMIT, completed).await {
            Ok(Ok(Some(stored))) => stored,
            Ok(Ok(None)) => {
                let why = core::ended(tx, None).await;
                return Err(why.unwrap_or(Interrupt::LostLease));
            }
            Ok(Err(error)) => {
                let fault = core::interrupt(error);
                return Err(core::ended(tx, Some(&fault)).await.unwrap_or(fault));
            }
            Err(_) => {
                tx.abandon();
                return Err(Interrupt::Again);
            }
        };
        faults::point("complete.after");
        let committed = tx.commit_within(COMMIT).await;
        faults::point("commit.after");
        if let Err(error) = committed {
            return Err(match backend::fault(&error) {
                Fault::Constraint | Fault::Aborted => {
                    Interrupt::Fault(Code::TransactionAborted, error.to_string())
                }
                // Its acknowledgement may be lost: what is recorded tells.
                Fault::Store => {
                    tell_unacknowledged(None, Some(&error));
                    Interrupt::Again
                }
                Fault::RunAgain => Interrupt::Again,
            });
        }
        Ok(stored)
    }

    /// The same in one message.
    async fn end_with_commit(
        &self,
        mut tx: Tx<DB>,
        answer: &Answer<'_>,
    ) -> Result<Stored, Interrupt> {
        faults::point("complete.before");
        let (connection, session) = tx.parts();
        let committed = DB::complete_operation_and_commit(connection, session, &self.fence, answer);
        let committed = timeout(COMMIT, committed).await;
        faults::point("commit.after");
        match committed.unwrap_or(Err(EndFailure::Open(None))) {
            Ok(Some(stored)) => {
                tx.release();
                Ok(stored)
            }
            Ok(None) => {
                let why = core::ended(tx, None).await;
                Err(why.unwrap_or(Interrupt::LostLease))
            }
            Err(failure) => Err(core::not_committed(tx, failure).await),
        }
    }
}
