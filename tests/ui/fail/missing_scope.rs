#![allow(unused)]

#[path = "../support.rs"]
mod support;
use support::*;

#[idempotent]
async fn create(tx: &mut Tx<Sqlite>, account: Account, Json(new): Json<NewOrder>) -> StatusCode {
    StatusCode::CREATED
}

#[idempotent(ttl = "48h")]
async fn cancel(tx: &mut Tx<Sqlite>, account: Account, Json(new): Json<NewOrder>) -> StatusCode {
    StatusCode::CREATED
}

fn main() {
    let _: Router<AppState> = Router::new().route("/", post(create)).route("/cancel", post(cancel));
}
