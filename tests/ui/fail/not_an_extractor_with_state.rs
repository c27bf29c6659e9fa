#![allow(unused)]

#[path = "../support.rs"]
mod support;
use support::*;

#[idempotent(scope = "account", state = AppState)]
async fn parts(tx: &mut Tx<Sqlite>, account: Account, pricing: Pricing, Json(new): Json<NewOrder>) -> StatusCode {
    StatusCode::CREATED
}

#[idempotent(scope = "account", state = AppState)]
async fn body(tx: &mut Tx<Sqlite>, account: Account, order: Pricing) -> StatusCode {
    StatusCode::CREATED
}

#[idempotent(scope = "account", state = AppState)]
async fn not_in_the_state(tx: &mut Tx<Sqlite>, account: Account, State(text): State<String>, order: String) -> StatusCode {
    StatusCode::CREATED
}

fn main() {}
