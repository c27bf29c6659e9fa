#![allow(unused)]

#[path = "../support.rs"]
mod support;
use support::*;

#[derive(Clone)]
struct Bare;

#[idempotent(scope = "account")]
async fn create(tx: &mut Tx<Sqlite>, account: Account, Json(new): Json<NewOrder>) -> StatusCode {
    StatusCode::CREATED
}

fn main() {
    let _: Router<Bare> = Router::new().route("/", post(create));
}
