#![allow(unused)]

#[path = "../support.rs"]
mod support;
use support::*;

#[idempotent(scope = "account", state = AppState)]
async fn create(tx: &mut Tx<Postgres>, account: Account, Json(new): Json<NewOrder>) -> StatusCode {
    StatusCode::CREATED
}

fn main() {}
