#![allow(unused)]

#[path = "../support.rs"]
mod support;
use idem_runtime::inbox::{Incoming, Message};
use idem_runtime::consumer;
use sqlx::{Pool, SqlitePool};
use std::rc::Rc;
use support::*;

#[derive(Deserialize)]
struct OrderPlaced {
    item: String,
}

struct Unknown;

#[consumer]
async fn nothing(tx: &mut Tx<Sqlite>, order: Message<OrderPlaced>) {}

#[consumer(sorce = "orders", ttl = "7", id = "a..b", retries = 3)]
async fn misspelt(tx: &mut Tx<Sqlite>, order: Message<OrderPlaced>) {}

#[consumer(source = "", name = "my ledger", timeout = 30)]
async fn values(tx: &mut Tx<Sqlite>, order: Message<OrderPlaced>) {}

#[consumer(source = "orders")]
fn signature(tx: &Tx<Sqlite>, order: &OrderPlaced) -> impl IntoResponse {}

#[consumer(source = "orders")]
async fn no_message(tx: &mut Tx<Sqlite>) {}

#[consumer(source = "orders")]
async fn no_transaction(order: Message<OrderPlaced>) {}

#[consumer(source = "orders")]
#[idempotent(scope = "account")]
async fn both(tx: &mut Tx<Sqlite>, order: Message<OrderPlaced>) {}

#[consumer(source = "orders")]
async fn pool(tx: &mut Tx<Sqlite>, order: Message<OrderPlaced>, State(pool): State<SqlitePool>) {}

#[consumer(source = "orders", state = AppState)]
async fn unmade(tx: &mut Tx<Sqlite>, order: Message<OrderPlaced>, account: Account) {}

#[consumer(source = "orders")]
async fn no_result(tx: &mut Tx<Sqlite>, order: Message<OrderPlaced>) -> u64 {
    7
}

#[consumer(source = "orders")]
async fn ends_it(tx: &mut Tx<Sqlite>, order: Message<OrderPlaced>) -> sqlx::Result<()> {
    sqlx::query("COMMIT").execute(&mut *tx).await?;
    tokio::spawn(async {});
    Ok(())
}

async fn elsewhere() {}

#[consumer(source = "orders")]
async fn not_send(tx: &mut Tx<Sqlite>, order: Message<OrderPlaced>) {
    let shared = Rc::new(order);
    elsewhere().await;
    drop(shared);
}

async fn no_consumer(tx: &mut Tx<Sqlite>, order: Message<OrderPlaced>) {}

// None of those above is a second error where it is registered.
fn main() {}
fn registered(state: AppState) {
    let _ = state
        .idempotency
        .clone()
        .consumers(state)
        .register(nothing)
        .register(misspelt)
        .register(values)
        .register(signature)
        .register(no_message)
        .register(no_transaction)
        .register(both)
        .register(no_result)
        .register(ends_it)
        .register(not_send)
        .register(no_consumer);
}
