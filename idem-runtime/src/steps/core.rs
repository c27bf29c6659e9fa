//! What a handler's steps share: the journal, the fence, and the transaction of a step that is not committed yet.

mod progress;
mod sealing;
mod writing;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use serde_json::value::RawValue;
use tokio::time::{Instant, timeout};
use uuid::Uuid;

use super::journal::{Entry, Journal, Kind, StepState};
use super::quotable::quotable;
use super::stop::{Interrupt, Stop};
use crate::atomic::CLEAN_UP;
use crate::backend::operations::{Fence, Written};
use crate::backend::{Backend, TransactionState};
use crate::faults;
use crate::guard;
use crate::idempotency::Idempotency;
use crate::operations::OperationId;
use crate::outbox::TraceContext;
use crate::telemetry;
use crate::tx::Tx;

pub(crate) use self::progress::{Clock, Progress};
pub(crate) use self::sealing::{Sealed, seal, unseal};
pub(crate) use self::writing::{ended, interrupt, not_committed, renew};
use self::writing::{write_alone, write_in};

/// See the module.
pub(crate) struct Core<DB: Backend> {
    pub(crate) idempotency: Idempotency<DB>,
    pub(crate) operation: &'static str,
    pub(crate) fence: Fence,
    pub(crate) operation_id: Uuid,
    pub(crate) lease: Duration,
    pub(crate) journal: Journal,
    /// How many steps the handler has taken.
    pub(crate) taken: usize,
    /// The journal says more than the database.
    pub(crate) dirty: bool,
    /// What it says more can wait for the next commit: the end of a call whose service honours its key.
    pub(crate) deferred: bool,
    /// The last atomic step's transaction: it commits with what comes next.
    pub(crate) open: Option<Tx<DB>>,
    /// A step's future is running. Seen by another step, it was dropped half way.
    pub(crate) inside: bool,
    /// The external step whose end is being recorded, where its service does not honour the key: what can't be recorded now has
    /// happened all the same.
    pub(crate) late: Option<&'static str>,
    pub(crate) clock: Clock,
    /// Of the request, for the messages that steps stage.
    pub(crate) trace: Option<TraceContext>,
    pub(crate) progress: Arc<Progress>,
    pub(crate) stop: Stop,
}

/// Where a step stands when the handler comes to it.
pub(crate) enum Entered {
    /// It is taken for the first time, or failed before.
    New,
    /// It is recorded at this place.
    Recorded(StepState),
}

impl<DB: Backend> Core<DB> {
    pub(crate) async fn halt<T>(&self, why: Interrupt) -> T {
        self.stop.halt(why).await
    }

    /// Comes to a step: it is the one that is recorded at this place, or new.
    pub(crate) async fn enter(&mut self, name: &str, kind: Kind) -> Entered {
        if self.inside {
            let reason = format!("a step's future was dropped before step `{name}`");
            return self.halt(Interrupt::Later(Duration::ZERO, reason)).await;
        }
        self.inside = true;
        let Some(entry) = self.journal.steps.get(self.taken) else {
            return Entered::New;
        };
        if (entry.name.as_str(), entry.kind) != (name, kind) {
            let reason = format!(
                "step {} was {} `{}`, and is {} `{name}` now",
                self.taken + 1,
                entry.kind.as_str(),
                entry.name,
                kind.as_str(),
            );
            return self.halt(Interrupt::Unknown(reason)).await;
        }
        Entered::Recorded(entry.state)
    }

    /// Leaves a step.
    pub(crate) fn leave(&mut self) {
        self.inside = false;
        self.taken += 1;
    }

    /// The entry of the step that the handler is in, where it is recorded.
    pub(crate) fn entry(&mut self) -> Option<&mut Entry> {
        self.journal.steps.get_mut(self.taken)
    }

    /// A recorded value of the step that the handler is in.
    pub(crate) async fn recorded<T: super::StepData>(&mut self, name: &str) -> T {
        let value = self.entry().and_then(|entry| entry.value.as_deref());
        let read = value.map(super::journal::read);
        match read {
            Some(Ok(value)) => value,
            Some(Err(error)) => {
                let error = quotable(&self.idempotency, error);
                let reason = format!("what step `{name}` recorded can't be read now: {error}");
                self.halt(Interrupt::Unknown(reason)).await
            }
            None => {
                let reason = format!("nothing is recorded of step `{name}`, which has ended");
                self.halt(Interrupt::Unknown(reason)).await
            }
        }
    }

    /// Commits the step before, and what else the journal says more than the database.
    pub(crate) async fn flush(&mut self) {
        // Of steps that failed nothing is durable, and so nothing is recorded of them alone.
        let nothing = |step: &Entry| step.state == StepState::Failed;
        if self.open.is_none() && (!self.dirty || self.journal.steps.iter().all(nothing)) {
            return;
        }
        if let Err(why) = guard::unwatched(self.write()).await {
            if let (Interrupt::LostLease, Some(step)) = (&why, self.late) {
                guard::unwatched(self.alarm(step)).await;
            }
            self.halt(why).await
        }
    }

