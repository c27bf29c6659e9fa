#![allow(unused)]

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

async fn elsewhere() {}

async fn may_create(account: &Account, counter: &Counter) -> Result<(), StatusCode> {
    elsewhere().await;
    if counter.0.get() > 0 { Err(StatusCode::FORBIDDEN) } else { Ok(()) }
}

// a check that waits holds references to the arguments
#[idempotent(scope = "account", authorize = may_create)]
async fn create(tx: &mut Tx<Sqlite>, account: Account, counter: Counter, Json(new): Json<NewOrder>) -> StatusCode {
    StatusCode::CREATED
}

fn main() {}
