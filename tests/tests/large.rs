//! A million records on PostgreSQL: every statement of a request finds its rows by an index, and a batch of a sweep reads what it
//! deletes and little else. Runs with `tests/run --full`, or by name.

use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::Path;
use axum::http::{Request, StatusCode};
use axum::routing::post;
use futures_util::future::join_all;
use idem_runtime::{Idempotency, RoundTrips, Steps, Tx, idempotent};
use idem_tests::servers::{Backend, TestDatabase};
use idem_tests::wait::{PATIENCE, until};
use sqlx::{PgPool, Postgres};
use tower::ServiceExt;

const ROWS: i64 = 1_000_000;
/// At the table's beginning, where the planner would rather read it from there.
const OVER: i64 = 100_000;

/// Pages that a batch of a thousand may look at, again and again: each of its rows is found, locked and deleted, and what earlier
/// batches left may lie before it. The table has some thirty thousand.
const PAGES_OF_A_BATCH: i64 = 8_000;

async fn insert(tx: &mut Tx<Postgres>) -> Result<(), StatusCode> {
    let inserted = sqlx::query("INSERT INTO things (n) VALUES (1)")
        .execute(&mut *tx)
        .await;
    inserted
        .map(drop)
        .map_err(|_| StatusCode::INTERNAL_SERVER_ERROR)
}

#[idempotent(scope = "account", errors = "store")]
async fn order(
    tx: &mut Tx<Postgres>,
    Path(account): Path<String>,
    body: String,
) -> Result<String, StatusCode> {
    insert(tx).await?;
    // The others of its kind come meanwhile.
    tokio::time::sleep(Duration::from_millis(5)).await;
    match &*body {
        "refuse" => Err(StatusCode::PAYMENT_REQUIRED),
        _ => Ok(account),
    }
}

#[idempotent(scope = "account", ttl = "1s", wait = "500ms")]
async fn short(
    tx: &mut Tx<Postgres>,
    Path(account): Path<String>,
    _body: String,
) -> Result<String, StatusCode> {
    insert(tx).await?;
    Ok(account)
}

#[idempotent(scope = "account", operation = "large.pay")]
async fn pay(
    steps: &mut Steps<Postgres, StatusCode>,
    Path(account): Path<String>,
    _body: String,
) -> Result<String, StatusCode> {
    for name in ["one", "two"] {
        steps.atomic(name, insert).await?;
    }
    Ok(account)
}

async fn service(database: &TestDatabase, round_trips: RoundTrips) -> (Router, PgPool) {
    let pool = PgPool::connect(database.url())
        .await
        .expect("the database is there");
    let idempotency = Idempotency::builder(pool.clone())
        .round_trips(round_trips)
        .build()
        .expect("the settings make sense");
    idempotency.migrate().await.expect("the schema is made");
    let app = Router::new()
        .route("/orders/{account}", post(order))
        .route("/short/{account}", post(short))
        .route("/payments/{account}", post(pay))
        .with_state(idempotency);
    (app, pool)
}

/// Status, and whether it is a replay.
async fn send(app: &Router, path: &str, key: &str, body: &'static str) -> (u16, bool) {
    let request = Request::post(path)
        .header("content-type", "text/plain")
        .header("idempotency-key", key)
        .body(Body::from(body))
        .expect("a valid request");
    let response = app.clone().oneshot(request).await;
    let response = response.unwrap_or_else(|never| match never {});
    let replayed = response.headers().contains_key("idempotent-replayed");
    (response.status().as_u16(), replayed)
}

/// Fills the table with copies of its one record; the first of them are past their retention.
async fn fill(database: &TestDatabase) {
    let sql = format!(
        "INSERT INTO idem_keys (id, scope, operation, state, owner, fingerprint_version, fingerprint, status, headers, body, \
                created_at, completed_at, expires_at, retain_until) \
         SELECT sha256(int8send(n)), t.scope, t.operation, 1, t.owner, t.fingerprint_version, t.fingerprint, t.status, t.headers, \
                t.body, now(), now(), e.at, e.at \
           FROM (SELECT * FROM idem_keys LIMIT 1) t, generate_series(1, {ROWS}) n, \
                LATERAL (SELECT now() + CASE WHEN n <= {OVER} THEN interval '-1 hour' \
                                             ELSE interval '1 day' END AS at) e; \
         SELECT brin_summarize_new_values('idem_keys_expires_at')"
    );
    database.execute(&sql).await.expect("it is filled");
    for sql in [
        "ALTER TABLE idem_keys SET (autovacuum_enabled = off)",
        "VACUUM ANALYZE idem_keys",
    ] {
        database.execute(sql).await.expect("it is analyzed");
    }
}