    /// The same before an atomic step, whose own record can say what waits.
    pub(crate) async fn flush_for_step(&mut self) {
        if self.open.is_some() || !self.deferred {
            self.flush().await;
        }
    }

    /// Records what waits, where no commit is to come in this run. If it fails the service is called again.
    ///
    /// Not after a commit that failed: the journal speaks of the step whose writes it took with it.
    pub(crate) async fn record_deferred(&mut self) {
        if self.deferred && self.open.is_none() {
            let _ = guard::unwatched(self.write()).await;
        }
    }

    async fn write(&mut self) -> Result<(), Interrupt> {
        self.deferred = false;
        let sealed = self.seal(b"journal", &self.journal.encode())?;
        let written = Written {
            journal: &sealed.bytes,
            sealed: sealed.is_sealed,
            lease: self.lease,
        };
        faults::point("record.before");
        let held = match self.open.take() {
            Some(tx) => {
                let held = write_in(tx, &self.fence, &written).await;
                self.progress.open.store(false, Ordering::SeqCst);
                held?
            }
            None => write_alone(&self.idempotency, &self.fence, &written).await?,
        };
        faults::point("record.after");
        if !held {
            return Err(Interrupt::LostLease);
        }
        self.dirty = false;
        Ok(())
    }

    /// An effect showed that this attempt may not record any more: somebody must look, unless the operation has ended.
    async fn alarm(&self, step: &str) {
        let reason = format!("step `{step}` took place in an attempt whose lease was over");
        tracing::error!(target: "idem", operation = self.operation, reason, "a late effect");
        let limit = Instant::now() + self.idempotency.shared.settings.store_timeout;
        let alarmed = async {
            let mut alone = self.idempotency.alone(limit).await?;
            let alarmed = alone.run(limit, async |connection: &mut DB::Connection| {
                DB::alarm(connection, &self.fence.id, &reason).await
            });
            alarmed.await
        };
        match alarmed.await {
            Ok(true) => {
                telemetry::parked(self.operation, OperationId::of(self.fence.id), &reason);
            }
            // It has ended meanwhile: the event above is all that there is.
            Ok(false) => {}
            Err(error) => {
                tracing::error!(target: "idem", operation = self.operation, %error, "a late effect could not be noted");
            }
        }
    }

    /// Begins the transaction of an atomic step.
    pub(crate) async fn begin(&mut self) -> Tx<DB> {
        let limit = Instant::now() + self.idempotency.shared.settings.store_timeout;
        faults::point("step.begin");
        let begun = self.idempotency.begin_step(self.operation_id, limit);
        match guard::unwatched(begun).await {
            Ok(mut tx) => {
                tx.belong_to(self.trace.clone());
                self.progress.open.store(true, Ordering::SeqCst);
                tx
            }
            Err(error) => self.halt(Interrupt::Store(error)).await,
        }
    }

    /// Looks whether a step's transaction is still the one that was begun, at the end of its body. Where the record of the step
    /// finds out by itself, a body that `succeeded` is not asked after.
    pub(crate) async fn check(&mut self, tx: &mut Tx<DB>, succeeded: bool) -> TransactionState {
        if tx.is_poisoned() || (succeeded && tx.is_nested()) {
            return TransactionState::RolledBack;
        }
        if succeeded && tx.mark().is_some() {
            return TransactionState::Open;
        }
        match timeout(CLEAN_UP, tx.state(None)).await {
            Ok(Ok(TransactionState::Open)) if tx.is_nested() => TransactionState::RolledBack,
            Ok(Ok(state)) => state,
            Ok(Err(_)) | Err(_) => {
                tx.doubt();
                TransactionState::RolledBack
            }
        }
    }

    /// Undoes a step's writes.
    pub(crate) async fn roll_back(&mut self, tx: Tx<DB>) {
        tx.roll_back().await;
        self.progress.open.store(false, Ordering::SeqCst);
    }

    /// Adds the entry of an atomic step that the handler is in, or replaces it.
    pub(crate) fn note(&mut self, name: &str, state: StepState, value: Option<Box<RawValue>>) {
        let entry = Entry::atomic(name, state, value);
        match self.journal.steps.get_mut(self.taken) {
            Some(old) => *old = entry,
            None => self.journal.steps.push(entry),
        }
        self.dirty = true;
    }

    pub(crate) fn seal(&self, part: &[u8], bytes: &[u8]) -> Result<Sealed, Interrupt> {
        seal(&self.idempotency, &self.fence.id, part, bytes).map_err(Interrupt::Store)
    }
}
