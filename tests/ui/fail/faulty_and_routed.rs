#![allow(unused)]

#[path = "../support.rs"]
mod support;
use idem_runtime::routing;
use support::*;

#[idempotent(scope = "acount")]
async fn create(tx: &mut Tx<Sqlite>, account: Account) -> StatusCode {
    StatusCode::CREATED
}

#[idempotent(scope = "account")]
async fn remove(tx: Tx<Sqlite>, account: Account) -> StatusCode {
    StatusCode::OK
}

// A handler that is wrong is wrong where it is written, and not where it is routed to.
fn main() {
    let _: routing::Router<AppState> =
        routing::Router::new().route("/", routing::post(create).delete(remove));
    let _: Router<AppState> = Router::new().route("/", post(create).delete(remove));
}
