#![allow(unused)]

#[path = "../support.rs"]
mod support;
use support::*;

#[idempotent(scop = "account", time_to_live = "48h", max_bodi = 5)]
async fn create(tx: &mut Tx<Sqlite>, account: Account, Json(new): Json<NewOrder>) -> StatusCode {
    StatusCode::CREATED
}

#[idempotent("account")]
async fn cancel(tx: &mut Tx<Sqlite>, account: Account) -> StatusCode {
    StatusCode::OK
}

fn main() {
    let _: Router<AppState> = Router::new().route("/", post(create)).route("/cancel", post(cancel));
}
