//! Many duplicates of one request at once, in one process: what they hold, how many may wait, and what follows a failure. The same
//! on every backend.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::body::{Body, to_bytes};
use axum::extract::{FromRef, Path, State};
use axum::http::{Request, StatusCode};
use axum::routing::post;
use axum::{Router, response::IntoResponse};
use futures_util::future::join_all;
use idem_runtime::{Backend as Database, EffectFree, Idempotency, IdempotencyBuilder};
use idem_tests::servers::{Backend, TestDatabase};
use idem_tests::wait::{PATIENCE, until};
use sqlx::Pool;
use sqlx::pool::PoolOptions;
use tokio::sync::Semaphore;
use tower::ServiceExt;

const POOL: u32 = 5;

/// Where handlers stand, and what they do then.
#[derive(Clone, EffectFree)]
struct Gate {
    #[effect_free(trust = "counts what a test looks at")]
    entered: Arc<AtomicUsize>,
    #[effect_free(trust = "what a test lets go on")]
    open: Arc<Semaphore>,
    #[effect_free(trust = "what a test switches")]
    fails: Arc<AtomicUsize>,
}

impl Gate {
    fn new() -> Self {
        Self {
            entered: Arc::default(),
            open: Arc::new(Semaphore::new(0)),
            fails: Arc::default(),
        }
    }

    fn entered(&self) -> usize {
        self.entered.load(Ordering::SeqCst)
    }

    async fn is_entered(&self, times: usize) {
        until("the handler runs", PATIENCE, async || {
            self.entered() >= times
        })
        .await;
    }

    /// Lets one handler pass. It is one of the first so many, which fail, or answers.
    async fn pass(&self) -> Result<&'static str, StatusCode> {
        let run = self.entered.fetch_add(1, Ordering::SeqCst);
        if let Ok(one) = self.open.acquire().await {
            one.forget();
        }
        if run < self.fails.load(Ordering::SeqCst) {
            return Err(StatusCode::BAD_GATEWAY);
        }
        Ok("done")
    }
}

struct App<DB: Database> {
    idempotency: Idempotency<DB>,
    gate: Gate,
}

impl<DB: Database> Clone for App<DB> {
    fn clone(&self) -> Self {
        Self {
            idempotency: self.idempotency.clone(),
            gate: self.gate.clone(),
        }
    }
}

impl<DB: Database> FromRef<App<DB>> for Idempotency<DB> {
    fn from_ref(app: &App<DB>) -> Self {
        app.idempotency.clone()
    }
}

