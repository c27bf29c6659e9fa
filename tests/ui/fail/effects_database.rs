#![allow(unused)]

#[path = "../support.rs"]
mod support;
use support::*;

use axum::extract::Extension;
use sqlx::pool::PoolConnection;
use sqlx::postgres::PgListener;
use sqlx::{MySql, MySqlPool, PgPool, SqlitePool, Transaction};

#[idempotent(scope = "account")]
async fn pool(tx: &mut Tx<Postgres>, account: Account, State(pool): State<PgPool>) -> StatusCode {
    StatusCode::CREATED
}

#[idempotent(scope = "account")]
async fn other_pools(
    tx: &mut Tx<Sqlite>,
    account: Account,
    State(sqlite): State<SqlitePool>,
    mysql: Extension<MySqlPool>,
) -> StatusCode {
    StatusCode::CREATED
}

#[idempotent(scope = "account")]
async fn connections(
    tx: &mut Tx<Sqlite>,
    account: Account,
    taken: Extension<PoolConnection<MySql>>,
    own: Extension<SqliteConnection>,
    another: Extension<sqlx::PgConnection>,
    third: Extension<sqlx::MySqlConnection>,
    listener: Extension<PgListener>,
    body: String,
) -> StatusCode {
    StatusCode::CREATED
}

#[idempotent(scope = "account")]
async fn transaction(
    tx: &mut Tx<Sqlite>,
    account: Account,
    Extension(second): Extension<Transaction<'static, Sqlite>>,
) -> StatusCode {
    StatusCode::CREATED
}

#[idempotent(scope = "account")]
async fn store(tx: &mut Tx<Sqlite>, account: Account, State(idempotency): State<Idempotency<Sqlite>>) -> StatusCode {
    StatusCode::CREATED
}

fn main() {}
