#![allow(unused)]

#[path = "../support.rs"]
mod support;
use support::*;

#[idempotent(scope = "acount", ttl = "48x", errors = "keep", retries = 3)]
#[axum::debug_handler]
fn create(tx: Tx<Sqlite>, account: impl FromRequest<()>, Json(new): Json<NewOrder>, text: &str) -> StatusCode {
    StatusCode::CREATED
}

fn main() {
    let _: Router<AppState> = Router::new().route("/", post(create));
}
