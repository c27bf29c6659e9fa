//! The ledger: what each account has ordered, in a database of its own.

use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::get;
use axum::{Json, Router};
use idem_runtime::inbox::{Consumers, Message, Source};
use idem_runtime::{Idempotency, Tx, consumer};
use serde::{Deserialize, Serialize};
use sqlx::{FromRow, Pool};
use uuid::Uuid;

use crate::database::{self, Db};
use crate::orders::OrderPlaced;

/// A line of the ledger.
#[derive(Clone, Debug, Serialize, Deserialize, FromRow)]
pub struct Entry {
    pub order_id: Uuid,
    pub account: String,
    /// 1 for the account's first order.
    pub number: i64,
    pub cents: i64,
    /// The account's total with it.
    pub total: i64,
}

/// Adds an order to its account's total. The message's row and the entry commit together: a message that is delivered again
/// finds its row, and adds nothing.
///
/// The stream keeps a message for a week, and so does the inbox: none comes again that is forgotten.
#[consumer(source = "orders", name = "ledger", ttl = "7d")]
pub async fn on_order(tx: &mut Tx<Db>, placed: Message<OrderPlaced>) -> sqlx::Result<()> {
    let total = database::total_of(&mut *tx, &placed.account).await?;
    let entry = Entry {
        order_id: placed.order,
        account: placed.account.clone(),
        number: placed.number,
        cents: placed.cents,
        total: total + placed.cents,
    };
    database::insert_entry(&mut *tx, &entry).await
}

/// The consumer, one message after the other: an account's orders stay in their order. What works on several at once, or gives
/// one back and goes on with the next, mixes them; [`stream`](crate::stream) sees to the other half of it.
pub fn consumers(idempotency: &Idempotency<Db>, orders: impl Source) -> Consumers<Db, ()> {
    idempotency
        .consumers(())
        .register(on_order)
        .source("orders", orders)
        .concurrency(1)
}

/// `GET /ledger`: all entries, in the order in which they were made.
pub fn router(pool: Pool<Db>) -> Router {
    Router::new()
        .route("/ledger", get(entries))
        .with_state(pool)
}

async fn entries(State(pool): State<Pool<Db>>) -> Result<Json<Vec<Entry>>, StatusCode> {
    let entries = database::list_entries(&pool).await;
    let entries = entries.map_err(|_| StatusCode::SERVICE_UNAVAILABLE)?;
    Ok(Json(entries))
}
