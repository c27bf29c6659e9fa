#![allow(unused)]

#[path = "../support.rs"]
mod support;
use support::*;

use axum::extract::{Extension, Request};
use axum::http::Extensions;
use sqlx::SqlitePool;
use std::fs::File;

fn shared_pool() -> SqlitePool {
    unreachable!()
}

#[derive(Deserialize)]
struct Sneaky {
    amount: u64,
    #[serde(skip, default = "shared_pool")]
    pool: SqlitePool,
}

/// What it holds came from nowhere but the state, however it is read.
#[derive(Clone, Deserialize)]
struct Context {
    #[serde(skip)]
    log: Option<std::sync::Arc<File>>,
}

impl<S: Send + Sync> FromRequestParts<S> for Context {
    type Rejection = StatusCode;

    async fn from_request_parts(_: &mut Parts, _: &S) -> Result<Self, StatusCode> {
        Err(StatusCode::UNAUTHORIZED)
    }
}

#[idempotent(scope = "account")]
async fn skipped(tx: &mut Tx<Sqlite>, account: Account, Json(body): Json<Sneaky>) -> StatusCode {
    StatusCode::CREATED
}

#[idempotent(scope = "account")]
async fn in_the_state(tx: &mut Tx<Sqlite>, account: Account, State(context): State<Context>) -> StatusCode {
    StatusCode::CREATED
}

#[idempotent(scope = "account")]
async fn wrapped(tx: &mut Tx<Sqlite>, account: Account, State(Json(context)): State<Json<Context>>) -> StatusCode {
    StatusCode::CREATED
}

#[idempotent(scope = "account")]
async fn extractor(tx: &mut Tx<Sqlite>, account: Account, context: Context) -> StatusCode {
    StatusCode::CREATED
}

#[idempotent(scope = "account")]
async fn whole(tx: &mut Tx<Sqlite>, account: Account, request: Request) -> StatusCode {
    StatusCode::CREATED
}

#[idempotent(scope = "account")]
async fn parts(tx: &mut Tx<Sqlite>, account: Account, parts: Parts, extensions: Extensions) -> StatusCode {
    StatusCode::CREATED
}

fn main() {}
