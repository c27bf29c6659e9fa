#![allow(unused)]

#[path = "../support.rs"]
mod support;
use support::*;

use std::sync::Arc;

trait Repo: Send + Sync + 'static {
    type Row: Send + Sync + 'static;
}

#[idempotent(scope = "account")]
async fn parameter<R: Clone>(tx: &mut Tx<Sqlite>, account: Account, State(repo): State<R>) -> StatusCode {
    StatusCode::CREATED
}

#[idempotent(scope = "account")]
async fn associated<R: Repo>(tx: &mut Tx<Sqlite>, account: Account, State(row): State<Arc<R::Row>>) -> StatusCode {
    StatusCode::CREATED
}

#[idempotent(scope = "account")]
async fn object(tx: &mut Tx<Sqlite>, account: Account, State(repo): State<Arc<dyn Repo<Row = u8>>>) -> StatusCode {
    StatusCode::CREATED
}

#[idempotent(scope = "account")]
async fn body<T: serde::de::DeserializeOwned>(tx: &mut Tx<Sqlite>, account: Account, Json(body): Json<T>) -> StatusCode {
    StatusCode::CREATED
}

trait Priced: EffectFree + Send + Sync {}

struct Live(sqlx::SqlitePool);

// the bound that the trait asks for is asked of what implements it
impl Priced for Live {}

fn main() {}
