#![allow(unused)]

#[path = "../support.rs"]
mod support;
use support::*;

#[idempotent(scope = "account")]
#[axum::debug_handler]
async fn checked(tx: &mut Tx<Sqlite>, account: Account) -> StatusCode {
    StatusCode::CREATED
}

#[idempotent(scope = "account")]
#[utoipa::path(post, path = "/documented")]
async fn documented(tx: &mut Tx<Sqlite>, account: Account) -> StatusCode {
    StatusCode::CREATED
}

#[idempotent(scope = "account")]
#[idempotent(scope = "account")]
async fn twice(tx: &mut Tx<Sqlite>, account: Account) -> StatusCode {
    StatusCode::CREATED
}

fn main() {
    let _: Router<AppState> = Router::new()
        .route("/checked", post(checked))
        .route("/documented", post(documented))
        .route("/twice", post(twice));
}
