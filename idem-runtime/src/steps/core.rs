//! What a handler's steps share: the journal, the fence, and the transaction of a step that is not committed yet.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::value::RawValue;
use tokio::sync::Notify;
use tokio::time::{Instant, timeout};
use uuid::Uuid;

use super::journal::{Entry, Journal, Kind, StepState};
use super::quotable::quotable;
use super::stop::{Interrupt, Stop};
use crate::atomic::{CLEAN_UP, COMMIT};
use crate::backend::operations::{Fence, Written};
use crate::backend::{self, Backend, EndFailure, Fault, TransactionState};
use crate::faults;
use crate::guard;
use crate::idempotency::{Idempotency, StoreError};
use crate::operations::OperationId;
use crate::outbox::TraceContext;
use crate::problem::Code;
use crate::scope::RecordId;
use crate::telemetry;
use crate::tx::Tx;

/// The database's clock, as this process knows it: what it said, and the time since, which no setting of a clock changes. Never
/// ahead of the database's.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    said: i64,
    at: Instant,
}

impl Clock {
    /// `now` was just read, in milliseconds since 1970.
    pub(crate) fn new(now: i64) -> Self {
        Self {
            said: now,
            at: Instant::now(),
        }
    }

    pub(crate) fn now(&self) -> i64 {
        self.said.saturating_add(backend::millis(self.at.elapsed()))
    }
}

/// What the renewal of the lease must know of the steps, which run beside it.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    /// A step's transaction is open.
    open: AtomicBool,
    /// A call is under way that can't be repeated.
    calling: AtomicBool,
    called: Notify,
}

impl Progress {
    pub(crate) fn is_open(&self) -> bool {
        self.open.load(Ordering::SeqCst)
    }

    /// A call is under way until the value is dropped.
    pub(crate) fn calling(self: &Arc<Self>) -> Calling {
        self.calling.store(true, Ordering::SeqCst);
        Calling(self.clone())
    }

    /// Ready when no call is under way.
    pub(crate) async fn call_ended(&self) {
        loop {
            let called = self.called.notified();
            if !self.calling.load(Ordering::SeqCst) {
                return;
            }
            called.await;
        }
    }
}

/// See [`Progress::calling`].
pub(crate) struct Calling(Arc<Progress>);

impl Drop for Calling {
    fn drop(&mut self) {
        self.0.calling.store(false, Ordering::SeqCst);
        self.0.called.notify_waiters();
    }
}

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

/// Bytes as they are stored.
pub(crate) struct Sealed {
    pub(crate) bytes: Vec<u8>,
    pub(crate) is_sealed: bool,
}

/// Encrypts, if a cipher is set.
pub(crate) fn seal<DB: Backend>(
    idempotency: &Idempotency<DB>,
    id: &RecordId,
    part: &[u8],
    bytes: &[u8],
) -> Result<Sealed, StoreError> {
    let Some(cipher) = &idempotency.shared.settings.cipher else {
        return Ok(Sealed {
            bytes: bytes.to_vec(),
            is_sealed: false,
        });
    };
    let context = [id.as_bytes().as_slice(), part].concat();
    let bytes = cipher.seal(&context, bytes).map_err(StoreError::Cipher)?;
    Ok(Sealed {
        bytes,
        is_sealed: true,
    })
}

/// Decrypts what [`seal`] made.
pub(crate) fn unseal<DB: Backend>(
    idempotency: &Idempotency<DB>,
    id: &RecordId,
    part: &[u8],
    bytes: &[u8],
    is_sealed: bool,
) -> Result<Vec<u8>, StoreError> {
    if !is_sealed {
        return Ok(bytes.to_vec());
    }
    let cipher = idempotency.shared.settings.cipher.as_ref();
    let cipher = cipher.ok_or_else(|| {
        StoreError::Cipher("what is stored is encrypted, and no `PayloadCipher` is set".into())
    })?;
    let context = [id.as_bytes().as_slice(), part].concat();
    cipher.open(&context, bytes).map_err(StoreError::Cipher)
}

/// Writes the journal as a step's last statement, and commits both.
async fn write_in<DB: Backend>(
    mut tx: Tx<DB>,
    fence: &Fence,
    written: &Written<'_>,
) -> Result<bool, Interrupt> {
    if DB::records_with_commit(tx.session(), written.journal.len()) {
        return write_with_commit(tx, fence, written).await;
    }
    let mark = tx.mark();
    let (connection, _) = tx.parts();
    let record = DB::record(connection, mark.as_deref(), fence, written);
    match timeout(COMMIT, record).await {
        Ok(Ok(true)) => {}
        Ok(Ok(false)) => {
            return match ended(tx, None).await {
                Some(why) => Err(why),
                None => Ok(false),
            };
        }
        Ok(Err(error)) => {
            let fault = interrupt(error);
            return Err(ended(tx, Some(&fault)).await.unwrap_or(fault));
        }
        Err(_) => {
            tx.abandon();
            return Err(Interrupt::Store(StoreError::TimedOut(
                "the record of a step",
            )));
        }
    }
    faults::point("commit.before");
    let committed = tx.commit_within(COMMIT).await;
    faults::point("commit.after");
    match committed {
        Ok(()) => Ok(true),
        // Its acknowledgement may be lost: what is recorded tells.
        Err(error) => Err(match interrupt(error) {
            Interrupt::Store(_) => Interrupt::Again,
            why => why,
        }),
    }
}

