//! This library.

use axum::http::StatusCode;
use axum::routing::post;
use axum::{Json, Router};
use idem_runtime::{Idempotency, Tx, idempotent};
use sqlx::Postgres;

use super::{BoxError, Setup};
use crate::orders::{Account, Failed, NewOrder, Order, insert_order};

pub(super) async fn router(setup: Setup) -> Result<Router, BoxError> {
    let idempotency = Idempotency::new(setup.pool);
    if setup.migrates {
        idempotency.migrate().await?;
    }
    Ok(Router::new()
        .route("/orders", post(order))
        .with_state(idempotency))
}

#[idempotent(scope = "account", ttl = "48h")]
async fn order(
    tx: &mut Tx<Postgres>,
    Account(account): Account,
    Json(new): Json<NewOrder>,
) -> Result<(StatusCode, Json<Order>), Failed> {
    let order = insert_order(tx, &account, new).await?;
    Ok((StatusCode::CREATED, Json(order)))
}
