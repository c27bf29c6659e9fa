#![allow(unused)]

#[path = "../support.rs"]
mod support;
use idem_runtime::routing;
use support::*;

#[derive(Clone)]
struct Bare;

#[idempotent(scope = "account")]
async fn create(tx: &mut Tx<Sqlite>, account: Account, Json(new): Json<NewOrder>) -> StatusCode {
    StatusCode::CREATED
}

fn main() {
    let _: routing::Router<Bare> = routing::Router::new().route("/", routing::post(create));
    let chained: routing::MethodRouter<Bare> = routing::MethodRouter::new().put(create);
}