/// The same in one message.
async fn write_with_commit<DB: Backend>(
    mut tx: Tx<DB>,
    fence: &Fence,
    written: &Written<'_>,
) -> Result<bool, Interrupt> {
    faults::point("commit.before");
    let (connection, session) = tx.parts();
    let committed = timeout(
        COMMIT,
        DB::record_and_commit(connection, session, fence, written),
    )
    .await;
    faults::point("commit.after");
    match committed.unwrap_or(Err(EndFailure::Open)) {
        Ok(true) => {
            tx.release();
            Ok(true)
        }
        Ok(false) => match ended(tx, None).await {
            Some(why) => Err(why),
            None => Ok(false),
        },
        Err(failure) => Err(not_committed(tx, failure).await),
    }
}

/// Why a step whose record rode with its commit is not known to be committed.
pub(crate) async fn not_committed<DB: Backend>(tx: Tx<DB>, failure: EndFailure) -> Interrupt {
    match failure {
        EndFailure::Storing(error) => {
            let fault = interrupt(error);
            ended(tx, Some(&fault)).await.unwrap_or(fault)
        }
        EndFailure::RolledBack(error) => {
            tx.roll_back().await;
            interrupt(error)
        }
        // Its acknowledgement may be lost: what is recorded tells.
        EndFailure::Open => {
            tx.abandon();
            Interrupt::Again
        }
    }
}

/// Rolls a step's transaction back, and says what its body did to it, if it did: that is why the step's last statement found
/// no row, or failed. Where that statement checks nothing by itself, the body's end was looked at before it.
pub(crate) async fn ended<DB: Backend>(
    mut tx: Tx<DB>,
    fault: Option<&Interrupt>,
) -> Option<Interrupt> {
    let state = match tx.mark() {
        Some(_) => timeout(CLEAN_UP, tx.state(None)).await,
        None => Ok(Ok(TransactionState::Open)),
    };
    // Nobody knows what else on this connection would fail.
    if matches!(fault, Some(Interrupt::Store(_))) || !matches!(state, Ok(Ok(_))) {
        tx.doubt();
    }
    tx.roll_back().await;
    match state {
        Ok(Ok(TransactionState::Ended | TransactionState::Unclear)) => Some(Interrupt::Unknown(
            "a step ended its transaction itself: what it wrote may be durable, and is not recorded".to_owned(),
        )),
        Ok(Ok(TransactionState::RolledBack)) => Some(Interrupt::Fault(
            Code::TransactionAborted,
            "a step's transaction was rolled back under it".to_owned(),
        )),
        _ => None,
    }
}

/// Writes the journal by itself.
async fn write_alone<DB: Backend>(
    idempotency: &Idempotency<DB>,
    fence: &Fence,
    written: &Written<'_>,
) -> Result<bool, Interrupt> {
    let limit = Instant::now() + idempotency.shared.settings.store_timeout;
    let mut alone = idempotency.alone(limit).await.map_err(Interrupt::Store)?;
    let recorded = alone.run(limit, async |connection: &mut DB::Connection| {
        DB::record(connection, None, fence, written).await
    });
    // Whether it took place is not known after an error.
    recorded.await.map_err(|_| Interrupt::Again)
}

pub(crate) async fn renew<DB: Backend>(
    idempotency: &Idempotency<DB>,
    fence: &Fence,
    lease: Duration,
) -> Result<bool, StoreError> {
    let limit = Instant::now() + idempotency.shared.settings.store_timeout;
    // A renewal that comes late is of no use.
    let patience = idempotency.shared.settings.writer_timeout.min(lease / 3);
    let mut alone = idempotency.alone_within(limit, patience).await?;
    let renewed = alone.run(limit, async |connection: &mut DB::Connection| {
        DB::renew(connection, fence, lease).await
    });
    renewed.await
}

pub(crate) fn interrupt(error: sqlx::Error) -> Interrupt {
    match backend::fault(&error) {
        Fault::RunAgain => Interrupt::Again,
        Fault::Aborted | Fault::Constraint => {
            Interrupt::Fault(Code::TransactionAborted, error.to_string())
        }
        Fault::Store => Interrupt::Store(StoreError::Database(error)),
    }
}
