#![allow(unused)]

#[path = "../support.rs"]
mod support;
use support::*;

// What is wrong in the body hides neither a wrong type nor a wrong argument.
#[idempotent(scope = "acount")]
async fn create(tx: &mut Tx<Sqlite>, account: Account, Json(new): Json<NewOrder>) -> Result<StatusCode, ApiError> {
    tokio::spawn(async {});
    let text: String = new.cents;
    Ok(StatusCode::CREATED)
}

#[idempotent(scope = "account")]
async fn replace(tx: &mut Tx<Sqlite>, account: Account, Json(new): Json<NewOrder>) -> Result<StatusCode, ApiError> {
    std::fs::write("orders.txt", &new.item);
    let number: u64 = new.item;
    Ok(StatusCode::CREATED)
}

fn main() {}
