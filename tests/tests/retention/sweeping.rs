//! What the sweeper takes, and what it leaves alone.

use std::time::Duration;

use axum::http::StatusCode;
use futures_util::future::join_all;
use idem_tests::http::fresh_key;
use idem_tests::wait::{PATIENCE, until};

use super::setup::{
    EXPIRED, LIVE, Record, STARTED, Store, TOMBSTONE, Tested, UNKNOWN, gate, is_replay, send,
};
use crate::on_each_backend;

on_each_backend![
    a_sweep_deletes_only_what_is_over,
    an_answer_is_erased_when_it_expires_and_its_tombstone_when_that_is_over,
    batches_are_bounded,
    two_sweepers_share_the_work,
    an_expired_key_is_replaced_without_a_sweep,
    a_record_that_is_replaced_is_never_swept,
    a_sweep_puts_no_request_off,
    a_sweeper_sweeps_at_its_interval_until_it_is_stopped,
    a_sweeper_ends_with_its_shutdown_and_with_its_pool,
];

async fn a_sweep_deletes_only_what_is_over<DB: Tested>() {
    let store = Store::<DB>::new().await;
    for (first, record) in [LIVE, EXPIRED, TOMBSTONE, STARTED, UNKNOWN]
        .iter()
        .enumerate()
    {
        store.put(first as u64 * 100, 3, record).await;
    }
    let swept = store.idempotency.sweeper().sweep_once().await.unwrap();
    assert_eq!((swept.answers, swept.records), (3, 3));
    assert_eq!(
        store.count("state = 1 AND body IS NOT NULL").await,
        3,
        "live"
    );
    assert_eq!(
        store.count("state = 1 AND body IS NULL").await,
        3,
        "tombstones"
    );
    assert_eq!(store.count("state = 0").await, 3, "started");
    assert_eq!(store.count("state = 2").await, 3, "unknown");
    let swept = store.idempotency.sweeper().sweep_once().await.unwrap();
    assert_eq!((swept.answers, swept.records), (0, 0));
}

async fn an_answer_is_erased_when_it_expires_and_its_tombstone_when_that_is_over<DB: Tested>() {
    let store = Store::<DB>::new().await;
    store.put(0, 1, &TOMBSTONE).await;
    let sweeper = store.idempotency.sweeper();
    sweeper.sweep_once().await.unwrap();
    assert_eq!(store.count("headers IS NULL AND body IS NULL").await, 1);
    store.let_all_expire().await;
    let swept = sweeper.sweep_once().await.unwrap();
    assert_eq!((swept.answers, swept.records), (0, 1));
    assert_eq!(store.count("1 = 1").await, 0);
}

async fn batches_are_bounded<DB: Tested>() {
    let store = Store::<DB>::new().await;
    store.put(0, 7, &TOMBSTONE).await;
    store.put(100, 25, &EXPIRED).await;
    let sweeper = store.idempotency.sweeper().batch(10).pause(Duration::ZERO);
    let swept = sweeper.sweep_once().await.unwrap();
    assert_eq!((swept.answers, swept.records), (7, 25));
    // 7 answers in one batch; 10, 10 and 5 records; no message.
    assert_eq!(swept.batches, 5);
}

async fn two_sweepers_share_the_work<DB: Tested>() {
    let store = Store::<DB>::new().await;
    let other = store.another().await;
    store.put(0, 2000, &EXPIRED).await;
    store.put(5000, 1000, &TOMBSTONE).await;
    let sweep = async |idempotency: &idem_runtime::Idempotency<DB>| {
        let sweeper = idempotency.sweeper().batch(50).pause(Duration::ZERO);
        sweeper.sweep_once().await.unwrap()
    };
    let (one, two) = tokio::join!(sweep(&store.idempotency), sweep(&other));
    // A sweeper ends at a batch that is short, which the other's locks may make it.
    let rest = sweep(&store.idempotency).await;
    assert_eq!(one.records + two.records + rest.records, 2000);
    assert_eq!(one.answers + two.answers + rest.answers, 1000);
    assert_eq!(store.count("state = 1").await, 1000);
}

async fn an_expired_key_is_replaced_without_a_sweep<DB: Tested>() {
    let store = Store::<DB>::new().await;
    let service = DB::service(store.idempotency.clone());
    for effects in 1..=3 {
        let first = send(&service, "/effects/alice", "k").await;
        assert_eq!(first.status(), StatusCode::CREATED);
        assert!(!is_replay(&first));
        assert!(is_replay(&send(&service, "/effects/alice", "k").await));
        assert_eq!(store.effects().await, effects);
        store.let_all_expire().await;
    }
    assert_eq!(store.count("state = 1").await, 1);
}

async fn a_record_that_is_replaced_is_never_swept<DB: Tested>() {
    const KEYS: i64 = 20;
    let store = Store::<DB>::new().await;
    let other = store.another().await;
    let service = DB::service(store.idempotency.clone());
    let keys: Vec<String> = (0..KEYS).map(|key| format!("key {key}")).collect();
    let send_all =
        async || join_all(keys.iter().map(|key| send(&service, "/effects/alice", key))).await;
    send_all().await;
    for round in 1..=5 {
        store.let_all_expire().await;
        let sweeper = other.sweeper().batch(3).pause(Duration::ZERO);
        let sweeps = async {
            for _ in 0..10 {
                sweeper.sweep_once().await.unwrap();
                tokio::task::yield_now().await;
            }
        };
        let (answers, ()) = tokio::join!(send_all(), sweeps);
        for answer in &answers {
            assert_eq!(answer.status(), StatusCode::CREATED);
            assert!(!is_replay(answer));
        }
        sweeper.sweep_once().await.unwrap();
        assert_eq!(store.count("state = 1").await, KEYS, "round {round}");
        for answer in send_all().await {
            assert!(is_replay(&answer), "round {round}");
        }
        assert_eq!(store.effects().await, KEYS * (round + 1));
    }
}

