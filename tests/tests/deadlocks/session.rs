//! What MariaDB's session is set to while a handler has it, so that nothing follows its transaction; and that it is restored.

use sqlx::{Executor, MySql, Row};

use super::handlers::Bank;

/// Every connection of the pool commits by itself, and may write.
async fn all_are_restored(bank: &Bank<MySql>) {
    let mut all = Vec::new();
    for _ in 0..bank.pool.options().get_max_connections() {
        let mut connection = bank.pool.acquire().await.expect("a connection");
        let set = connection
            .fetch_one("SELECT CONCAT(@@autocommit, @@tx_read_only, @@in_transaction)")
            .await
            .expect("the server answers");
        assert_eq!(set.get::<String, _>(0), "ONOFF0");
        all.push(connection);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_is_what_it_was_whatever_a_handler_did() {
    for path in [
        "/plain/7",
        "/saved/7",
        "/ignored/7",
        "/stepped/7",
        "/rolled-back/7",
    ] {
        let bank = Bank::<MySql>::open().await;
        for _ in 0..2 {
            bank.post(path).await;
            all_are_restored(&bank).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_transaction_of_a_test_that_is_dropped_leaves_nothing() {
    let bank = Bank::<MySql>::open().await;
    let mut tx = idem_runtime::testing::begin(&bank.pool).await;
    tx.execute("INSERT INTO effects VALUES (1)")
        .await
        .expect("it is written");
    drop(tx);
    all_are_restored(&bank).await;
    assert_eq!(bank.effects().await, 0);
}

/// A write that follows a handler's own `ROLLBACK` would be durable, and its key released.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_written_after_a_transaction_that_a_handler_rolled_back() {
    let bank = Bank::<MySql>::open().await;
    for _ in 0..2 {
        let (status, body) = bank.post("/rolled-back/7").await;
        assert_eq!((status, bank.effects().await), (422, 0), "{body}");
    }
}

/// Not the process's clock, nor the database's of the claim and the time since then.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_expires_by_the_clock_of_the_statement_that_stores_it() {
    let bank = Bank::<MySql>::open().await;
    assert_eq!(bank.post("/ahead/7").await.0, 200);
    let ahead = "SELECT CAST(completed_at - 1000 * UNIX_TIMESTAMP() AS SIGNED) FROM idem_keys";
    let ahead = bank.number(ahead).await;
    assert!(ahead > 1000 * 80_000, "{ahead} milliseconds");
    let lifetimes = "SELECT COUNT(*) FROM idem_keys WHERE expires_at > completed_at";
    assert_eq!(bank.number(lifetimes).await, 1);
}
