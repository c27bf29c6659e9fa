//! The journal, written by itself or with the transaction of a step, and what an error of that means.

use std::time::Duration;

use tokio::time::{Instant, timeout};

use super::super::stop::Interrupt;
use crate::atomic::{CLEAN_UP, COMMIT};
use crate::backend::operations::{Fence, Written};
use crate::backend::{self, Backend, EndFailure, Fault, TransactionState};
use crate::faults;
use crate::idempotency::{Idempotency, StoreError};
use crate::problem::Code;
use crate::tx::{Tx, tell_unacknowledged};

/// Writes the journal as a step's last statement, and commits both.
pub(super) async fn write_in<DB: Backend>(
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
            Interrupt::Store(StoreError::Database(error)) => {
                tell_unacknowledged(None, Some(&error));
                Interrupt::Again
            }
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
    match committed.unwrap_or(Err(EndFailure::Open(None))) {
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
        EndFailure::Open(error) => {
            tell_unacknowledged(None, error.as_ref());
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
pub(super) async fn write_alone<DB: Backend>(
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
    // A renewal that comes late is of no use: two thirds of the lease are left when it begins.
    let settings = &idempotency.shared.settings;
    let patience = settings.writer_timeout.min(lease / 3);
    let limit = Instant::now() + settings.store_timeout.min(lease / 3);
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
