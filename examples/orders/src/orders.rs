//! Orders: three ways to make a write safe to repeat.
//!
//! * [`create`]: the server chooses the id, so two equal requests look like two orders. It needs a key.
//! * [`put`]: the client chooses the id, and the id tells a repeat from another order.
//! * [`pay`]: a conditional update; what is paid can't be paid again.

use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use idem_runtime::{Tx, idempotent, repeat_safe};
use serde::{Deserialize, Serialize};
use sqlx::{FromRow, Pool};
use uuid::Uuid;

use crate::auth::Account;
use crate::database::{self, Db};
use crate::errors::ApiError;
use crate::state::Prices;

/// An order as a client sends it.
#[derive(Clone, Debug, Deserialize)]
pub struct NewOrder {
    pub item: String,
    pub quantity: i64,
}

/// An order as it is kept and shown.
#[derive(Clone, Debug, Serialize, FromRow)]
pub struct Order {
    pub id: Uuid,
    pub item: String,
    pub quantity: i64,
    /// In cents.
    pub total: i64,
    /// `open` or `paid`.
    pub status: String,
}

impl NewOrder {
    fn into_order(self, id: Uuid, prices: Prices) -> Result<Order, ApiError> {
        let Some(price) = prices.of(&self.item) else {
            return Err(ApiError::Validation("there is no such item"));
        };
        if !(1..=100).contains(&self.quantity) {
            return Err(ApiError::Validation("`quantity` is a number from 1 to 100"));
        }
        Ok(Order {
            id,
            total: price * self.quantity,
            item: self.item,
            quantity: self.quantity,
            status: "open".to_owned(),
        })
    }
}

impl Order {
    /// Whether the same was ordered. Not the total: prices change between an order and its retry.
    fn is_same_as(&self, other: &Order) -> bool {
        self.item == other.item && self.quantity == other.quantity
    }
}

/// `POST /orders` makes an order and takes its total from the account's credit.
///
/// The key's claim, both writes and the stored answer commit together or not at all, so a retry with the
/// same key is answered from the record and never gets here. But a record has an end (`ttl`), and a client
/// may be slower than that. So the order carries `operation_id`, the same for every attempt of one key, in
/// a `UNIQUE` column: the late retry gets here and finds the first order.
#[idempotent(scope = "account", ttl = "48h", operation = "orders.create")]
pub async fn create(
    tx: &mut Tx<Db>,
    account: Account,
    State(prices): State<Prices>,
    Json(new): Json<NewOrder>,
) -> Result<(StatusCode, Json<Order>), ApiError> {
    let order = new.into_order(Uuid::new_v4(), prices)?;
    let operation_id = tx.operation_id();
    database::insert_order(&mut *tx, &account, &order, Some(operation_id)).await?;

    // Ours, unless an order of this operation was there already: then nothing was inserted.
    let kept = database::find_operation(&mut *tx, operation_id).await?;
    tx.resource("order", kept.id);
    if kept.id != order.id {
        return match kept.is_same_as(&order) {
            true => Ok((StatusCode::OK, Json(kept))),
            false => Err(ApiError::Taken("key")),
        };
    }

    // On `Err` the framework rolls back, and the order above is gone too.
    if !database::take_credit(&mut *tx, &account, order.total).await? {
        return Err(ApiError::Declined { total: order.total });
    }
    Ok((StatusCode::CREATED, Json(order)))
}

/// `PUT /orders/{id}` makes an order under an id that the client chose.
///
/// It needs no key: a client that doesn't know whether its request arrived sends it again, and the primary
/// key turns the second insert into nothing. It never changes an order that is there, so that even a copy
/// which the network delivers a day late does no harm. Orders made so are paid on delivery: there is one
/// write, and no credit that a repeat could take twice.
#[repeat_safe(
    client_id,
    why = "an order that is there is never changed",
    operation = "orders.put"
)]
pub async fn put(
    account: Account,
    State(pool): State<Pool<Db>>,
    State(prices): State<Prices>,
    Path(id): Path<Uuid>,
    Json(new): Json<NewOrder>,
) -> Result<(StatusCode, Json<Order>), ApiError> {
    let order = new.into_order(id, prices)?;
    let mut status = StatusCode::OK;
    if database::find_order(&pool, &account, id).await?.is_none() {
        status = StatusCode::CREATED;
        database::insert_order(&pool, &account, &order, None).await?;
    }
    match database::find_order(&pool, &account, id).await? {
        Some(kept) if kept.is_same_as(&order) => Ok((status, Json(kept))),
        // `None`: the id is another account's, which is nobody else's business.
        Some(_) | None => Err(ApiError::Taken("id")),
    }
}

/// `PUT /orders/{id}/pay` marks an order as paid.
///
/// It needs no key: `UPDATE … WHERE status = 'open'` changes a row once, whoever sends it how often, and a
/// repeat finds the order paid, which is what it asked for. That holds because the row is all that changes;
/// a payment that charges a card needs a key, as the card does not know the row.
#[repeat_safe(
    conditional,
    why = "only an open order is paid",
    operation = "orders.pay"
)]
pub async fn pay(
    account: Account,
    State(pool): State<Pool<Db>>,
    Path(id): Path<Uuid>,
) -> Result<Json<Order>, ApiError> {
    database::pay_order(&pool, &account, id).await?;
    let order = database::find_order(&pool, &account, id).await?;
    order.map(Json).ok_or(ApiError::NoSuchOrder)
}

/// `GET /orders/{id}`.
pub async fn get(
    account: Account,
    State(pool): State<Pool<Db>>,
    Path(id): Path<Uuid>,
) -> Result<Json<Order>, ApiError> {
    let order = database::find_order(&pool, &account, id).await?;
    order.map(Json).ok_or(ApiError::NoSuchOrder)
}

/// `GET /orders`: the account's latest orders, at most 100.
pub async fn list(
    account: Account,
    State(pool): State<Pool<Db>>,
) -> Result<Json<Vec<Order>>, ApiError> {
    Ok(Json(database::list_orders(&pool, &account).await?))
}
