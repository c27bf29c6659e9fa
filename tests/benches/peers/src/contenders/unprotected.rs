//! No protection: each retry is another order.

use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::post;
use axum::{Json, Router};
use sqlx::PgPool;

use crate::orders::{Account, Failed, NewOrder, Order, insert_order};

pub(crate) fn router(pool: PgPool) -> Router {
    Router::new().route("/orders", post(order)).with_state(pool)
}

/// Also what a middleware protects.
pub(super) async fn order(
    State(pool): State<PgPool>,
    Account(account): Account,
    Json(new): Json<NewOrder>,
) -> Result<(StatusCode, Json<Order>), Failed> {
    let mut tx = pool.begin().await?;
    let order = insert_order(&mut tx, &account, new).await?;
    tx.commit().await?;
    Ok((StatusCode::CREATED, Json(order)))
}
