//! What becomes of each kind of handler.

use idem_runtime::Tx;
use idem_runtime::inbox::{InboxError, Processed};
use sqlx::{MySql, Postgres};

use super::handlers::{Bank, EFFECT, FIRST, Failed, SECOND, Tested, send};
use super::rival::Rival;

on_both! {
    a_handler_runs_again,
    a_handler_without_a_key_runs_again,
    a_handler_runs_again_after_a_deadlock_in_a_savepoint,
    an_ignored_deadlock_leaves_nothing,
    an_ignored_deadlock_and_an_error_leave_nothing,
    a_step_runs_again,
    a_step_runs_again_whose_record_is_the_victim,
    a_step_that_ended_its_transaction_does_not_run_again,
    a_consumer_runs_again,
    a_consumer_that_ignored_a_deadlock_leaves_nothing,
}

/// The first run is the victim, the second goes through.
async fn runs_again<DB: Tested>(path: &str, effects: i64) -> Bank<DB> {
    let bank = Bank::<DB>::open().await;
    assert_eq!(bank.post(path).await, (200, "7".to_owned()));
    assert_eq!((bank.rival.runs(), bank.effects().await), (2, effects));
    assert_eq!(bank.post(path).await, (200, "7".to_owned()), "its replay");
    assert_eq!((bank.rival.runs(), bank.effects().await), (2, effects));
    bank
}

async fn a_handler_runs_again<DB: Tested>() {
    runs_again::<DB>("/plain/7", 1).await;
}

async fn a_handler_without_a_key_runs_again<DB: Tested>() {
    let bank = Bank::<DB>::open().await;
    let answer = bank.post_without_key("/optional/7").await;
    assert_eq!(answer, (200, "7".to_owned()));
    assert_eq!((bank.rival.runs(), bank.effects().await), (2, 1));
}

async fn a_handler_runs_again_after_a_deadlock_in_a_savepoint<DB: Tested>() {
    runs_again::<DB>("/saved/7", 1).await;
}

async fn an_ignored_deadlock_leaves_nothing<DB: Tested>() {
    let bank = Bank::<DB>::open().await;
    let (status, body) = bank.post("/ignored/7").await;
    assert_eq!(status, 500, "{body}");
    assert!(body.contains("idempotency-transaction-aborted"), "{body}");
    assert_eq!((bank.effects().await, bank.records().await), (0, 0));
    // Both effects of the handler.
    assert_eq!(bank.post("/ignored/7").await, (200, "7".to_owned()));
    assert_eq!(bank.effects().await, 2);
}

async fn an_ignored_deadlock_and_an_error_leave_nothing<DB: Tested>() {
    let bank = Bank::<DB>::open().await;
    let answer = bank.post("/ignored-and-refused/7").await;
    assert_eq!(answer, (422, "refused".to_owned()), "the handler's own");
    assert_eq!((bank.effects().await, bank.records().await), (0, 0));
    let answer = bank.post("/ignored-and-refused/7").await;
    assert_eq!(answer, (200, "7".to_owned()));
    assert_eq!(bank.effects().await, 1);
}

async fn a_step_runs_again<DB: Tested>() {
    runs_again::<DB>("/stepped/7", 2).await;
}

async fn a_step_runs_again_whose_record_is_the_victim<DB: Tested>() {
    let bank = Bank::<DB>::open().await;
    bank.rival
        .holds("SELECT attempt FROM idem_operations FOR UPDATE");
    assert_eq!(bank.post("/recorded/7").await, (200, "7".to_owned()));
    assert_eq!((bank.rival.runs(), bank.effects().await), (2, 2));
}

async fn a_step_that_ended_its_transaction_does_not_run_again<DB: Tested>() {
    let bank = Bank::<DB>::open().await;
    let (status, body) = bank.post("/stepped-and-committed/7").await;
    assert_eq!(status, 409, "{body}");
    assert!(body.contains("idempotency-outcome-unknown"), "{body}");
    assert_eq!((bank.rival.runs(), bank.effects().await), (1, 1));
}

async fn follow<DB: Tested>(tx: &mut Tx<DB>, rival: &Rival) -> Result<(), Failed> {
    send::<DB>(tx, EFFECT).await?;
    send::<DB>(tx, FIRST).await?;
    rival.cross::<DB>().await;
    send::<DB>(tx, SECOND).await
}

async fn a_consumer_runs_again<DB: Tested>() {
    let bank = Bank::<DB>::open().await;
    let inbox = bank.idempotency.inbox();
    let body = async |tx: &mut Tx<DB>| match follow(tx, &bank.rival).await {
        Err(Failed::Database(error)) => Err(InboxError::Database(error)),
        done => Ok(done.is_ok()),
    };
    let done = inbox.process("ledger", "orders", "m1", body).await;
    assert_eq!(done.expect("it runs again"), Processed::Done(true));
    assert_eq!((bank.rival.runs(), bank.effects().await), (2, 1));
}

async fn a_consumer_that_ignored_a_deadlock_leaves_nothing<DB: Tested>() {
    for fails in [false, true] {
        let bank = Bank::<DB>::open().await;
        let inbox = bank.idempotency.inbox();
        let body = async |tx: &mut Tx<DB>| {
            let first = bank.rival.runs() == 0;
            let _ = follow(tx, &bank.rival).await;
            let _ = send::<DB>(tx, EFFECT).await;
            if fails && first {
                return Err(InboxError::Database(sqlx::Error::RowNotFound));
            }
            Ok(())
        };
        let done = inbox.process("ledger", "orders", "m1", body).await;
        let aborted = matches!(done, Err(InboxError::TransactionAborted(_)));
        let failed = matches!(done, Err(InboxError::Database(sqlx::Error::RowNotFound)));
        assert_eq!((aborted, failed), (!fails, fails), "{done:?}");
        assert_eq!(bank.effects().await, 0);
        let done = inbox.process("ledger", "orders", "m1", body).await;
        assert_eq!(done.expect("a redelivery works"), Processed::Done(()));
        assert_eq!(bank.effects().await, 2);
    }
}

/// A savepoint of PostgreSQL's survives a deadlock in it, and the rest is kept.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_savepoint_survives_a_deadlock_on_postgres() {
    let bank = Bank::<Postgres>::open().await;
    let answer = bank.post("/ignored-in-a-savepoint/7").await;
    assert_eq!(answer, (200, "7".to_owned()));
    assert_eq!((bank.effects().await, bank.records().await), (1, 1));
}

/// One of InnoDB's does not.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_savepoint_that_is_gone_leaves_nothing_on_mysql() {
    let bank = Bank::<MySql>::open().await;
    let (status, body) = bank.post("/ignored-in-a-savepoint/7").await;
    assert_eq!(status, 500, "{body}");
    assert!(body.contains("idempotency-transaction-aborted"), "{body}");
    assert_eq!((bank.effects().await, bank.records().await), (0, 0));
    let answer = bank.post("/ignored-in-a-savepoint/7").await;
    assert_eq!(answer, (200, "7".to_owned()));
    assert_eq!(bank.effects().await, 2);
}
