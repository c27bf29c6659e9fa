#![allow(unused)]

#[path = "../support.rs"]
mod support;
use idem_runtime::{repeat_safe, routing};
use support::*;

#[idempotent(scope = "account")]
async fn create(tx: &mut Tx<Sqlite>, account: Account, pricing: Pricing, Json(new): Json<NewOrder>) -> StatusCode {
    StatusCode::CREATED
}

#[idempotent(scope = "account")]
async fn priced(tx: &mut Tx<Sqlite>, account: Account, pricing: Pricing) -> StatusCode {
    StatusCode::CREATED
}

#[repeat_safe(client_id, why = "the client chooses the id")]
async fn put(pricing: Pricing, Json(new): Json<NewOrder>) -> StatusCode {
    StatusCode::CREATED
}

fn main() {
    let _: routing::Router<AppState> = routing::Router::new()
        .route("/", routing::post(create).put(put))
        .route("/priced", routing::post(priced));
}
