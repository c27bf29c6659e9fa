#![allow(unused)]

#[path = "../support.rs"]
mod support;
use support::*;

#[idempotent(scope = "account")]
async fn create(tx: &mut Tx<Sqlite>, account: Account, pricing: Pricing, Json(new): Json<NewOrder>) -> StatusCode {
    StatusCode::CREATED
}

fn main() {
    let _: Router<AppState> = Router::new().route("/", post(create));
}
