//! The relay on PostgreSQL, against the loop that one writes by hand: `SELECT .. FOR UPDATE SKIP LOCKED`, publish, `DELETE`.
//!
//! `IDEM_POSTGRES_URL=postgres://… cargo bench -p idem-tests --no-default-features --bench outbox`
//!
//! Both have the same publisher, the same batch size and the same messages. The loop by hand publishes a whole batch at once,
//! and so keeps no order; the relay keeps that of each key. The contenders take turns, in rounds of one run.
#![allow(clippy::unwrap_used)]

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Body;
use axum::extract::{FromRef, Path};
use axum::http::{Request, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use bytes::Bytes;
use futures_util::future::join_all;
use idem_runtime::outbox::{OutboxMessage, PublishError, Publisher};
use idem_runtime::{Idempotency, Tx, idempotent};
use idem_tests::servers::{Backend, TestDatabase};
use sqlx::postgres::PgPoolOptions;
use sqlx::{AssertSqlSafe, Connection, Executor, PgConnection, PgPool, Postgres, Row};
use tokio::sync::oneshot;
use tower::ServiceExt;

const ROUNDS: usize = 5;
const MESSAGES: u64 = 20_000;
const BATCH: u32 = 100;
const CONFIRM: Duration = Duration::from_micros(200);

const BY_HAND: &str = "CREATE TABLE by_hand (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, \
    topic text NOT NULL, ordering_key text, payload bytea NOT NULL, \
    created_at timestamptz NOT NULL DEFAULT now())";

/// Confirms at once, or so long after it was given a message. A timer of tokio's has whole milliseconds; a thread has not.
#[derive(Clone)]
struct Broker {
    confirmed: Arc<AtomicU64>,
    thread: Option<mpsc::Sender<(Instant, oneshot::Sender<()>)>>,
}

impl Broker {
    fn new(latency: Duration) -> Self {
        let thread = (!latency.is_zero()).then(|| {
            let (sender, receiver) = mpsc::channel::<(Instant, oneshot::Sender<()>)>();
            std::thread::spawn(move || {
                while let Ok((came, confirm)) = receiver.recv() {
                    std::thread::sleep((came + latency).saturating_duration_since(Instant::now()));
                    let _ = confirm.send(());
                }
            });
            sender
        });
        Self {
            confirmed: Arc::default(),
            thread,
        }
    }

    async fn send(&self) {
        if let Some(thread) = &self.thread {
            let (sender, receiver) = oneshot::channel();
            let _ = thread.send((Instant::now(), sender));
            let _ = receiver.await;
        }
        self.confirmed.fetch_add(1, Ordering::Relaxed);
    }

    fn confirmed(&self) -> u64 {
        self.confirmed.load(Ordering::Relaxed)
    }
}

impl Publisher for Broker {
    async fn publish(&self, _: &OutboxMessage) -> Result<(), PublishError> {
        self.send().await;
        Ok(())
    }
}

/// Messages as the outbox has them: a thousand keys, two hundred bytes each.
async fn fill(pool: &PgPool, messages: u64, state: i16) {
    let sql = format!(
        "INSERT INTO idem_outbox (id, topic, ordering_key, lane, content_type, payload, staged_at, state, state_at) \
         SELECT decode(lpad(to_hex((extract(epoch FROM now()) * 1000)::bigint + n / 10), 12, '0') || \
                       substr(md5(random()::text || n), 1, 20), 'hex'), 'orders.placed', 'order-' || n % 1000, n % 1000 % 64, \
                'application/json', convert_to(repeat('x', 200), 'UTF8'), now(), {state}, now() \
           FROM generate_series(1, {messages}) n"
    );
    pool.execute(AssertSqlSafe(sql)).await.unwrap();
}

async fn fill_by_hand(pool: &PgPool, messages: u64) {
    let sql = format!(
        "INSERT INTO by_hand (topic, ordering_key, payload) \
         SELECT 'orders.placed', 'order-' || n % 1000, convert_to(repeat('x', 200), 'UTF8') \
           FROM generate_series(1, {messages}) n"
    );
    pool.execute(AssertSqlSafe(sql)).await.unwrap();
}

async fn analyze(pool: &PgPool) {
    // Each by itself: several in one message are one transaction, in which none may run.
    for statement in ["VACUUM ANALYZE idem_outbox", "VACUUM ANALYZE by_hand"] {
        pool.execute(statement).await.unwrap();
    }
}

/// One batch of the loop by hand. How many messages there were.
async fn by_hand(pool: &PgPool, broker: &Broker) -> usize {
    let mut tx = pool.begin().await.unwrap();
    let rows = sqlx::query(
        "SELECT id, topic, ordering_key, payload FROM by_hand \
          ORDER BY id LIMIT $1 FOR UPDATE SKIP LOCKED",
    )
    .bind(i64::from(BATCH))
    .fetch_all(&mut *tx)
    .await
    .unwrap();
    join_all(rows.iter().map(async |row| {
        let topic: &str = row.try_get("topic").unwrap();
        let payload: &[u8] = row.try_get("payload").unwrap();
        std::hint::black_box((topic, Bytes::copy_from_slice(payload)));
        broker.send().await;
    }))
    .await;
    let ids: Vec<i64> = rows.iter().map(|row| row.try_get("id").unwrap()).collect();
    sqlx::query("DELETE FROM by_hand WHERE id = ANY($1)")
        .bind(&ids)
        .execute(&mut *tx)
        .await
        .unwrap();
    tx.commit().await.unwrap();
    ids.len()
}

fn per_second(messages: u64, elapsed: Duration) -> f64 {
    messages as f64 / elapsed.as_secs_f64()
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

async fn race(idempotency: &Idempotency<Postgres>, latency: Duration) {
    let pool = idempotency.pool();
    let (mut ratios, mut relays, mut hands) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..=ROUNDS {
        fill(pool, MESSAGES, 0).await;
        fill_by_hand(pool, MESSAGES).await;
        analyze(pool).await;
        let broker = Broker::new(latency);
        let begun = Instant::now();
        let relay = idempotency.relay().publisher(broker.clone()).batch(BATCH);
        let relayed = relay.run_once().await.unwrap();
        assert_eq!(relayed.delivered, MESSAGES);
        let relay = per_second(MESSAGES, begun.elapsed());
        let begun = Instant::now();
        while by_hand(pool, &broker).await > 0 {}
        let hand = per_second(MESSAGES, begun.elapsed());
        if round > 0 {
            ratios.push(relay / hand);
            relays.push(relay);
            hands.push(hand);
        }
    }
    println!(
        "confirmed after {:>4} µs: relay {:>6.0}/s, by hand {:>6.0}/s, ratio {:.2}",
        latency.as_micros(),
        median(&mut relays),
        median(&mut hands),
        median(&mut ratios),
    );
}

/// How fast so many more are published, from their commit on.
async fn burst(broker: &Broker, had: u64, messages: u64) -> f64 {
    let begun = Instant::now();
    while broker.confirmed() < had + messages {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    per_second(messages, begun.elapsed())
}

async fn snapshot(database: &TestDatabase) -> PgConnection {
    let mut connection = PgConnection::connect(database.url()).await.unwrap();
    connection
        .execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM idem_schema")
        .await
        .unwrap();
    connection
}

const BURST: u64 = 100_000;
const BEFORE: u64 = 900_000;
const MINUTE: Duration = Duration::from_secs(60);

/// A burst on an empty table, and one when a snapshot has been open for a minute, in which many were published; with a
/// million delivered messages in the table, if they are kept.
async fn burdened(idempotency: &Idempotency<Postgres>, database: &TestDatabase, keep: Duration) {
    let pool = idempotency.pool();
    let start = |broker: &Broker| {
        let relay = idempotency.relay().publisher(broker.clone()).batch(BATCH);
        relay.keep_delivered(keep).spawn()
    };
    let clear = "TRUNCATE idem_outbox; TRUNCATE by_hand";
    pool.execute(clear).await.unwrap();
    let broker = Broker::new(CONFIRM);
    let relay = start(&broker);
    let mut alone = Vec::new();
    for _ in 0..3 {
        pool.execute(clear).await.unwrap();
        let had = broker.confirmed();
        fill(pool, BURST, 0).await;
        alone.push(burst(&broker, had, BURST).await);
    }
    relay.stop().await;
    pool.execute(clear).await.unwrap();
    let kept = if keep.is_zero() { 0 } else { 1_000_000 };
    fill(pool, kept, 3).await;
    analyze(pool).await;
    let held = snapshot(database).await;
    let opened = Instant::now();
    let broker = Broker::new(CONFIRM);
    let relay = start(&broker);
    fill(pool, BEFORE, 0).await;
    burst(&broker, 0, BEFORE).await;
    tokio::time::sleep(MINUTE.saturating_sub(opened.elapsed())).await;
    let mut after = Vec::new();
    for _ in 0..3 {
        let had = broker.confirmed();
        fill(pool, BURST, 0).await;
        after.push(burst(&broker, had, BURST).await);
    }
    relay.stop().await;
    held.close().await.unwrap();
    let (alone, after) = (median(&mut alone), median(&mut after));
    println!(
        "{kept} delivered kept: alone {alone:.0}/s, with a snapshot open for a minute and {BEFORE} published in it \
         {after:.0}/s, ratio {:.2}",
        after / alone
    );
    pool.execute(clear).await.unwrap();
}

/// The same of the loop by hand, which deletes.
async fn burdened_by_hand(pool: &PgPool, database: &TestDatabase) {
    let broker = Broker::new(CONFIRM);
    let drain = async |messages: u64| {
        fill_by_hand(pool, messages).await;
        let begun = Instant::now();
        while by_hand(pool, &broker).await > 0 {}
        per_second(messages, begun.elapsed())
    };
    let alone = drain(BURST).await;
    let held = snapshot(database).await;
    let opened = Instant::now();
    // As many would take it hours.
    drain(BURST).await;
    tokio::time::sleep(MINUTE.saturating_sub(opened.elapsed())).await;
    let after = drain(BURST / 20).await;
    held.close().await.unwrap();
    println!(
        "by hand: alone {alone:.0}/s, with a snapshot open for a minute and {BURST} published in it {after:.0}/s, ratio {:.3}",
        after / alone
    );
    pool.execute("TRUNCATE by_hand").await.unwrap();
}

#[derive(Clone)]
struct App {
    idempotency: Idempotency<Postgres>,
}

impl FromRef<App> for Idempotency<Postgres> {
    fn from_ref(app: &App) -> Self {
        app.idempotency.clone()
    }
}

struct Failed;

impl From<sqlx::Error> for Failed {
    fn from(_: sqlx::Error) -> Self {
        Self
    }
}

impl IntoResponse for Failed {
    fn into_response(self) -> Response {
        StatusCode::INTERNAL_SERVER_ERROR.into_response()
    }
}

#[idempotent(scope = "account")]
async fn stage(tx: &mut Tx<Postgres>, Path(account): Path<String>) -> Result<StatusCode, Failed> {
    tx.outbox()
        .publish("orders.placed", &account, "placed")
        .await?;
    Ok(StatusCode::CREATED)
}

#[derive(Clone, Default)]
struct Clock(Arc<Mutex<Option<oneshot::Sender<Instant>>>>);

impl Publisher for Clock {
    async fn publish(&self, _: &OutboxMessage) -> Result<(), PublishError> {
        if let Some(sender) = self.0.lock().unwrap().take() {
            let _ = sender.send(Instant::now());
        }
        Ok(())
    }
}

/// From the answer, which follows the commit at once, to the publishing.
async fn latency(
    what: &str,
    staging: &Idempotency<Postgres>,
    relaying: &Idempotency<Postgres>,
    samples: usize,
) {
    let router = Router::new()
        .route("/{account}", post(stage))
        .with_state(App {
            idempotency: staging.clone(),
        });
    let clock = Clock::default();
    let relay = relaying.relay().publisher(clock.clone()).spawn();
    let mut waits = Vec::new();
    for sample in 0..samples + 3 {
        let (sender, receiver) = oneshot::channel();
        *clock.0.lock().unwrap() = Some(sender);
        // At any moment of the poll's.
        tokio::time::sleep(Duration::from_millis(fastrand::u64(20..120))).await;
        let request = Request::post("/alice")
            .header("idempotency-key", format!("\"{what} {sample}\""))
            .body(Body::empty())
            .unwrap();
        let answer = router.clone().oneshot(request).await.unwrap();
        assert_eq!(answer.status(), StatusCode::CREATED);
        let answered = Instant::now();
        let published = receiver.await.unwrap();
        if sample >= 3 {
            waits.push(published.saturating_duration_since(answered).as_secs_f64() * 1000.0);
        }
    }
    relay.stop().await;
    let middle = median(&mut waits);
    println!(
        "{what}: from commit to publishing {middle:.2} ms median, {:.2} ms longest of {samples}",
        waits[waits.len() - 1]
    );
}

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() {
    let database = TestDatabase::create(Backend::Postgres).await;
    let connect = async || {
        PgPoolOptions::new()
            .max_connections(8)
            .connect(database.url())
            .await
            .unwrap()
    };
    let idempotency = Idempotency::new(connect().await);
    idempotency.migrate().await.unwrap();
    idempotency.pool().execute(BY_HAND).await.unwrap();
    let quiet = Idempotency::builder(connect().await)
        .notify(false)
        .build()
        .unwrap();
    let other = Idempotency::new(connect().await);
    let deaf = Idempotency::builder(connect().await)
        .notify(false)
        .build()
        .unwrap();
    // All of it, or what is named: `-- race`.
    let named: Vec<String> = std::env::args()
        .skip(1)
        .filter(|name| !name.starts_with('-'))
        .collect();
    let wants = |part: &str| named.is_empty() || named.iter().any(|name| name == part);
    if wants("latency") {
        latency("in one process", &quiet, &quiet, 100).await;
        latency("in two, with NOTIFY", &idempotency, &other, 100).await;
        latency("in two, polling each 500 ms", &quiet, &deaf, 50).await;
    }
    if wants("race") {
        race(&idempotency, Duration::ZERO).await;
        race(&idempotency, CONFIRM).await;
    }
    if wants("burdened") {
        burdened(&idempotency, &database, Duration::ZERO).await;
        burdened(&idempotency, &database, Duration::from_secs(24 * 60 * 60)).await;
        burdened_by_hand(idempotency.pool(), &database).await;
    }
}
