//! Transactions at SERIALIZABLE that have nothing to do with each other.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use axum::Router;
use axum::extract::{Path, State};
use axum::routing::post;
use futures_util::future::join_all;
use idem_runtime::{Idempotency, IdempotencyBuilder, Isolation, Steps, Tx, idempotent};
use idem_tests::servers::{Backend, TestDatabase};
use idem_tests::wait::PATIENCE;
use sqlx::Postgres;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use tokio::sync::Barrier;

use crate::{Failed, Meeting, Process, Set, act, both};

both! {
    keys_of_one_page_do_not_run_again,
    nor_where_the_server_says_that_all_is_serializable,
    nor_without_hints,
    operations_that_end_at_once_all_end,
}

const AT_ONCE: u32 = 8;

#[idempotent(scope = "account", operation = "isolation.meet")]
async fn meet(
    tx: &mut Tx<Postgres>,
    Path((account, length)): Path<(String, usize)>,
    State(meeting): State<Meeting>,
) -> Result<String, Failed> {
    drop(account);
    let level: String = sqlx::query_scalar("SELECT current_setting('transaction_isolation')")
        .fetch_one(&mut *tx)
        .await?;
    act(tx, "", length).await?;
    // A run that comes again would wait for others in vain.
    let met = tokio::time::timeout(PATIENCE / 2, meeting.0.wait()).await;
    Ok(match met {
        Ok(_) => level,
        Err(_) => "alone".to_owned(),
    })
}

async fn all_at_once(backend: Backend, level: Level) {
    let set = set(backend, level).await;
    let another = async || {
        let options = level.connect(set.database.url().parse().expect("a URL"));
        let pool = pool().connect_with(options).await;
        let pool = pool.expect("the database is there");
        let builder = Idempotency::builder(pool).round_trips(backend.round_trips());
        level
            .configure(builder)
            .build()
            .expect("the settings make sense")
    };
    let app = Router::new()
        .route("/things/{account}/{length}", post(meet))
        .with_state(Process {
            idempotency: set.idempotency.clone(),
            meeting: Meeting(Arc::new(Barrier::new(AT_ONCE as usize))),
        });
    // Keys without a time, and such as have one.
    for key in [
        || uuid::Uuid::new_v4().to_string(),
        || uuid::Uuid::now_v7().to_string(),
    ] {
        let keys: Vec<String> = (0..AT_ONCE).map(|_| key()).collect();
        let posts = keys
            .iter()
            .map(|key| Set::post_to(&app, "/things/alice/1", key, ""));
        for answer in join_all(posts).await {
            assert_eq!((answer.status, answer.replayed), (200, false), "{answer:?}");
            assert_eq!(answer.body, "serializable");
        }
        // Another process, which has to look.
        let other = Router::new()
            .route("/things/{account}/{length}", post(meet))
            .with_state(Process {
                idempotency: another().await,
                meeting: Meeting(Arc::new(Barrier::new(AT_ONCE as usize))),
            });
        for key in &keys {
            let again = Set::post_to(&other, "/things/alice/1", key, "").await;
            assert_eq!((again.status, again.replayed), (200, true), "{again:?}");
        }
    }
    assert_eq!(set.things().await, 2 * i64::from(AT_ONCE));
}

/// How a transaction comes to be serializable, and what besides.
#[derive(Clone, Copy)]
struct Level {
    default: &'static str,
    asked: bool,
    hints: bool,
}

impl Level {
    const ASKED: Level = Level {
        default: "read committed",
        asked: true,
        hints: true,
    };

    fn configure(self, builder: IdempotencyBuilder<Postgres>) -> IdempotencyBuilder<Postgres> {
        let builder = builder.hints(self.hints);
        if self.asked {
            builder.isolation(Isolation::Serializable)
        } else {
            builder
        }
    }

    fn connect(self, options: PgConnectOptions) -> PgConnectOptions {
        options.options([("default_transaction_isolation", self.default)])
    }
}

fn pool() -> PgPoolOptions {
    PgPoolOptions::new().max_connections(AT_ONCE)
}

async fn set(backend: Backend, level: Level) -> Set {
    let database = TestDatabase::create(backend).await;
    let url = database.url().to_owned();
    Set::over(
        database,
        &url,
        pool(),
        |options| level.connect(options),
        |builder| level.configure(builder),
    )
    .await
}

async fn keys_of_one_page_do_not_run_again(backend: Backend) {
    all_at_once(backend, Level::ASKED).await;
}

async fn nor_where_the_server_says_that_all_is_serializable(backend: Backend) {
    let level = Level {
        default: "serializable",
        asked: false,
        ..Level::ASKED
    };
    all_at_once(backend, level).await;
}

async fn nor_without_hints(backend: Backend) {
    let level = Level {
        hints: false,
        ..Level::ASKED
    };
    all_at_once(backend, level).await;
}

/// How often all have met in their last steps.
static MEETINGS: AtomicU32 = AtomicU32::new(0);

#[idempotent(scope = "account", operation = "isolation.steps")]
async fn in_steps(
    steps: &mut Steps<Postgres, Failed>,
    Path((account, length)): Path<(String, usize)>,
    State(meeting): State<Meeting>,
) -> Result<String, Failed> {
    drop(account);
    steps
        .atomic("first", async |tx: &mut Tx<Postgres>| {
            act(tx, "", length).await
        })
        .await?;
    steps
        .atomic("last", async |tx: &mut Tx<Postgres>| {
            let answer = act(tx, "", length).await?;
            // Those that run again are alone.
            let met = tokio::time::timeout(PATIENCE / 20, meeting.0.wait()).await;
            if met.is_ok_and(|met| met.is_leader()) {
                MEETINGS.fetch_add(1, Ordering::Relaxed);
            }
            Ok::<_, Failed>(answer)
        })
        .await
}

async fn operations_that_end_at_once_all_end(backend: Backend) {
    let set = set(backend, Level::ASKED).await;
    let before = MEETINGS.load(Ordering::Relaxed);
    let app = Router::new()
        .route("/things/{account}/{length}", post(in_steps))
        .with_state(Process {
            idempotency: set.idempotency.clone(),
            meeting: Meeting(Arc::new(Barrier::new(AT_ONCE as usize))),
        });
    for _ in 0..5 {
        let keys: Vec<String> = (0..AT_ONCE)
            .map(|_| uuid::Uuid::now_v7().to_string())
            .collect();
        let posts = keys
            .iter()
            .map(|key| Set::post_to(&app, "/things/alice/1", key, ""));
        for answer in join_all(posts).await {
            assert_eq!((answer.status, answer.replayed), (200, false), "{answer:?}");
        }
    }
    assert_eq!(set.things().await, 5 * 2 * i64::from(AT_ONCE));
    assert!(MEETINGS.load(Ordering::Relaxed) >= before + 5);
}