/// What the server counts of the table. A session's own counts are there once it is over.
async fn counted(database: &TestDatabase, what: &str) -> i64 {
    until("the sessions are over", PATIENCE, async || {
        let others = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid() \
                      AND backend_type = 'client backend'";
        database.number(others).await == 0
    })
    .await;
    let sql = format!(
        "SELECT ({what})::bigint FROM pg_stat_user_tables t JOIN pg_statio_user_tables s USING (relid) WHERE t.relname = 'idem_keys'"
    );
    database.number(&sql).await
}

async fn requests(database: &TestDatabase, round_trips: RoundTrips) {
    let (app, pool) = service(database, round_trips).await;
    let (other, other_pool) = service(database, round_trips).await;
    let name = format!("{round_trips:?}");
    // Often enough that a plan is kept.
    for number in 0..10 {
        let key = format!("{name}-{number}");
        let first = send(&app, "/orders/alice", &key, "").await;
        assert_eq!(first, (200, false));
        for app in [&app, &other] {
            assert_eq!(send(app, "/orders/alice", &key, "").await, (200, true));
        }
        let reused = send(&other, "/orders/alice", &key, "another").await;
        assert_eq!(reused, (422, false));
        let refused = send(&app, "/orders/bob", &key, "refuse").await;
        assert_eq!(refused, (402, false));
        let duplicates =
            [&app, &other, &app, &other].map(|app| send(app, "/orders/carol", &key, ""));
        let duplicates = join_all(duplicates).await;
        assert!(duplicates.iter().all(|(status, _)| *status == 200));
        let paid = send(&app, "/payments/alice", &format!("paid-{key}"), "").await;
        assert_eq!(paid, (200, false));
    }
    for number in 0..3 {
        let key = format!("short-{name}-{number}");
        let mut uses = 0;
        until("its record is taken over", PATIENCE, async || {
            let (status, replayed) = send(&app, "/short/alice", &key, "").await;
            assert_eq!(status, 200);
            uses += i32::from(!replayed);
            uses == 2
        })
        .await;
    }
    pool.close().await;
    other_pool.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "fills a table with a million records"]
async fn large_tables_are_read_by_their_indexes() {
    let database = TestDatabase::create(Backend::Postgres).await;
    database
        .execute("CREATE TABLE things (n INTEGER NOT NULL)")
        .await
        .expect("the table is made");
    let (app, pool) = service(&database, RoundTrips::Separate).await;
    assert_eq!(send(&app, "/orders/alice", "first", "").await, (200, false));
    fill(&database).await;
    // The planner thinks of a slow disk, and would rather read a table from its beginning.
    let name = database.url().rsplit('/').next().unwrap_or_default();
    let slow = format!("ALTER DATABASE {name} SET random_page_cost = 200");
    database.execute(&slow).await.expect("it is set");

    let scans = counted_once_closed(&database, pool, "seq_scan").await;
    for round_trips in [RoundTrips::Separate, RoundTrips::Fewest] {
        requests(&database, round_trips).await;
    }
    let after = counted(&database, "seq_scan").await;
    assert_eq!(after - scans, 0, "scans of the whole table by requests");

    let pages = "heap_blks_hit + heap_blks_read";
    let before = counted(&database, pages).await;
    let (_, pool) = service(&database, RoundTrips::default()).await;
    let idempotency = Idempotency::<Postgres>::new(pool.clone());
    let sweeper = idempotency.sweeper().batch(1000).pause(Duration::ZERO);
    let swept = sweeper.sweep_once().await.expect("it sweeps");
    // What requests left that is over may be among them.
    let records = i64::try_from(swept.records).expect("a few");
    assert!((OVER..OVER + 100).contains(&records), "{swept:?}");
    let batches = i64::try_from(swept.batches).expect("a few");
    assert!(batches >= records / 1000, "{swept:?}");
    let read = counted_once_closed(&database, pool, pages).await - before;
    assert!(
        read / batches < PAGES_OF_A_BATCH,
        "{read} pages in {batches} batches"
    );

    // Statistics say that there is more to sweep.
    let before = counted(&database, "seq_scan").await;
    let (_, pool) = service(&database, RoundTrips::default()).await;
    let sweeper = Idempotency::<Postgres>::new(pool.clone()).sweeper();
    let swept = sweeper.sweep_once().await.expect("it sweeps");
    assert_eq!(swept.records, 0);
    let after = counted_once_closed(&database, pool, "seq_scan").await;
    assert_eq!(after - before, 0, "scans of the whole table by a sweep");
}

async fn counted_once_closed(database: &TestDatabase, pool: PgPool, what: &str) -> i64 {
    pool.close().await;
    counted(database, what).await
}
