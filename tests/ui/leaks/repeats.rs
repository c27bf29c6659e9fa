//! Handlers that say a repeat does no harm, and whose SQL says that it does.
#![allow(unused)]

#[path = "../support.rs"]
mod support;
use support::*;

use idem_runtime::repeat_safe;
use sqlx::{Executor, SqlitePool};

#[repeat_safe(conditional, why = "it is paid once")]
async fn pay(State(pool): State<SqlitePool>, Path(id): Path<i64>) -> Result<StatusCode, ApiError> {
    sqlx::query("UPDATE accounts SET balance = balance - ? WHERE id = ? AND balance > 0").bind(5).bind(id).execute(&pool).await?;
    Ok(StatusCode::OK)
}

#[repeat_safe(client_id, why = "the client chooses the id")]
async fn put(State(pool): State<SqlitePool>, Path(id): Path<i64>) -> Result<StatusCode, ApiError> {
    sqlx::query("INSERT INTO orders (id) VALUES (?)").bind(id).execute(&pool).await?;
    pool.execute("INSERT INTO log (text) VALUES ('put')").await?;
    Ok(StatusCode::OK)
}

#[repeat_safe(client_id, why = "the client chooses the id")]
async fn upsert(State(pool): State<SqlitePool>, Path(id): Path<i64>) -> Result<StatusCode, ApiError> {
    sqlx::raw_sql(
        "INSERT INTO orders (id, n) VALUES (1, 1) ON CONFLICT (id) DO UPDATE SET n = orders.n + excluded.n",
    )
    .execute(&pool)
    .await?;
    Ok(StatusCode::OK)
}

#[repeat_safe(precondition, why = "a new revision matches no more")]
async fn rename(seen: idem_runtime::routing::IfMatch, State(pool): State<SqlitePool>) -> Result<StatusCode, ApiError> {
    let mut transaction = pool.begin().await?;
    sqlx::query("UPDATE orders SET name = name || ' (new)'").execute(&mut *transaction).await?;
    transaction.commit().await?;
    Ok(StatusCode::OK)
}

fn main() {}
