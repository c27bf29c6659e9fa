#![allow(unused)]

#[path = "../support.rs"]
mod support;
use support::*;

use std::rc::Rc;

async fn elsewhere() {}

#[idempotent(scope = "account")]
async fn create(tx: &mut Tx<Sqlite>, account: Account, Json(new): Json<NewOrder>) -> StatusCode {
    let shared = Rc::new(new);
    elsewhere().await;
    drop(shared);
    StatusCode::CREATED
}

#[idempotent(scope = "account")]
async fn opaque(tx: &mut Tx<Sqlite>, account: Account, Json(new): Json<NewOrder>) -> impl IntoResponse {
    let shared = Rc::new(new);
    elsewhere().await;
    drop(shared);
    StatusCode::CREATED
}

fn main() {}
