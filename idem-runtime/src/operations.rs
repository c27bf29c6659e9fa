//! Operations with recovery points, for operators: what is not resolved, why, and how to resolve it.
//!
//! Looking never acts. A decision is recorded with who made it and why, in the same transaction, and the operation then goes
//! on by the recovery worker: nothing is run here.
//!
//! ```
//! # #[cfg(feature = "sqlite")]
//! # async fn f(idempotency: idem_runtime::Idempotency<sqlx::Sqlite>) -> Result<(), idem_runtime::operations::OperationsError> {
//! use idem_runtime::operations::{Decision, List, OperationState};
//!
//! let operations = idempotency.operations();
//! for operation in operations.list(&List::all().state(OperationState::Unknown)).await? {
//!     println!("{} {}: {:?}", operation.id, operation.operation, operation.reason);
//!     // The provider's ledger says that it was charged.
//!     let charge = serde_json::json!({ "id": "ch_17" });
//!     operations.resolve(operation.seen, Decision::Done(charge), "alice", "ticket 123").await?;
//! }
//! # Ok(())
//! # }
//! ```

mod detail;
mod list;
mod status;
mod view;

use std::time::Duration;

use serde_json::Value;
use tokio::time::Instant;

pub use self::list::List;
pub use self::status::OperationStatus;
pub use self::view::{
    AuditEntry, NotAnOperationId, NotSeen, OperationDetail, OperationId, OperationState,
    OperationSummary, Seen, StepView, Unresolved,
};
use crate::backend::Backend;
use crate::backend::operations::{Audit, OperationRow};
use crate::idempotency::{Idempotency, StoreError};
use crate::steps::{Journal, StepState, journal_of, seal};
use crate::telemetry;

/// What went wrong.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OperationsError {
    /// There is no unresolved operation of this id.
    #[error("there is no unresolved operation {0}: it may have been completed meanwhile")]
    NotFound(OperationId),
    /// It is being worked on.
    #[error(
        "operation {0} is being worked on, and not unknown: wait until it ends, or is kept as unknown"
    )]
    NotUnknown(OperationId),
    /// Its last step is not one whose outcome is unknown.
    #[error(
        "operation {0} has no step whose outcome is unknown: correct what its reason says, and resume it"
    )]
    NothingBegun(OperationId),
    /// It is no longer as it was when somebody looked at it.
    #[error("operation {0} was changed since it was shown: look at it again")]
    Changed(OperationId),
    /// A request that was sent may still arrive.
    #[error(
        "the last request of operation {id} may still arrive: look again in {wait:?}, and only then say that it did not happen"
    )]
    StillInFlight {
        /// Which.
        id: OperationId,
        /// For how long.
        wait: Duration,
    },
    /// Neither who nor why may be empty.
    #[error("a decision needs who made it and why")]
    Unsigned,
    /// The database can't be reached, or its rows not be read.
    #[error("the idempotency store failed: {0}")]
    Store(#[source] Box<dyn std::error::Error + Send + Sync>),
}

impl From<StoreError> for OperationsError {
    fn from(error: StoreError) -> Self {
        Self::Store(Box::new(error))
    }
}

/// What became of a step whose outcome was unknown.
#[derive(Clone, Debug, PartialEq)]
pub enum Decision {
    /// It took place, with this result: JSON as the step's result is stored. One that the handler can't read keeps the
    /// operation as unknown.
    Done(Value),
    /// It did not take place, and the handler is told this refusal: JSON as the refusal is stored.
    Refused(Value),
}

impl Decision {
    fn action(&self) -> &'static str {
        match self {
            Self::Done(_) => "done",
            Self::Refused(_) => "refused",
        }
    }
}

/// See the [module](self). Made by [`Idempotency::operations`].
#[derive(Debug)]
pub struct Operations<DB: Backend> {
    idempotency: Idempotency<DB>,
}

