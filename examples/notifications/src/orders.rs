//! Orders, and what the shop tells of them.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use idem_runtime::{EffectFree, Tx, idempotent};
use serde::{Deserialize, Serialize};
use sqlx::{FromRow, Pool};
use uuid::Uuid;

use crate::auth::Account;
use crate::database::{self, Db};
use crate::errors::ApiError;

/// An order as a client sends it.
#[derive(Clone, Debug, Deserialize)]
pub struct NewOrder {
    pub item: String,
}

/// An order as it is kept and shown.
#[derive(Clone, Debug, Serialize, FromRow)]
pub struct Order {
    pub id: Uuid,
    /// 1 for the account's first.
    pub number: i64,
    pub item: String,
    /// What it costs.
    pub cents: i64,
}

/// What others are told: data, and no more of it than is meant for them.
#[derive(Clone, Debug, Serialize, Deserialize, EffectFree)]
pub struct OrderPlaced {
    pub order: Uuid,
    pub account: String,
    /// 1 for the account's first.
    pub number: i64,
    pub cents: i64,
}

/// `POST /orders` makes an order and stages two messages. All three commit together or not at all; a retry with the same key is
/// answered from the record, and stages nothing.
///
/// The event has the account as its ordering key, and so the ledger hears of an account's orders in their order. The number is
/// counted first: its row is locked until the end, so that no two orders of an account are staged at the same time.
///
/// The webhook has no ordering key: a receiver that is away for a day holds up nothing else.
#[idempotent(scope = "account", ttl = "48h", operation = "orders.create")]
pub async fn create(
    tx: &mut Tx<Db>,
    account: Account,
    Json(new): Json<NewOrder>,
) -> Result<(StatusCode, Json<Order>), ApiError> {
    let cents = price(&new.item).ok_or(ApiError::NoSuchItem)?;
    database::count_order(&mut *tx, &account).await?;
    let order = Order {
        // The same for every attempt: an order is not made twice, even when its key is forgotten.
        id: tx.operation_id(),
        number: database::orders_of(&mut *tx, &account).await?,
        item: new.item,
        cents,
    };
    database::insert_order(&mut *tx, &account, &order).await?;

    let placed = OrderPlaced {
        order: order.id,
        account: account.0.clone(),
        number: order.number,
        cents,
    };
    tx.outbox()
        .publish("order.placed", &account.0, &placed)
        .await?;
    tx.outbox()
        .message("webhook.order.placed", &placed)
        .stage()
        .await?;
    Ok((StatusCode::CREATED, Json(order)))
}

/// `GET /orders`: the account's orders, the first 100.
pub async fn list(
    account: Account,
    State(pool): State<Pool<Db>>,
) -> Result<Json<Vec<Order>>, ApiError> {
    Ok(Json(database::list_orders(&pool, &account).await?))
}

fn price(item: &str) -> Option<i64> {
    match item {
        "book" => Some(1_500),
        "lamp" => Some(4_500),
        _ => None,
    }
}
