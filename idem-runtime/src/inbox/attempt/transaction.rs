//! The two ends of a message's transaction.

use std::panic::resume_unwind;

use tokio::time::{Instant, timeout, timeout_at};

use crate::atomic::{CLEAN_UP, COMMIT};
use crate::backend::inbox::{Entry, Taken};
use crate::backend::{self, Backend, Fault, TransactionState};
use crate::faults;
use crate::idempotency::Idempotency;
use crate::inbox::errors::InboxError;
use crate::tx::{Tx, tell_unacknowledged};

/// What became of a transaction.
pub(super) enum Finish {
    Committed,
    RolledBack,
    /// The database asks for another run.
    Again,
    /// The commit's acknowledgement is lost.
    Unacknowledged,
    Failed(InboxError),
}

/// Begins and inserts the row.
pub(super) async fn take<DB: Backend>(
    idempotency: Idempotency<DB>,
    entry: Entry,
    operation_id: uuid::Uuid,
    limit: Instant,
) -> Result<(Taken, Option<Tx<DB>>), InboxError> {
    faults::point("begin.before");
    let mut tx = idempotency.begin_step(operation_id, limit).await?;
    let limit = limit + tx.waited();
    let (connection, _) = tx.parts();
    let taken = timeout_at(limit, DB::take(connection, &entry)).await;
    faults::point("take.after");
    match taken {
        Ok(Ok(Taken::Won)) => Ok((Taken::Won, Some(tx))),
        Ok(Ok(not)) => {
            tx.roll_back().await;
            Ok((not, None))
        }
        Ok(Err(error)) if backend::asks_to_run_again(&error) => {
            tx.roll_back().await;
            Err(InboxError::Database(error))
        }
        Ok(Err(error)) => {
            tx.abandon();
            Err(InboxError::Database(error))
        }
        Err(_) => {
            tx.abandon();
            Err(InboxError::StoreTimedOut("a message's row"))
        }
    }
}

/// Commits a body that is done, if its transaction is still what it was.
pub(super) async fn commits<DB: Backend>(
    idempotency: Idempotency<DB>,
    mut tx: Tx<DB>,
    entry: Entry,
) -> Result<Finish, InboxError> {
    let state = match timeout(COMMIT, tx.state(None)).await {
        Ok(Ok(state)) => state,
        Ok(Err(error)) => {
            tx.abandon();
            return Err(InboxError::Database(error));
        }
        Err(_) => {
            tx.abandon();
            return Err(InboxError::StoreTimedOut("a consumer's transaction"));
        }
    };
    let aborted = |why: &str| Ok(Finish::Failed(InboxError::TransactionAborted(why.into())));
    if state != TransactionState::Open || tx.is_over() {
        tx.roll_back().await;
        if is_durable(&idempotency, &entry, state).await? {
            return Ok(Finish::Failed(InboxError::TransactionEnded));
        }
        return aborted("an error before it was ignored, or the consumer rolled it back");
    }
    if tx.is_poisoned() || tx.is_nested() {
        tx.roll_back().await;
        return aborted("a savepoint, or a transaction inside it, was never ended");
    }
    faults::point("commit.before");
    let committed = tx.commit_within(COMMIT).await;
    faults::point("commit.after");
    match committed {
        Ok(()) => Ok(Finish::Committed),
        Err(error) => match backend::fault(&error) {
            Fault::RunAgain => Ok(Finish::Again),
            Fault::Constraint | Fault::Aborted => aborted(&error.to_string()),
            Fault::Store => {
                tell_unacknowledged(None, Some(&error));
                Ok(Finish::Unacknowledged)
            }
        },
    }
}

/// Rolls back, and finds out whether there was anything left to.
pub(super) async fn undo<DB: Backend>(
    idempotency: Idempotency<DB>,
    mut tx: Tx<DB>,
    entry: Entry,
    cancel: bool,
) -> Result<Finish, InboxError> {
    if cancel {
        idempotency.cancel(tx.session()).await;
    }
    let state = match timeout(CLEAN_UP, tx.state(None)).await {
        Ok(Ok(state)) => state,
        // The connection is lost, or busy with a statement that can't be stopped: closing it rolls back.
        Ok(Err(_)) | Err(_) => {
            tx.doubt();
            TransactionState::Open
        }
    };
    tx.roll_back().await;
    if is_durable(&idempotency, &entry, state).await? {
        return Ok(Finish::Failed(InboxError::TransactionEnded));
    }
    Ok(Finish::RolledBack)
}

/// Whether something of the transaction may be durable. Where an engine ends one by itself the row knows: a commit of the
/// body's own made it durable, and a deadlock, which rolled everything back, did not.
async fn is_durable<DB: Backend>(
    idempotency: &Idempotency<DB>,
    entry: &Entry,
    state: TransactionState,
) -> Result<bool, InboxError> {
    match state {
        TransactionState::Open => return Ok(false),
        TransactionState::Ended => return Ok(true),
        TransactionState::RolledBack if !DB::ENDS_BY_ITSELF => return Ok(false),
        TransactionState::RolledBack | TransactionState::Unclear => {}
    }
    let limit = Instant::now() + COMMIT;
    let mut alone = idempotency.reading(limit).await?;
    let look = async |connection: &mut DB::Connection| DB::processed(connection, &entry.id).await;
    let row = alone.run(limit, look).await?;
    Ok(row.is_some_and(|row| row.owner == entry.owner))
}

/// Runs a part to its end, whoever drops this.
pub(super) async fn in_task<T: Send + 'static>(
    part: impl Future<Output = Result<T, InboxError>> + Send + 'static,
) -> Result<T, InboxError> {
    match tokio::spawn(faults::carried(part)).await {
        Ok(done) => done,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => resume_unwind(panic),
            Err(_) => Err(InboxError::Interrupted),
        },
    }
}