impl<DB: Backend> Clone for Operations<DB> {
    fn clone(&self) -> Self {
        Self {
            idempotency: self.idempotency.clone(),
        }
    }
}

impl<DB: Backend> Idempotency<DB> {
    /// The operations that are not resolved.
    #[must_use]
    pub fn operations(&self) -> Operations<DB> {
        Operations {
            idempotency: self.clone(),
        }
    }
}

impl<DB: Backend> Operations<DB> {
    /// Lists operations that are not completed, the oldest first.
    ///
    /// # Errors
    ///
    /// [`OperationsError::Store`].
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub async fn list(&self, list: &List) -> Result<Vec<OperationSummary>, OperationsError> {
        let filter = list.filter();
        let rows = self
            .read(async |connection: &mut DB::Connection| DB::list(connection, &filter).await)
            .await?;
        Ok(rows.iter().map(OperationSummary::of).collect())
    }

    /// One operation that is not completed, with its steps; `None` if there is none of this id.
    ///
    /// # Errors
    ///
    /// [`OperationsError::Store`].
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub async fn inspect(
        &self,
        id: OperationId,
    ) -> Result<Option<OperationDetail>, OperationsError> {
        let Some(row) = self.row(id).await? else {
            return Ok(None);
        };
        let journal = journal_of(&self.idempotency, &row);
        let audit = self.audit(id).await?;
        Ok(Some(OperationDetail::of(&row, journal, audit)))
    }

    /// What operators decided about an operation, the oldest first. Kept when the operation is completed.
    ///
    /// # Errors
    ///
    /// [`OperationsError::Store`].
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub async fn audit(&self, id: OperationId) -> Result<Vec<AuditEntry>, OperationsError> {
        let record = id.record();
        let rows = self
            .read(async |connection: &mut DB::Connection| DB::audit(connection, &record).await)
            .await?;
        let entries = rows.into_iter().map(AuditEntry::of);
        let opened = entries.map(|entry| detail::opened(&self.idempotency, &record, entry));
        Ok(opened.collect())
    }

    /// How many are not resolved, and how old the oldest is.
    ///
    /// # Errors
    ///
    /// [`OperationsError::Store`].
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub async fn unresolved(&self) -> Result<Unresolved, OperationsError> {
        let counted = self
            .read(async |connection: &mut DB::Connection| DB::unresolved(connection).await)
            .await?;
        Ok(Unresolved::of(&counted))
    }

    /// Says what became of the step whose outcome is unknown; the operation goes on from there. `actor` and `reason` go into
    /// the audit. What was said may be corrected in the same way, if the operation becomes unknown again before another step:
    /// its handler could not read it.
    ///
    /// # Errors
    ///
    /// [`OperationsError`]; nothing is changed then.
    ///
    /// # Cancel safety
    ///
    /// Not cancel safe: whether the decision is recorded is not known. To decide again is refused or harmless.
    pub async fn resolve(
        &self,
        seen: Seen,
        decision: Decision,
        actor: &str,
        reason: &str,
    ) -> Result<(), OperationsError> {
        let id = seen.id();
        let row = self.unknown(seen).await?;
        let mut journal: Journal = journal_of(&self.idempotency, &row)?;
        if matches!(decision, Decision::Refused(_)) {
            nothing_in_flight(&row, &mut journal)?;
        }
        let step = journal.open().ok_or(OperationsError::NothingBegun(id))?;
        let name = step.name.clone();
        let (state, value) = match &decision {
            Decision::Done(value) => (StepState::Done, value),
            Decision::Refused(value) => (StepState::Refused, value),
        };
        let stored = serde_json::value::to_raw_value(value)
            .map_err(|error| OperationsError::Store(Box::new(error)))?;
        step.end(state, stored);
        step.decided = true;
        let detail = detail::written(&self.idempotency, &row.id, &name, value)?;
        let audit = Audit {
            actor,
            action: decision.action(),
            reason,
            detail: Some(&detail),
        };
        self.decide(&row, Some(&journal), &audit).await
    }

