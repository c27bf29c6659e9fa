//! An argument need not be `Sync`: one request has it.
#![deny(warnings)]
#![allow(dead_code)]

#[path = "../support.rs"]
mod support;
use support::*;

use std::cell::Cell;

#[derive(EffectFree)]
struct Counter(Cell<u64>);

impl<S: Send + Sync> FromRequestParts<S> for Counter {
    type Rejection = StatusCode;

    async fn from_request_parts(_: &mut Parts, _: &S) -> Result<Self, StatusCode> {
        Ok(Counter(Cell::new(0)))
    }
}

#[idempotent(scope = "account")]
async fn create(_tx: &mut Tx<Sqlite>, account: Account, counter: Counter, Json(new): Json<NewOrder>) -> StatusCode {
    counter.0.set(counter.0.get() + 1);
    drop(new);
    StatusCode::CREATED
}

/// Nor where the last of them is read from the parts.
#[idempotent(scope = "account")]
async fn close(_tx: &mut Tx<Sqlite>, counter: Counter, account: Account) -> StatusCode {
    counter.0.set(1);
    StatusCode::OK
}

fn main() {
    let _: Router<AppState> = Router::new().route("/", post(create).put(close));
}
