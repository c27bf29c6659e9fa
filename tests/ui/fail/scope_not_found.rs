#![allow(unused)]

#[path = "../support.rs"]
mod support;
use support::*;

#[idempotent(scope = "acount")]
async fn create(tx: &mut Tx<Sqlite>, account: Account, Json(new): Json<NewOrder>) -> StatusCode {
    StatusCode::CREATED
}

#[idempotent(scope = "tenant.id")]
async fn cancel(
    tx: &mut Tx<Sqlite>,
    account: Account,
    State(pricing): State<Pricing>,
    Json(new): Json<NewOrder>,
) -> StatusCode {
    StatusCode::OK
}

#[idempotent(scope = "account")]
async fn nobody(tx: &mut Tx<Sqlite>) -> StatusCode {
    StatusCode::OK
}

#[idempotent(scope = "tx")]
async fn transaction(tx: &mut Tx<Sqlite>, account: Account) -> StatusCode {
    StatusCode::OK
}

fn main() {
    let _: Router<AppState> = Router::new()
        .route("/create", post(create))
        .route("/cancel", post(cancel))
        .route("/transaction", post(transaction));
}
