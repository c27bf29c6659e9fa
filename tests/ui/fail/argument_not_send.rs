#![allow(unused)]

#[path = "../support.rs"]
mod support;
use support::*;

use std::rc::Rc;

#[derive(EffectFree)]
struct Shared(Rc<u64>);

impl<S: Send + Sync> FromRequestParts<S> for Shared {
    type Rejection = StatusCode;

    async fn from_request_parts(_: &mut Parts, _: &S) -> Result<Self, StatusCode> {
        Ok(Shared(Rc::new(0)))
    }
}

#[idempotent(scope = "account")]
async fn create(tx: &mut Tx<Sqlite>, account: Account, shared: Shared, Json(new): Json<NewOrder>) -> StatusCode {
    StatusCode::CREATED
}

#[idempotent(scope = "account")]
async fn all_parts(tx: &mut Tx<Sqlite>, shared: Shared, account: Account) -> StatusCode {
    StatusCode::CREATED
}

fn main() {}
