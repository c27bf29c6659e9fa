#![allow(unused)]

#[path = "../support.rs"]
mod support;
use support::*;

use axum::extract::Extension;
use std::sync::Arc;

#[idempotent(scope = "account")]
async fn boxed(tx: &mut Tx<Sqlite>, account: Account, job: Extension<Box<dyn FnOnce() + Send + Sync>>) -> StatusCode {
    StatusCode::CREATED
}

#[idempotent(scope = "account")]
async fn shared(tx: &mut Tx<Sqlite>, account: Account, State(send): State<Arc<dyn Fn(&str) + Send + Sync>>) -> StatusCode {
    send("created");
    StatusCode::CREATED
}

#[idempotent(scope = "account")]
async fn closure<F: Fn() + Clone>(tx: &mut Tx<Sqlite>, account: Account, State(work): State<F>) -> StatusCode {
    work();
    StatusCode::CREATED
}

#[idempotent(scope = "account")]
async fn pointer(tx: &mut Tx<Sqlite>, account: Account, State(pool): State<fn() -> sqlx::SqlitePool>) -> StatusCode {
    StatusCode::CREATED
}

fn main() {}
