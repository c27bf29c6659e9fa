//! Steps whose transaction does not begin in time.

use std::time::Duration;

use axum::Router;
use axum::extract::Path;
use axum::http::StatusCode;
use axum::routing::post;
use idem_runtime::{Steps, Tx, idempotent};
use idem_tests::proxy::Proxy;
use idem_tests::servers::{Backend, TestDatabase};
use sqlx::Postgres;
use sqlx::postgres::PgPoolOptions;

use crate::{App, Set, both};

both![a_begin_that_is_dropped_leaves_no_transaction_to_the_next_user,];

const AWAY: Duration = Duration::from_millis(100);

/// Waits less than a message to the database takes.
#[idempotent(scope = "account", operation = "things.write")]
async fn impatient(
    steps: &mut Steps<Postgres, StatusCode>,
    Path((account, _)): Path<(String, usize)>,
) -> Result<String, StatusCode> {
    let step = steps.atomic("write", async |tx: &mut Tx<Postgres>| {
        sqlx::query("INSERT INTO things (n) VALUES (1)")
            .execute(&mut *tx)
            .await
            .map(drop)
            .map_err(|_| StatusCode::IM_A_TEAPOT)
    });
    match tokio::time::timeout(AWAY / 2, step).await {
        Ok(written) => written.map(|()| account),
        Err(_) => Err(StatusCode::SERVICE_UNAVAILABLE),
    }
}

async fn a_begin_that_is_dropped_leaves_no_transaction_to_the_next_user(backend: Backend) {
    let database = TestDatabase::create(backend).await;
    let proxy = Proxy::start(Backend::Postgres, database.server_address()).await;
    let url = database.url_through(proxy.address());
    // Without a message before it, the begin itself is what is dropped.
    let options = PgPoolOptions::new()
        .min_connections(2)
        .max_connections(2)
        .test_before_acquire(false);
    let mut set = Set::over(
        database,
        &url,
        options,
        |options| options,
        |builder| builder,
    )
    .await;
    set.app = Router::new()
        .route("/things/{account}/{length}", post(impatient))
        .with_state(App {
            idempotency: set.idempotency.clone(),
        });
    proxy.set_latency(AWAY);
    let seen = set.post("/things/alice/1", "k1", "").await;
    assert_eq!(seen.status, 409, "its step is taken later: {seen:?}");
    proxy.set_latency(Duration::ZERO);
    // On whichever it was.
    let mut all = [
        set.pool.acquire().await.expect("a connection"),
        set.pool.acquire().await.expect("a connection"),
    ];
    for connection in &mut all {
        sqlx::query("INSERT INTO things (n) VALUES (2)")
            .execute(&mut **connection)
            .await
            .expect("the database takes it");
    }
    assert_eq!(set.things().await, 2, "in no transaction of another's");
}
