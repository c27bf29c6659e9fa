//! What a storm of retries costs another key, on PostgreSQL: 500 clients send one request again and again, whose handler takes two
//! seconds, while another key comes 50 times a second. The pool has five connections.
//!
//! `IDEM_POSTGRES_URL=postgres://… cargo bench -p idem-tests --no-default-features --bench storms`
//!
//! Each storm has a calm before it, in rounds of one run; what counts is the median of the rounds' ratios. `--seconds 4` for how long
//! either lasts; `--duplicates 500`; the name of one storm runs that alone.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Body;
use axum::extract::{FromRef, Path, State};
use axum::http::{Request, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use idem_runtime::{EffectFree, Idempotency, Tx, idempotent};
use idem_tests::servers::{Backend, TestDatabase};
use sqlx::postgres::PgPoolOptions;
use sqlx::{PgConnection, PgPool, Postgres};
use tokio::task::JoinSet;
use tower::ServiceExt;

const ROUNDS: usize = 3;
const POOL: u32 = 5;
const HANDLER: Duration = Duration::from_secs(2);
/// Fifty a second.
const INTERVAL: Duration = Duration::from_millis(20);

/// What slow handlers do, and how many there were.
#[derive(Clone, EffectFree)]
struct Work {
    #[effect_free(trust = "what the bench switches")]
    fails: Arc<AtomicBool>,
    #[effect_free(trust = "counts what the bench looks at")]
    runs: Arc<AtomicUsize>,
    #[effect_free(trust = "counts what the bench looks at")]
    running: Arc<AtomicUsize>,
    #[effect_free(trust = "counts what the bench looks at")]
    most: Arc<AtomicUsize>,
}

impl Work {
    async fn slow(&self) {
        self.runs.fetch_add(1, Ordering::Relaxed);
        let running = self.running.fetch_add(1, Ordering::Relaxed) + 1;
        self.most.fetch_max(running, Ordering::Relaxed);
        tokio::time::sleep(HANDLER).await;
        self.running.fetch_sub(1, Ordering::Relaxed);
    }
}

#[derive(Clone, FromRef)]
struct App {
    idempotency: Idempotency<Postgres>,
    work: Work,
}

#[derive(Debug)]
struct Failed;

impl From<sqlx::Error> for Failed {
    fn from(_: sqlx::Error) -> Self {
        Self
    }
}

impl IntoResponse for Failed {
    fn into_response(self) -> Response {
        StatusCode::BAD_GATEWAY.into_response()
    }
}

async fn insert(db: &mut PgConnection, account: &str) -> sqlx::Result<String> {
    let id: i64 = sqlx::query_scalar("INSERT INTO orders (account) VALUES ($1) RETURNING id")
        .bind(account)
        .fetch_one(db)
        .await?;
    Ok(id.to_string())
}

#[idempotent(scope = "account")]
async fn quick(tx: &mut Tx<Postgres>, Path(account): Path<String>) -> Result<String, Failed> {
    Ok(insert(tx, &account).await?)
}

#[idempotent(scope = "account", wait = "25s")]
async fn slow(
    tx: &mut Tx<Postgres>,
    Path(account): Path<String>,
    State(work): State<Work>,
) -> Result<String, Failed> {
    let id = insert(tx, &account).await?;
    work.slow().await;
    match work.fails.load(Ordering::Relaxed) {
        true => Err(Failed),
        false => Ok(id),
    }
}

/// A process of the service, with a pool of its own.
struct Process {
    app: Router,
    pool: PgPool,
}

impl Process {
    async fn start(database: &TestDatabase, work: &Work) -> Process {
        let pool = PgPoolOptions::new()
            .min_connections(POOL)
            .max_connections(POOL)
            .connect(database.url())
            .await
            .expect("the database is there");
        let idempotency = Idempotency::new(pool.clone());
        idempotency.migrate().await.expect("the schema is made");
        let app = Router::new()
            .route("/quick/{account}", post(quick))
            .route("/slow/{account}", post(slow))
            .with_state(App {
                idempotency,
                work: work.clone(),
            });
        Process { app, pool }
    }

    /// How many connections are in use.
    fn held(&self) -> usize {
        (self.pool.size() as usize).saturating_sub(self.pool.num_idle())
    }
}

async fn send(app: &Router, path: &str, key: &str) -> StatusCode {
    let request = Request::post(path)
        .header("idempotency-key", key)
        .body(Body::from("{}"))
        .expect("a valid request");
    let response = app
        .clone()
        .oneshot(request)
        .await
        .unwrap_or_else(|never| match never {});
    let status = response.status();
    let _ = axum::body::to_bytes(response.into_body(), usize::MAX).await;
    status
}

/// What other keys saw.
struct Seen {
    latencies: Vec<Duration>,
    most_held: usize,
}

impl Seen {
    fn at(&self, quantile: f64) -> Duration {
        let last = self.latencies.len() - 1;
        self.latencies[(last as f64 * quantile).round() as usize]
    }
}

/// Sends a fresh key at each interval, whatever became of those before it, to the processes by turns.
async fn others(processes: &Arc<Vec<Process>>, seconds: u64) -> Seen {
    let mut ticks = tokio::time::interval(INTERVAL);
    let requests = seconds as usize * 50;
    let mut running = JoinSet::new();
    let mut most_held = 0;
    for turn in 0..requests {
        ticks.tick().await;
        let processes = processes.clone();
        // Beside this very request.
        let held = processes.iter().map(Process::held);
        most_held = most_held.max(held.max().unwrap_or(0));
        running.spawn(async move {
            let process = &processes[turn % processes.len()];
            let started = Instant::now();
            let key = uuid::Uuid::new_v4().to_string();
            let status = send(&process.app, "/quick/bob", &key).await;
            assert_eq!(status, StatusCode::OK, "another key is answered");
            started.elapsed()
        });
    }
    let mut latencies = running.join_all().await;
    latencies.sort();
    Seen {
        latencies,
        most_held,
    }
}

/// Clients that send one request, all of them the same, until they are told to stop; a new one as soon as it succeeds, and the same
/// again as soon as it fails.
struct Storm {
    over: Arc<AtomicBool>,
    clients: JoinSet<(usize, usize)>,
}

impl Storm {
    async fn rises(processes: &Arc<Vec<Process>>, work: &Work, duplicates: usize) -> Storm {
        let over = Arc::new(AtomicBool::new(false));
        let name = uuid::Uuid::new_v4();
        let mut clients = JoinSet::new();
        for client in 0..duplicates {
            let (processes, over) = (processes.clone(), over.clone());
            clients.spawn(async move {
                let process = &processes[client % processes.len()];
                let (mut answers, mut told, mut number) = (0, 0, 0);
                while !over.load(Ordering::Relaxed) {
                    let status =
                        send(&process.app, "/slow/alice", &format!("{name}-{number}")).await;
                    if status == StatusCode::OK {
                        number += 1;
                        answers += 1;
                    } else {
                        told += 1;
                    }
                }
                (answers, told)
            });
        }
        let before = work.runs.load(Ordering::Relaxed);
        while work.runs.load(Ordering::Relaxed) == before {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        Storm { over, clients }
    }

    async fn ends(self) -> (usize, usize) {
        self.over.store(true, Ordering::Relaxed);
        let clients = self.clients.join_all().await;
        clients
            .iter()
            .fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1))
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}

async fn measure(
    name: &str,
    processes: Arc<Vec<Process>>,
    work: &Work,
    seconds: u64,
    duplicates: usize,
) {
    let (mut medians, mut tails) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let calm = others(&processes, seconds).await;
        work.most.store(0, Ordering::Relaxed);
        let before = work.runs.load(Ordering::Relaxed);
        let storm = Storm::rises(&processes, work, duplicates).await;
        let stormy = others(&processes, seconds).await;
        let runs = work.runs.load(Ordering::Relaxed) - before;
        let (answers, told) = storm.ends().await;
        println!(
            "{name:28} p50 {:6.2} → {:6.2} ms, p99 {:6.2} → {:6.2} ms, worst {:6.2} → {:6.2} ms; connections held {} → {} of {POOL}; \
             {runs} runs, {} at once; {answers} answers, {told} failures",
            millis(calm.at(0.5)),
            millis(stormy.at(0.5)),
            millis(calm.at(0.99)),
            millis(stormy.at(0.99)),
            millis(calm.at(1.0)),
            millis(stormy.at(1.0)),
            calm.most_held,
            stormy.most_held,
            work.most.load(Ordering::Relaxed),
        );
        medians.push(millis(stormy.at(0.5)) / millis(calm.at(0.5)));
        tails.push(millis(stormy.at(0.99)) / millis(calm.at(0.99)));
    }
    println!(
        "{name:28} p50 × {:.2}, p99 × {:.2}\n",
        median(medians),
        median(tails)
    );
}

