//! The relay on PostgreSQL, against the loop that one writes by hand: `SELECT .. FOR UPDATE SKIP LOCKED`, publish, `DELETE`.
//!
//! `IDEM_POSTGRES_URL=postgres://… cargo bench -p idem-tests --no-default-features --bench outbox`
//!
//! Both have the same publisher, the same batch size and the same messages. The loop by hand publishes a whole batch at once,
//! and so keeps no order; the relay keeps that of each key. The contenders take turns, in rounds of one run. The relay does not
//! wait until it is on disk that messages are delivered; the loop does, as it comes, and in a second row does not, either.
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
use idem_runtime::outbox::{OutboxMessage, PublishError, Publisher, RelayHandle};
use idem_runtime::{Idempotency, Tx, idempotent};
use idem_tests::servers::{Backend, TestDatabase};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::{AssertSqlSafe, Connection, Executor, PgConnection, PgPool, Postgres, Row};
use tokio::sync::oneshot;
use tower::ServiceExt;

const ROUNDS: usize = 5;
const MESSAGES: u64 = 20_000;
const BATCH: u32 = 100;
/// What is filled in tells nobody.
const POLL: Duration = Duration::from_millis(10);
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

/// So many loops by hand, until nothing is left.
async fn hands(pool: &PgPool, broker: &Broker, number: usize) {
    let hands = (0..number).map(|_| {
        let (pool, broker) = (pool.clone(), broker.clone());
        tokio::spawn(async move { while by_hand(&pool, &broker).await > 0 {} })
    });
    for hand in join_all(hands).await {
        hand.unwrap();
    }
}

