#![allow(unused)]

#[path = "../support.rs"]
mod support;
use support::*;

#[idempotent(scope = "account")]
async fn create(tx: &mut Tx<Sqlite>, account: Account, Json(new): Json<NewOrder>) -> NewOrder {
    new
}

#[idempotent(scope = "account")]
async fn fails(tx: &mut Tx<Sqlite>, account: Account, Json(new): Json<NewOrder>) -> Result<StatusCode, sqlx::Error> {
    insert_order(tx, &new).await?;
    Ok(StatusCode::CREATED)
}

#[idempotent(scope = "account")]
async fn wrong_type(tx: &mut Tx<Sqlite>, account: Account, Json(new): Json<NewOrder>) -> Json<Order> {
    StatusCode::CREATED
}

fn main() {}