fn argument<T: std::str::FromStr>(name: &str, otherwise: T) -> T {
    std::env::args()
        .skip_while(|argument| argument != name)
        .nth(1)
        .and_then(|value| value.parse().ok())
        .unwrap_or(otherwise)
}

#[tokio::main]
async fn main() {
    let seconds = argument("--seconds", 10);
    let duplicates = argument("--duplicates", 500);
    let database = TestDatabase::create(Backend::Postgres).await;
    database
        .execute("CREATE TABLE orders (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, account text NOT NULL)")
        .await
        .expect("the table is made");
    let work = Work {
        fails: Arc::default(),
        runs: Arc::default(),
        running: Arc::default(),
        most: Arc::default(),
    };
    let storms = [
        ("one process", 1, false),
        ("one process, failing", 1, true),
        ("two processes", 2, false),
        ("two processes, failing", 2, true),
    ];
    let only: Vec<String> = std::env::args().skip(1).collect();
    println!(
        "{duplicates} duplicates of a handler of {HANDLER:?}; another key every {INTERVAL:?}, calm → storm\n"
    );
    for (name, number, fails) in storms {
        let named = |storm: &(&str, usize, bool)| only.iter().any(|argument| argument == storm.0);
        if storms.iter().any(named) && !only.iter().any(|argument| argument == name) {
            continue;
        }
        let mut processes = Vec::new();
        for _ in 0..number {
            processes.push(Process::start(&database, &work).await);
        }
        work.fails.store(fails, Ordering::Relaxed);
        let processes = Arc::new(processes);
        others(&processes, 1).await;
        measure(name, processes, &work, seconds, duplicates).await;
    }
}
