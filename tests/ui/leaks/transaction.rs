//! The transaction ended, opened, or had twice.
#![allow(unused)]

#[path = "../support.rs"]
mod support;
use support::*;

use sqlx::{Connection, Executor};

async fn by_value(tx: Tx<Sqlite>) {}

#[idempotent(scope = "account")]
async fn moved(tx: &mut Tx<Sqlite>, account: Account) -> StatusCode {
    by_value(*tx).await;
    StatusCode::CREATED
}

#[idempotent(scope = "account")]
async fn copied(tx: &mut Tx<Sqlite>, account: Account) -> StatusCode {
    let mine: Tx<Sqlite> = tx.clone();
    StatusCode::CREATED
}

#[idempotent(scope = "account")]
async fn opened(tx: &mut Tx<Sqlite>, account: Account) -> StatusCode {
    let connection = &mut tx.connection;
    StatusCode::CREATED
}

#[idempotent(scope = "account")]
async fn replaced(tx: &mut Tx<Sqlite>, account: Account) -> StatusCode {
    let mine = std::mem::replace(tx, Tx::default());
    StatusCode::CREATED
}

#[idempotent(scope = "account")]
async fn closed(tx: &mut Tx<Sqlite>, account: Account) -> Result<StatusCode, ApiError> {
    tx.close().await?;
    Ok(StatusCode::CREATED)
}

#[idempotent(scope = "account")]
async fn begun_with(tx: &mut Tx<Sqlite>, account: Account) -> Result<StatusCode, ApiError> {
    tx.begin_with("BEGIN IMMEDIATE").await?;
    Ok(StatusCode::CREATED)
}

async fn in_a_helper(tx: &mut Tx<Sqlite>) -> sqlx::Result<()> {
    tx.rollback().await?;
    tx.savepoint(async |part| part.commit().await).await
}

fn generic<'t>(tx: &'t mut Tx<Postgres>) -> impl Future<Output = sqlx::Result<()>> + 't {
    tx.commit()
}

// a second way to the database beside the first
#[idempotent(scope = "account")]
async fn twice(tx: &mut Tx<Sqlite>, other: &mut Tx<Postgres>, account: Account) -> StatusCode {
    StatusCode::CREATED
}

#[idempotent(scope = "account")]
async fn pooled(tx: &sqlx::SqlitePool, account: Account) -> StatusCode {
    StatusCode::CREATED
}

#[idempotent(scope = "account")]
async fn connection(tx: &mut SqliteConnection, account: Account) -> StatusCode {
    StatusCode::CREATED
}

#[idempotent(scope = "account")]
async fn of_sqlx(tx: &mut sqlx::Transaction<'static, Sqlite>, account: Account) -> StatusCode {
    StatusCode::CREATED
}

#[idempotent(scope = "account")]
async fn none(account: Account, State(pricing): State<Pricing>) -> StatusCode {
    StatusCode::CREATED
}

fn main() {}
