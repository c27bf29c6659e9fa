#![allow(unused)]

#[path = "../support.rs"]
mod support;
use support::*;

use axum::extract::Extension;
use sqlx::PgPool;
use std::sync::Arc;

#[derive(EffectFree)]
struct Inner<T> {
    value: T,
}

#[derive(EffectFree)]
struct Outer<T>(Inner<T>);

#[idempotent(scope = "account")]
async fn generic(tx: &mut Tx<Postgres>, account: Account, State(inner): State<Arc<Inner<PgPool>>>) -> StatusCode {
    StatusCode::CREATED
}

#[idempotent(scope = "account")]
async fn newtypes(tx: &mut Tx<Postgres>, account: Account, State(outer): State<Arc<Outer<PgPool>>>) -> StatusCode {
    StatusCode::CREATED
}

#[idempotent(scope = "account")]
async fn optional(tx: &mut Tx<Postgres>, account: Account, pool: Option<Extension<PgPool>>) -> StatusCode {
    StatusCode::CREATED
}

#[idempotent(scope = "account")]
async fn fallible(
    tx: &mut Tx<Postgres>,
    account: Account,
    pool: Result<Extension<PgPool>, axum::extract::rejection::ExtensionRejection>,
) -> StatusCode {
    StatusCode::CREATED
}

#[idempotent(scope = "account")]
async fn tuple(tx: &mut Tx<Postgres>, account: Account, (pool, path): (State<PgPool>, Path<u64>)) -> StatusCode {
    StatusCode::CREATED
}

#[idempotent(scope = "account")]
async fn pair(tx: &mut Tx<Postgres>, account: Account, State(both): State<(Pricing, PgPool)>) -> StatusCode {
    StatusCode::CREATED
}

#[idempotent(scope = "account")]
async fn shards(tx: &mut Tx<Postgres>, account: Account, State(shards): State<Arc<[Vec<PgPool>]>>) -> StatusCode {
    StatusCode::CREATED
}

struct Rejected(PgPool);

#[idempotent(scope = "account")]
async fn rejection(tx: &mut Tx<Postgres>, account: Account, body: Result<Json<NewOrder>, Rejected>) -> StatusCode {
    StatusCode::CREATED
}

fn main() {}
