//! A statement that is left running when the time of its handler is over holds no lock for long, whatever kind the handler is.

use std::time::{Duration, Instant};

use idem_runtime::Tx;
use idem_runtime::inbox::InboxError;
use sqlx::Connection;

use super::handlers::{Bank, FIRST, Tested, send};

on_both! {
    a_handlers_statement_is_stopped,
    a_statement_without_a_key_is_stopped,
    a_steps_statement_is_stopped,
    a_consumers_statement_is_stopped,
}

/// Long before the statement would end by itself.
const SOON: Duration = Duration::from_secs(30);

/// Another transaction gets the account.
async fn assert_free<DB: Tested>(bank: &Bank<DB>) {
    let start = Instant::now();
    let mut other = DB::Connection::connect(bank.url()).await;
    let other = other.as_mut().expect("the database is there");
    send::<DB>(other, FIRST).await.expect("the lock is let go");
    assert!(start.elapsed() < SOON, "{:?}", start.elapsed());
}

async fn a_handlers_statement_is_stopped<DB: Tested>() {
    let bank = Bank::<DB>::open().await;
    assert_eq!(bank.post("/slow/7").await.0, 503);
    assert_free(&bank).await;
}

async fn a_statement_without_a_key_is_stopped<DB: Tested>() {
    let bank = Bank::<DB>::open().await;
    assert_eq!(bank.post_without_key("/slow-optional/7").await.0, 503);
    assert_free(&bank).await;
}

async fn a_steps_statement_is_stopped<DB: Tested>() {
    let bank = Bank::<DB>::open().await;
    let (status, body) = bank.post("/slow-stepped/7").await;
    assert_eq!(status, 409, "it goes on later: {body}");
    assert_free(&bank).await;
}

async fn a_consumers_statement_is_stopped<DB: Tested>() {
    let bank = Bank::<DB>::open().await;
    let inbox = bank.idempotency.inbox().timeout(Duration::from_millis(500));
    let body = async |tx: &mut Tx<DB>| {
        let _ = send::<DB>(tx, FIRST).await;
        let _ = send::<DB>(tx, DB::SLEEP).await;
        Ok::<_, InboxError>(())
    };
    let late = inbox.process("ledger", "orders", "m1", body).await;
    assert!(matches!(late, Err(InboxError::TimedOut(_))), "{late:?}");
    assert_free(&bank).await;
}
