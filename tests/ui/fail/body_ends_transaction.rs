#![allow(unused)]

#[path = "../support.rs"]
mod support;
use sqlx::{Connection, Executor};
use support::*;

#[idempotent(scope = "account")]
async fn commits(tx: &mut Tx<Sqlite>, account: Account, Json(new): Json<NewOrder>) -> Result<StatusCode, ApiError> {
    insert_order(tx, &new).await?;
    tx.commit().await?;
    Ok(StatusCode::CREATED)
}

#[idempotent(scope = "account")]
async fn rolls_back(tx: &mut Tx<Sqlite>, account: Account, Json(new): Json<NewOrder>) -> Result<StatusCode, ApiError> {
    tx.savepoint(async |part| {
        part.rollback().await?;
        Ok::<_, ApiError>(())
    })
    .await?;
    Ok(StatusCode::CREATED)
}

#[idempotent(scope = "account")]
async fn nests(tx: &mut Tx<Sqlite>, account: Account, Json(new): Json<NewOrder>) -> Result<StatusCode, ApiError> {
    let mut part = tx.begin().await?;
    insert_order(&mut part, &new).await?;
    part.commit().await?;
    Ok(StatusCode::CREATED)
}

#[idempotent(scope = "account")]
async fn in_sql(tx: &mut Tx<Sqlite>, account: Account, Json(new): Json<NewOrder>) -> Result<StatusCode, ApiError> {
    insert_order(tx, &new).await?;
    sqlx::query("COMMIT").execute(&mut *tx).await?;
    tx.execute("BEGIN IMMEDIATE").await?;
    Ok(StatusCode::CREATED)
}

#[idempotent(scope = "account")]
async fn creates_a_table(tx: &mut Tx<sqlx::MySql>, account: Account) -> Result<StatusCode, ApiError> {
    sqlx::query("CREATE TABLE orders (id int)").execute(&mut *tx).await?;
    Ok(StatusCode::CREATED)
}

async fn helper(tx: &mut Tx<Postgres>) -> sqlx::Result<()> {
    tx.commit().await
}

fn main() {}
