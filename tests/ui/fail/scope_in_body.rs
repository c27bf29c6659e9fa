#![allow(unused)]

#[path = "../support.rs"]
mod support;
use support::*;

#[idempotent(scope = "new.item")]
async fn create(tx: &mut Tx<Sqlite>, account: Account, Json(new): Json<NewOrder>) -> StatusCode {
    StatusCode::CREATED
}

/// An extractor that only its traits show to read the body.
#[derive(EffectFree)]
struct Signed(String);

impl<S: Send + Sync> FromRequest<S> for Signed {
    type Rejection = StatusCode;

    async fn from_request(_: axum::extract::Request, _: &S) -> Result<Self, StatusCode> {
        Ok(Signed(String::new()))
    }
}

#[idempotent(scope = "signer", state = AppState)]
async fn sign(tx: &mut Tx<Sqlite>, Signed(signer): Signed) -> StatusCode {
    StatusCode::CREATED
}

fn main() {
    let _: Router<AppState> = Router::new().route("/create", post(create));
}