async fn a_sweep_puts_no_request_off<DB: Tested>() {
    let store = Store::<DB>::new().await;
    let other = store.another().await;
    let service = DB::service(store.idempotency.clone());
    // A request is taking over an expired record, and holds whatever it has locked of it.
    let name = fresh_key();
    let (gate, path) = (gate(&name), format!("/held/alice/{name}"));
    gate.set_open(true);
    send(&service, &path, "held").await;
    gate.set_open(false);
    store.put(0, 3000, &EXPIRED).await;
    store.let_all_expire().await;
    let held = tokio::spawn({
        let (service, path) = (service.clone(), path.clone());
        async move { send(&service, &path, "held").await }
    });
    gate.reached(2).await;
    let sweeper = other.sweeper().batch(100).pause(Duration::ZERO);
    let sweep = async {
        let swept = sweeper.sweep_once().await.unwrap();
        assert!(swept.records >= 3000, "{swept:?}");
    };
    // A duplicate of nothing is told 409 if the sweep holds the gap that its record goes to.
    let requests = async {
        for key in 0..60 {
            let answer = send(&service, "/hasty/bob", &format!("fresh {key}")).await;
            assert_eq!(answer.status(), StatusCode::CREATED, "{key}");
        }
    };
    // SQLite's one writer has to be waited for.
    let writer_ends = async {
        if DB::SINGLE_WRITER {
            tokio::time::sleep(Duration::from_millis(300)).await;
            gate.set_open(true);
        }
    };
    let all = async { tokio::join!(sweep, requests, writer_ends) };
    let all = tokio::time::timeout(PATIENCE, all).await;
    assert!(all.is_ok(), "they wait for the request that is held");
    gate.set_open(true);
    assert_eq!(held.await.unwrap().status(), StatusCode::CREATED);
    assert!(is_replay(&send(&service, &path, "held").await));
    assert_eq!(store.effects().await, 62);
}

async fn a_sweeper_sweeps_at_its_interval_until_it_is_stopped<DB: Tested>() {
    let store = Store::<DB>::new().await;
    let sweeper = store
        .idempotency
        .sweeper()
        .every(Duration::from_millis(20))
        .spawn();
    for first in [0, 100] {
        store.put(first, 5, &EXPIRED).await;
        until("the records are swept", PATIENCE, async || {
            store.count("1 = 1").await == 0
        })
        .await;
    }
    sweeper.stop().await;
    store.put(200, 5, &EXPIRED).await;
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(store.count("1 = 1").await, 5);
}

async fn a_sweeper_ends_with_its_shutdown_and_with_its_pool<DB: Tested>() {
    let store = Store::<DB>::new().await;
    let often = || store.idempotency.sweeper().every(Duration::from_millis(10));
    store.put(0, 5, &Record { ..EXPIRED }).await;
    let swept = until("the records are swept", PATIENCE, async || {
        store.count("1 = 1").await == 0
    });
    let ended = tokio::time::timeout(PATIENCE * 2, often().run_until(swept)).await;
    assert!(ended.is_ok(), "it ends with its shutdown");
    store.idempotency.pool().close().await;
    tokio::time::timeout(PATIENCE, often().run_until(std::future::pending()))
        .await
        .unwrap();
    assert!(store.idempotency.sweeper().sweep_once().await.is_err());
}

/// PostgreSQL's block range index remembers the oldest expiry that each of its ranges ever had.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sweep_reads_little_where_swept_space_was_used_again() {
    let store = Store::<sqlx::Postgres>::new().await;
    let sweeper = store
        .idempotency
        .sweeper()
        .batch(5000)
        .pause(Duration::ZERO);
    // A vacuum beside it keeps a sweep from summarizing; this test has its own.
    store
        .database
        .execute("ALTER TABLE idem_keys SET (autovacuum_enabled = off)")
        .await
        .unwrap();
    store.put(0, 20_000, &EXPIRED).await;
    // Nothing is deleted in this one.
    store.put(20_000, 100, &LIVE).await;
    store
        .database
        .execute("VACUUM ANALYZE idem_keys")
        .await
        .unwrap();
    assert_eq!(sweeper.sweep_once().await.unwrap().records, 20_000);
    store
        .database
        .execute("VACUUM ANALYZE idem_keys")
        .await
        .unwrap();
    store.put(30_000, 20_000, &LIVE).await;
    store
        .database
        .execute("VACUUM ANALYZE idem_keys")
        .await
        .unwrap();
    let pages = store
        .database
        .number("SELECT pg_relation_size('idem_keys') / 8192")
        .await;
    let mut connection = store.idempotency.pool().acquire().await.unwrap();
    sqlx::query("SET enable_seqscan = off")
        .execute(&mut *connection)
        .await
        .unwrap();
    let plan: Vec<String> = sqlx::query_scalar(
        "EXPLAIN (ANALYZE, COSTS OFF) SELECT ctid FROM idem_keys WHERE expires_at <= now()",
    )
    .fetch_all(&mut *connection)
    .await
    .unwrap();
    let plan = plan.join("\n");
    let read: i64 = plan.split_once("lossy=").map_or(0, |(_, rest)| {
        rest.split_whitespace().next().unwrap().parse().unwrap()
    });
    assert!(plan.contains("idem_keys_expires_at"), "{plan}");
    assert!(
        pages > 384 && read <= 128,
        "{read} of {pages} pages: {plan}"
    );
}
