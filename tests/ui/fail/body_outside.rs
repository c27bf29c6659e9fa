#![allow(unused)]

#[path = "../support.rs"]
mod support;
use sqlx::SqlitePool;
use std::sync::OnceLock;
use support::*;

static POOL: OnceLock<SqlitePool> = OnceLock::new();

fn pool() -> SqlitePool {
    unreachable!()
}

#[idempotent(scope = "account")]
async fn runs(tx: &mut Tx<Sqlite>, account: Account, Json(new): Json<NewOrder>) -> Result<StatusCode, ApiError> {
    sqlx::query("INSERT INTO orders (item) VALUES (?)")
        .bind(&new.item)
        .execute(POOL.get().unwrap())
        .await?;
    sqlx::query("INSERT INTO orders (item) VALUES (?)").bind(&new.item).execute(&pool()).await?;
    let mut other = POOL.get().unwrap().acquire().await?;
    let rows: Vec<(i64,)> = sqlx::query_as("SELECT id FROM orders").fetch_all(&mut *other).await?;
    Ok(StatusCode::CREATED)
}

#[idempotent(scope = "account")]
async fn connects(tx: &mut Tx<Sqlite>, account: Account, Json(new): Json<NewOrder>) -> Result<StatusCode, ApiError> {
    let pool = SqlitePool::connect("sqlite:orders.db").await?;
    let other = pool.begin().await?;
    let lazy = sqlx::sqlite::SqlitePoolOptions::new().max_connections(1).connect_lazy("sqlite:orders.db")?;
    Ok(StatusCode::CREATED)
}

#[idempotent(scope = "account")]
async fn sends(tx: &mut Tx<Sqlite>, account: Account, Json(new): Json<NewOrder>) -> Result<StatusCode, ApiError> {
    tokio::net::TcpStream::connect("mail:25").await;
    std::fs::write("orders.txt", &new.item);
    Ok(StatusCode::CREATED)
}

fn main() {}
