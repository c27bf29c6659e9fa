#![allow(unused)]

#[path = "../support.rs"]
mod support;
use support::*;

use sqlx::Transaction;

#[idempotent(scope = "account")]
async fn none(account: Account, Json(new): Json<NewOrder>) -> StatusCode {
    StatusCode::CREATED
}

#[idempotent(scope = "account")]
async fn by_value(mut tx: Tx<Sqlite>, account: Account, Json(new): Json<NewOrder>) -> Result<StatusCode, ApiError> {
    insert_order(&mut tx, &new).await?;
    Ok(StatusCode::CREATED)
}

#[idempotent(scope = "account")]
async fn shared(tx: &Tx<Sqlite>, account: Account, Json(new): Json<NewOrder>) -> StatusCode {
    StatusCode::CREATED
}

#[idempotent(scope = "account")]
async fn two(tx: &mut Tx<Sqlite>, other: &mut Tx<Postgres>, account: Account) -> StatusCode {
    StatusCode::CREATED
}

#[idempotent(scope = "account")]
async fn sqlx_transaction(tx: &mut Transaction<'_, Sqlite>, account: Account) -> StatusCode {
    StatusCode::CREATED
}

#[idempotent(scope = "account")]
async fn connection(db: &mut SqliteConnection, account: Account) -> StatusCode {
    StatusCode::CREATED
}

#[idempotent(scope = "account")]
async fn text(tx: &mut String, account: Account) -> StatusCode {
    StatusCode::CREATED
}

fn main() {
    let _: Router<AppState> = Router::new()
        .route("/none", post(none))
        .route("/by_value", post(by_value))
        .route("/shared", post(shared))
        .route("/two", post(two))
        .route("/sqlx_transaction", post(sqlx_transaction))
        .route("/connection", post(connection));
}