    /// Lets the recovery worker go on with an operation that is unknown, from what is recorded: what its reason says was
    /// corrected, or its provider can be asked again. A step that says `at_most_once` is not called again for it: say what
    /// became of it with [`resolve`](Self::resolve).
    ///
    /// # Errors
    ///
    /// [`OperationsError`]; nothing is changed then.
    ///
    /// # Cancel safety
    ///
    /// As of [`resolve`](Self::resolve).
    pub async fn resume(
        &self,
        seen: Seen,
        actor: &str,
        reason: &str,
    ) -> Result<(), OperationsError> {
        let row = self.unknown(seen).await?;
        let audit = Audit {
            actor,
            action: "resume",
            reason,
            detail: None,
        };
        self.decide(&row, None, &audit).await
    }

    async fn decide(
        &self,
        row: &OperationRow,
        journal: Option<&Journal>,
        audit: &Audit<'_>,
    ) -> Result<(), OperationsError> {
        if audit.actor.trim().is_empty() || audit.reason.trim().is_empty() {
            return Err(OperationsError::Unsigned);
        }
        let sealed = journal
            .map(|journal| seal(&self.idempotency, &row.id, b"journal", &journal.encode()))
            .transpose()?;
        let written = sealed
            .as_ref()
            .map(|sealed| (sealed.bytes.as_slice(), sealed.is_sealed));
        let decided = self
            .run(async |connection: &mut DB::Connection| {
                DB::decide(connection, &row.id, row.attempt, written, audit).await
            })
            .await?;
        if !decided {
            return Err(OperationsError::Changed(OperationId::of(row.id)));
        }
        telemetry::resolved(
            &row.operation,
            OperationId::of(row.id),
            audit.action,
            audit.actor,
        );
        Ok(())
    }

    /// The row, if it is still as it was seen.
    async fn unknown(&self, seen: Seen) -> Result<OperationRow, OperationsError> {
        let id = seen.id();
        let row = self.row(id).await?.ok_or(OperationsError::NotFound(id))?;
        if Seen::of(&row) != seen {
            return Err(OperationsError::Changed(id));
        }
        if row.parked_at.is_none() {
            return Err(OperationsError::NotUnknown(id));
        }
        Ok(row)
    }

    async fn row(&self, id: OperationId) -> Result<Option<OperationRow>, OperationsError> {
        let record = id.record();
        self.read(async |connection: &mut DB::Connection| DB::inspect(connection, &record).await)
            .await
    }

    /// Without the writer's turn, where there is one writer: looking waits for nobody.
    async fn read<T>(
        &self,
        part: impl std::ops::AsyncFnOnce(&mut DB::Connection) -> sqlx::Result<T>,
    ) -> Result<T, OperationsError> {
        let limit = Instant::now() + self.idempotency.shared.settings.store_timeout;
        let mut reading = self.idempotency.reading(limit).await?;
        Ok(reading.run(limit, part).await?)
    }

    async fn run<T>(
        &self,
        part: impl std::ops::AsyncFnOnce(&mut DB::Connection) -> sqlx::Result<T>,
    ) -> Result<T, OperationsError> {
        let limit = Instant::now() + self.idempotency.shared.settings.store_timeout;
        let mut alone = self.idempotency.alone(limit).await?;
        Ok(alone.run(limit, part).await?)
    }
}

/// Whether the last request has surely arrived by now, or never will.
fn nothing_in_flight(row: &OperationRow, journal: &mut Journal) -> Result<(), OperationsError> {
    let call = journal.open().and_then(|step| step.call.as_ref());
    let left = call.map_or(0, |call| call.last_at + call.limit - row.now);
    match u64::try_from(left) {
        Ok(left) if left > 0 => Err(OperationsError::StillInFlight {
            id: OperationId::of(row.id),
            wait: Duration::from_millis(left),
        }),
        _ => Ok(()),
    }
}
