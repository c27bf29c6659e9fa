#![allow(unused)]

#[path = "../support.rs"]
mod support;
use support::*;

#[idempotent(scope = "account")]
async fn unnamed(tx: &mut Tx<Sqlite>, account: Account, body: impl FromRequest<()>) -> StatusCode {
    StatusCode::CREATED
}

#[idempotent(scope = "account")]
async fn borrowed(tx: &mut Tx<Sqlite>, account: &Account, body: String) -> StatusCode {
    StatusCode::CREATED
}

#[idempotent(scope = "account")]
async fn body_first(tx: &mut Tx<Sqlite>, Json(new): Json<NewOrder>, account: Account) -> StatusCode {
    StatusCode::CREATED
}

#[idempotent(scope = "account")]
async fn answer<'t>(tx: &'t mut Tx<Sqlite>, account: Account) -> &'t str {
    "created"
}

#[idempotent(scope = "account")]
async fn many(
    tx: &mut Tx<Sqlite>,
    account: Account,
    _2: Account,
    _3: Account,
    _4: Account,
    _5: Account,
    _6: Account,
    _7: Account,
    _8: Account,
    _9: Account,
    _10: Account,
    _11: Account,
    _12: Account,
    _13: Account,
    _14: Account,
    _15: Account,
    _16: Account,
    _17: Account,
) -> StatusCode {
    StatusCode::CREATED
}

fn main() {
    let _: Router<AppState> = Router::new()
        .route("/borrowed", post(borrowed))
        .route("/body_first", post(body_first))
        .route("/answer", post(answer))
        .route("/many", post(many));
}
