//! A request without a key, where `key = "optional"` lets it in: a plain transaction, nothing stored.

use std::sync::Arc;

use axum::response::Response;
use tokio::time::{Instant, timeout, timeout_at};

use crate::accept::{Buffered, Ticket};
use crate::atomic::{CLEAN_UP, COMMIT, MAX_RUNS, POLL, Prepare, Ran, Ready, new_owner, run};
use crate::backend::{self, Backend, Fault, TransactionState};
use crate::backoff::jitter;
use crate::guard::Watch;
use crate::idempotency::StoreError;
use crate::outbox::TraceContext;
use crate::problem::{Code, Problem};
use crate::settle::Fate;
use crate::telemetry::Signal;
use crate::tx::Tx;

/// Runs the handler, again where the database asks for it.
pub(crate) async fn answer<DB: Backend>(
    ticket: &Ticket<DB>,
    buffered: Buffered,
    mut prepare: Prepare<DB>,
) -> (Response, Signal) {
    let refuse = |code| ticket.refuse(&Problem::new(code));
    for run_number in 1..=MAX_RUNS {
        let ready = match prepare(&buffered.parts, &buffered.body).await {
            Ok(ready) => ready,
            Err(rejection) => return (rejection, Signal::Refused),
        };
        let trace = TraceContext::of(&buffered.parts.headers);
        match once(ticket, ready, trace).await {
            Ok(Some(response)) => return (response, Signal::Unprotected),
            Ok(None) => tokio::time::sleep(jitter(POLL.0 * run_number)).await,
            Err(error) => {
                error.log(ticket.spec.name, "the database failed");
                return (refuse(error.code()), Signal::StoreFailure);
            }
        }
    }
    (refuse(Code::SerializationFailure), Signal::Unprotected)
}

/// `None`: the database asks for another run.
async fn once<DB: Backend>(
    ticket: &Ticket<DB>,
    ready: Ready<DB>,
    trace: Option<TraceContext>,
) -> Result<Option<Response>, StoreError> {
    let operation_id = uuid::Builder::from_random_bytes(new_owner()).into_uuid();
    let limit = Instant::now() + ticket.idempotency.shared.settings.store_timeout;
    let patience = ticket.patience();
    let begun = ticket
        .idempotency
        .begin(operation_id, None, limit, patience);
    let mut tx = begun.await?;
    tx.belong_to(trace);
    let limit = limit + tx.waited();
    let (connection, session) = tx.parts();
    let identified = timeout_at(limit, DB::identify(connection, session)).await;
    if let Err(error) = identified.unwrap_or(Err(sqlx::Error::PoolTimedOut)) {
        tx.abandon();
        return Err(StoreError::Database(error));
    }
    let watch = Arc::new(Watch::default());
    let ran = run(ticket, &mut tx, ready, &watch).await;
    let refuse = |code| Ok(Some(ticket.refuse(&Problem::new(code))));
    let breached = |tx: &Tx<DB>, code| {
        tx.breach(code).tell(ticket.spec.name, "", "", code);
        code
    };
    if watch.took_connection() {
        let code = breached(&tx, Code::EffectOutsideTransaction);
        tx.roll_back().await;
        return refuse(code);
    }
    let state = match timeout(CLEAN_UP, tx.state(None)).await {
        Ok(Ok(state)) => state,
        Ok(Err(error)) => {
            tx.abandon();
            return Err(StoreError::Database(error));
        }
        Err(_) => {
            ticket.idempotency.cancel(tx.session()).await;
            tx.abandon();
            return refuse(Code::HandlerTimedOut);
        }
    };
    // PostgreSQL aborts a transaction at an error, also at one that its handler ignored.
    let poisoned =
        tx.is_poisoned() || tx.is_nested() || tx.is_over() || state == TransactionState::RolledBack;
    if matches!(state, TransactionState::Ended | TransactionState::Unclear) {
        let code = breached(&tx, Code::TransactionEnded);
        tx.roll_back().await;
        return refuse(code);
    }
    let response = match ran {
        Ran::Answered(Fate::Commit, response) if !poisoned => response,
        ran => {
            tx.roll_back().await;
            return match ran {
                Ran::Answered(Fate::Commit, _) => refuse(Code::TransactionAborted),
                Ran::Answered(Fate::Retry, _) => Ok(None),
                Ran::Answered(_, response) => Ok(Some(response.into_response(None))),
                Ran::NotStorable(_) => refuse(Code::ResponseNotStorable),
                Ran::Panicked => refuse(Code::HandlerPanicked),
                Ran::TimedOut => refuse(Code::HandlerTimedOut),
            };
        }
    };
    match tx.commit_within(COMMIT).await {
        Ok(()) => Ok(Some(response.into_response(None))),
        Err(error) => match backend::fault(&error) {
            Fault::RunAgain => Ok(None),
            Fault::Constraint | Fault::Aborted => refuse(Code::TransactionAborted),
            Fault::Store => Err(StoreError::Database(error)),
        },
    }
}
