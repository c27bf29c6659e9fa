//! Transactions at SERIALIZABLE that have nothing to do with each other.

use std::sync::Arc;

use axum::Router;
use axum::extract::{FromRef, Path, State};
use axum::routing::post;
use futures_util::future::join_all;
use idem_runtime::{EffectFree, Idempotency, Isolation, Steps, Tx, idempotent};
use idem_tests::servers::{Backend, TestDatabase};
use idem_tests::wait::PATIENCE;
use sqlx::Postgres;
use sqlx::postgres::PgPoolOptions;
use tokio::sync::Barrier;

use crate::{Failed, Set, act, both};

both! {
    keys_of_one_page_do_not_run_again,
    nor_where_the_server_says_that_all_is_serializable,
    nor_without_hints,
    operations_that_end_at_once_all_end,
}

const AT_ONCE: u32 = 8;

/// Where handlers wait for each other, so that all have claimed before one commits.
#[derive(Clone, EffectFree)]
struct Meeting(#[effect_free(trust = "handlers meet at it")] Arc<Barrier>);

#[derive(Clone, FromRef)]
struct Process {
    idempotency: Idempotency<Postgres>,
    meeting: Meeting,
}

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

async fn all_at_once(set: &Set) {
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
        let other = Idempotency::builder(set.pool.clone())
            .round_trips(set.database.backend().round_trips())
            .isolation(Isolation::Serializable)
            .build()
            .expect("the settings make sense");
        let other = Router::new()
            .route("/things/{account}/{length}", post(meet))
            .with_state(Process {
                idempotency: other,
                meeting: Meeting(Arc::new(Barrier::new(AT_ONCE as usize))),
            });
        for key in &keys {
            let again = Set::post_to(&other, "/things/alice/1", key, "").await;
            assert_eq!((again.status, again.replayed), (200, true), "{again:?}");
        }
    }
    assert_eq!(set.things().await, 2 * i64::from(AT_ONCE));
}

async fn set(backend: Backend, default: &'static str, hints: bool, asked: bool) -> Set {
    let database = TestDatabase::create(backend).await;
    let url = database.url().to_owned();
    Set::over(
        database,
        &url,
        PgPoolOptions::new().max_connections(AT_ONCE),
        |options| options.options([("default_transaction_isolation", default)]),
        |builder| {
            let builder = builder.hints(hints);
            if asked {
                builder.isolation(Isolation::Serializable)
            } else {
                builder
            }
        },
    )
    .await
}

async fn keys_of_one_page_do_not_run_again(backend: Backend) {
    all_at_once(&set(backend, "read committed", true, true).await).await;
}

async fn nor_where_the_server_says_that_all_is_serializable(backend: Backend) {
    all_at_once(&set(backend, "serializable", true, false).await).await;
}

async fn nor_without_hints(backend: Backend) {
    all_at_once(&set(backend, "read committed", false, true).await).await;
}

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
            let _ = tokio::time::timeout(PATIENCE / 20, meeting.0.wait()).await;
            Ok::<_, Failed>(answer)
        })
        .await
}

async fn operations_that_end_at_once_all_end(backend: Backend) {
    let set = set(backend, "read committed", true, true).await;
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
}