/// So many relays, which share the lanes before there is anything to publish.
async fn relays(database: &TestDatabase, broker: &Broker, number: usize) -> Vec<RelayHandle> {
    let mut relays = Vec::new();
    for _ in 0..number {
        let idempotency = Idempotency::new(connect(database, "on").await);
        let relay = idempotency.relay().publisher(broker.clone()).batch(BATCH);
        relays.push(relay.poll(POLL).spawn());
    }
    let shared = format!(
        "SELECT count(*) = {number} AND max(lanes) = 64 / {number} FROM \
         (SELECT count(*) AS lanes FROM idem_outbox_lanes WHERE relay IS NOT NULL GROUP BY relay) l"
    );
    let pool = connect(database, "on").await;
    let shared = async || {
        let shared = sqlx::query_scalar(AssertSqlSafe(shared.clone()));
        shared.fetch_one(&pool).await.unwrap()
    };
    while !shared().await {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    relays
}

async fn race(database: &TestDatabase, latency: Duration, number: usize) {
    let pool = connect(database, "on").await;
    let hasty = connect(database, "off").await;
    let broker = Broker::new(latency);
    let mut rates = [(); 3].map(|()| Vec::new());
    let mut ratios = [(); 2].map(|()| Vec::new());
    for round in 0..=ROUNDS {
        pool.execute("TRUNCATE idem_outbox").await.unwrap();
        let relays = relays(database, &broker, number).await;
        let had = broker.confirmed();
        fill(&pool, MESSAGES, 0).await;
        let mut rate = [burst(&broker, had, MESSAGES).await, 0.0, 0.0];
        for relay in relays {
            relay.stop().await;
        }
        for (pool, rate) in [&pool, &hasty].into_iter().zip(&mut rate[1..]) {
            fill_by_hand(pool, MESSAGES).await;
            let begun = Instant::now();
            hands(pool, &broker, number).await;
            *rate = per_second(MESSAGES, begun.elapsed());
        }
        analyze(&pool).await;
        if round > 0 {
            for (all, rate) in rates.iter_mut().zip(rate) {
                all.push(rate);
            }
            ratios[0].push(rate[0] / rate[1]);
            ratios[1].push(rate[0] / rate[2]);
        }
    }
    let [relay, hand, hasty] = rates.each_mut().map(|rates| median(rates));
    let [to_hand, to_hasty] = ratios.each_mut().map(|ratios| median(ratios));
    println!(
        "{number} against {number}, confirmed after {:>3} µs: relay {relay:>6.0}/s, by hand {hand:>6.0}/s, ratio {to_hand:.2}; \
         by hand with synchronous_commit off {hasty:>6.0}/s, ratio {to_hasty:.2}",
        latency.as_micros(),
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

const BURST: u64 = 60_000;
const KEPT: u64 = 1_000_000;
/// Published while a snapshot is open, before its minute is over.
const BEFORE: u64 = 400_000;
/// As many as the others would take the loop by hand hours.
const BY_HAND_BEFORE: u64 = 30_000;
const MINUTE: Duration = Duration::from_secs(60);

/// A relay, which runs all the time, and the table that it reads.
struct Burdened {
    database: TestDatabase,
    pool: PgPool,
    broker: Broker,
    relay: RelayHandle,
}

impl Burdened {
    async fn new(keep: Duration) -> Self {
        let (database, idempotency) = migrated().await;
        let broker = Broker::new(CONFIRM);
        let relay = idempotency.relay().publisher(broker.clone()).batch(BATCH);
        Self {
            database,
            pool: idempotency.pool().clone(),
            broker,
            relay: relay.keep_delivered(keep).poll(POLL).spawn(),
        }
    }

    async fn publish(&self, messages: u64) -> f64 {
        let had = self.broker.confirmed();
        fill(&self.pool, messages, 0).await;
        burst(&self.broker, had, messages).await
    }

    async fn bursts(&self) -> f64 {
        let mut rates = Vec::new();
        for _ in 0..3 {
            rates.push(self.publish(BURST).await);
        }
        median(&mut rates)
    }
}

/// Bursts on an empty table, beside a million delivered messages, and when a snapshot has been open for a minute in which many
/// were published; of a relay that deletes what is delivered, of one that keeps it, and of the loop by hand, which deletes.
async fn burdened() {
    let deleting = Burdened::new(Duration::ZERO).await;
    let keeping = Burdened::new(Duration::from_secs(24 * 60 * 60)).await;
    let (database, by_hand) = migrated().await;
    let (pool, broker) = (by_hand.pool(), Broker::new(CONFIRM));
    let hand = async |messages: u64| {
        fill_by_hand(pool, messages).await;
        let begun = Instant::now();
        hands(pool, &broker, 1).await;
        per_second(messages, begun.elapsed())
    };
    let alone = [
        deleting.bursts().await,
        keeping.bursts().await,
        hand(BURST).await,
    ];
    fill(&keeping.pool, KEPT, 3).await;
    analyze(&keeping.pool).await;
    let kept = keeping.bursts().await;
    let mut snapshots = Vec::new();
    for database in [&deleting.database, &keeping.database, &database] {
        snapshots.push(snapshot(database).await);
    }
    let opened = Instant::now();
    deleting.publish(BEFORE).await;
    keeping.publish(BEFORE).await;
    hand(BY_HAND_BEFORE).await;
    tokio::time::sleep(MINUTE.saturating_sub(opened.elapsed())).await;
    let after = [
        deleting.bursts().await,
        keeping.bursts().await,
        hand(BURST / 12).await,
    ];
    for relay in [deleting.relay, keeping.relay] {
        relay.stop().await;
    }
    for snapshot in snapshots {
        snapshot.close().await.unwrap();
    }
    let held = |before: u64| format!("a snapshot open for a minute and {before} published in it");
    let rows = [
        ("deleting", alone[0], held(BEFORE), after[0]),
        ("keeping", alone[1], format!("{KEPT} kept"), kept),
        (
            "keeping",
            alone[1],
            format!("{KEPT} kept, {}", held(BEFORE)),
            after[1],
        ),
        ("by hand", alone[2], held(BY_HAND_BEFORE), after[2]),
    ];
    for (what, alone, with, burdened) in rows {
        println!(
            "{what}: alone {alone:.0}/s, with {with} {burdened:.0}/s, ratio {:.3}",
            burdened / alone
        );
    }
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

async fn connect(database: &TestDatabase, synchronous_commit: &str) -> PgPool {
    let options: PgConnectOptions = database.url().parse().unwrap();
    PgPoolOptions::new()
        .max_connections(8)
        .connect_with(options.options([("synchronous_commit", synchronous_commit)]))
        .await
        .unwrap()
}

async fn migrated() -> (TestDatabase, Idempotency<Postgres>) {
    let database = TestDatabase::create(Backend::Postgres).await;
    let idempotency = Idempotency::new(connect(&database, "on").await);
    idempotency.migrate().await.unwrap();
    idempotency.pool().execute(BY_HAND).await.unwrap();
    (database, idempotency)
}

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() {
    let (database, idempotency) = migrated().await;
    let connect = async || connect(&database, "on").await;
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
        for number in [1, 2] {
            race(&database, Duration::ZERO, number).await;
            race(&database, CONFIRM, number).await;
        }
    }
    if wants("burdened") {
        burdened().await;
    }
}
