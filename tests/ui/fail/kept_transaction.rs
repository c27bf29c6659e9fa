#![allow(unused)]

#[path = "../support.rs"]
mod support;
use support::*;

#[idempotent(scope = "account")]
async fn create(tx: &mut Tx<Sqlite>, account: Account, Json(new): Json<NewOrder>) -> StatusCode {
    tokio::spawn(async move {
        let _ = insert_order(tx, &new).await;
    });
    StatusCode::CREATED
}

#[idempotent(scope = "account")]
async fn ends(tx: &mut Tx<Sqlite>, account: Account, Json(new): Json<NewOrder>) -> Result<StatusCode, ApiError> {
    insert_order(tx, &new).await?;
    tx.commit().await?;
    Ok(StatusCode::CREATED)
}

fn main() {}
