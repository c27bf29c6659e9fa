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
    Path(account): Path<String>,
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
    let options = PgPoolOptions::new().max_connections(1);
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
    let seen = set.post("/things/alice/1", "a key", "").await;
    assert!(seen.status >= 400, "{seen:?}");
    proxy.set_latency(Duration::ZERO);
    sqlx::query("INSERT INTO things (n) VALUES (2)")
        .execute(&set.pool)
        .await
        .expect("the database takes it");
    assert_eq!(set.things().await, 1, "in no transaction of another's");
}
