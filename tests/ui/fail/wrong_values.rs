#![allow(unused)]

#[path = "../support.rs"]
mod support;
use support::*;

#[idempotent(
    scope = account,
    ttl = "2 weeks",
    wait = 5,
    timeout = "0s",
    errors = "keep",
    in_flight = reject,
    max_body = "2Mb",
    max_response = 0,
    fingerprint_headers = ["x api version", "Accept", "accept"],
    fingerprint_ignore = ["sent_at", "/a~b"],
    operation = "create order",
    state = "AppState",
    authorize = "may_create",
    key
)]
async fn create(tx: &mut Tx<Sqlite>, account: Account, Json(new): Json<NewOrder>) -> StatusCode {
    StatusCode::CREATED
}

fn main() {
    let _: Router<AppState> = Router::new().route("/", post(create));
}