impl<DB: Database> FromRef<App<DB>> for Gate {
    fn from_ref(app: &App<DB>) -> Self {
        app.gate.clone()
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Seen {
    status: u16,
    replayed: bool,
    retry_after: bool,
    body: String,
}

async fn send(app: &Router, key: &str) -> Seen {
    let request = Request::post("/gated/alice")
        .header("idempotency-key", key)
        .body(Body::empty())
        .expect("a valid request");
    let response = app.clone().oneshot(request).await;
    let (parts, body) = response.into_response().into_parts();
    let body = to_bytes(body, usize::MAX).await.expect("a whole body");
    Seen {
        status: parts.status.as_u16(),
        replayed: parts.headers.contains_key("idempotent-replayed"),
        retry_after: parts.headers.contains_key("retry-after"),
        body: String::from_utf8_lossy(&body).into_owned(),
    }
}

/// Many requests with one key.
struct Storm {
    duplicates: usize,
    asked: Arc<AtomicUsize>,
    answers: tokio::task::JoinHandle<Vec<Seen>>,
}

/// Sends so many at once, in a task.
fn storm(app: &Router, duplicates: usize) -> Storm {
    let (app, asked) = (app.clone(), Arc::new(AtomicUsize::new(0)));
    let counted = asked.clone();
    let one = async move |app: &Router| {
        counted.fetch_add(1, Ordering::SeqCst);
        send(app, "k").await
    };
    let answers = tokio::spawn(async move { join_all((0..duplicates).map(|_| one(&app))).await });
    Storm {
        duplicates,
        asked,
        answers,
    }
}

impl Storm {
    /// Each goes in one turn from here to where it waits, or to its first message to the database.
    async fn have_asked(&self) {
        until("all have asked", PATIENCE, async || {
            self.asked.load(Ordering::SeqCst) == self.duplicates
        })
        .await;
    }

    async fn answers(self) -> Vec<Seen> {
        self.answers.await.expect("all are answered")
    }
}

/// How many connections nobody holds, found by taking them all.
fn free<DB: Database>(pool: &Pool<DB>) -> usize {
    let all: Vec<_> = (0..POOL).map_while(|_| pool.try_acquire()).collect();
    all.len()
}

macro_rules! backend {
    // SQLite's writer of another process is waited for.
    ($name:ident, $db:ty, $backend:expr $(, $case:ident)?) => {
        mod $name {
            use idem_runtime::{Tx, idempotent};

            use super::*;

            #[idempotent(scope = "account", wait = "25s")]
            async fn gated(
                tx: &mut Tx<$db>,
                Path(account): Path<String>,
                State(gate): State<Gate>,
            ) -> Result<&'static str, StatusCode> {
                let _ = account;
                let inserted = sqlx::query("INSERT INTO things (n) VALUES (1)")
                    .execute(&mut *tx)
                    .await;
                inserted.map_err(|_| StatusCode::INTERNAL_SERVER_ERROR)?;
                gate.pass().await
            }

            /// Another process on the same database.
            async fn process(
                database: &TestDatabase,
                gate: &Gate,
                configure: impl FnOnce(IdempotencyBuilder<$db>) -> IdempotencyBuilder<$db>,
            ) -> (Router, Pool<$db>) {
                // They are there from the start, so that each can be taken at once.
                let pool = PoolOptions::<$db>::new()
                    .min_connections(POOL)
                    .max_connections(POOL)
                    .connect(database.url())
                    .await
                    .expect("the database is there");
                let builder = Idempotency::builder(pool.clone());
                let idempotency = configure(builder.round_trips($backend.round_trips()))
                    .build()
                    .expect("the settings make sense");
                idempotency.migrate().await.expect("the schema is made");
                let app = Router::new()
                    .route("/gated/{account}", post(gated))
                    .with_state(App {
                        idempotency,
                        gate: gate.clone(),
                    });
                (app, pool)
            }

            async fn database() -> TestDatabase {
                let database = TestDatabase::create($backend).await;
                database
                    .execute("CREATE TABLE things (n INTEGER NOT NULL)")
                    .await
                    .expect("the table is made");
                database
            }

            async fn things(database: &TestDatabase) -> i64 {
                database.number("SELECT count(*) FROM things").await
            }

            #[tokio::test]
            async fn two_hundred_waiters_hold_no_connection_and_one_more_is_refused() {
                let (database, gate) = (database().await, Gate::new());
                let (app, pool) =
                    process(&database, &gate, |builder| builder.max_waiting(200)).await;
                let all = storm(&app, 201);
                all.have_asked().await;
                gate.is_entered(1).await;
                let one_more = tokio::time::timeout(PATIENCE, send(&app, "k")).await;
                let one_more = one_more.expect("it is refused at once");
                assert_eq!((one_more.status, one_more.retry_after), (503, true), "{one_more:?}");
                assert!(one_more.body.contains("\"idempotency-overloaded\""), "{one_more:?}");
                // Those of the pool that are being opened are counted once they are.
                let others = POOL as usize - 1;
                until("all but one connection are free", PATIENCE, async || {
                    free(&pool) == others
                })
                .await;
                gate.open.add_permits(1);
                let all = all.answers().await;
                let replays = all.iter().filter(|seen| seen.replayed).count();
                assert!(all.iter().all(|seen| (seen.status, &*seen.body) == (200, "done")), "{all:?}");
                assert_eq!((replays, gate.entered(), things(&database).await), (200, 1, 1));
                assert!(send(&app, "k").await.replayed, "the places are free again");
            }

            #[tokio::test]
            async fn after_a_failure_one_of_those_that_ask_again_runs() {
                let (database, gate) = (database().await, Gate::new());
                let (app, _) = process(&database, &gate, |builder| builder).await;
                gate.fails.store(3, Ordering::SeqCst);
                for run in 1..=4 {
                    let all = storm(&app, 100);
                    all.have_asked().await;
                    gate.is_entered(run).await;
                    gate.open.add_permits(1);
                    let all = all.answers().await;
                    let expected = if run <= 3 { 502 } else { 200 };
                    assert!(all.iter().all(|seen| seen.status == expected), "{all:?}");
                    assert_eq!(gate.entered(), run, "all had the answer of one");
                }
                assert_eq!(things(&database).await, 1);
            }

            $(
                #[tokio::test]
                async fn $case() {
                    let (database, gate) = (database().await, Gate::new());
                    let (app, _) = process(&database, &gate, |builder| builder).await;
                    let (elsewhere, pool) = process(&database, &gate, |builder| builder).await;
                    gate.fails.store(1, Ordering::SeqCst);
                    let first = storm(&app, 1);
                    gate.is_entered(1).await;
                    let waiting = storm(&elsewhere, 100);
                    waiting.have_asked().await;
                    until("those that wait hold no connection", PATIENCE, async || {
                        free(&pool) == POOL as usize
                    })
                    .await;
                    gate.open.add_permits(1);
                    assert_eq!(first.answers().await[0].status, 502);
                    gate.is_entered(2).await;
                    gate.open.add_permits(1);
                    let answers = waiting.answers().await;
                    assert!(answers.iter().all(|seen| seen.status == 200), "{answers:?}");
                    let replays = answers.iter().filter(|seen| seen.replayed).count();
                    assert_eq!((replays, gate.entered(), things(&database).await), (99, 2, 1));
                }
            )?
        }
    };
}

backend!(
    postgres,
    sqlx::Postgres,
    Backend::Postgres,
    after_a_failure_one_of_those_that_wait_in_another_process_runs
);
backend!(
    postgres_fewest,
    sqlx::Postgres,
    Backend::PostgresFewest,
    after_a_failure_one_of_those_that_wait_in_another_process_runs
);
backend!(sqlite, sqlx::Sqlite, Backend::Sqlite);
backend!(
    mysql,
    sqlx::MySql,
    Backend::MySql,
    after_a_failure_one_of_those_that_wait_in_another_process_runs
);
