//! Queries and connections beside `tx`, in the handler's own body.
#![allow(unused)]

#[path = "../support.rs"]
mod support;
use support::*;

use sqlx::{Executor, SqlitePool};
use std::sync::{LazyLock, OnceLock};

static POOL: OnceLock<SqlitePool> = OnceLock::new();
static DB: LazyLock<SqlitePool> = LazyLock::new(|| unreachable!());

struct Registry {
    db: SqlitePool,
}
static REGISTRY: LazyLock<Registry> = LazyLock::new(|| unreachable!());

fn pool() -> &'static SqlitePool {
    &DB
}

#[idempotent(scope = "account")]
async fn by_a_static(tx: &mut Tx<Sqlite>, account: Account, Json(new): Json<NewOrder>) -> Result<StatusCode, ApiError> {
    let insert = sqlx::query("INSERT INTO orders (item) VALUES (?)").bind(&new.item);
    insert.execute(&*DB).await?;
    sqlx::query("DELETE FROM orders").execute(&REGISTRY.db).await?;
    DB.execute("INSERT INTO orders DEFAULT VALUES").await?;
    let registry = &REGISTRY;
    let row: (i64,) = sqlx::query_as("SELECT 1").fetch_one(&registry.db).await?;
    Ok(StatusCode::CREATED)
}

#[idempotent(scope = "account")]
async fn by_a_binding(tx: &mut Tx<Sqlite>, account: Account, Json(new): Json<NewOrder>) -> Result<StatusCode, ApiError> {
    if let Some(pool) = POOL.get() {
        sqlx::raw_sql("DELETE FROM orders").execute(pool).await?;
    }
    match POOL.get() {
        Some(db) if db.size() > 0 => {
            sqlx::query_scalar::<_, i64>("SELECT 1").fetch_optional(db).await?;
        }
        _ => {}
    }
    let Some(other) = POOL.get() else { return Err(ApiError) };
    let mut builder = sqlx::QueryBuilder::new("DELETE FROM orders");
    builder.build().execute(other).await?;
    Ok(StatusCode::CREATED)
}

#[idempotent(scope = "account")]
async fn inside(tx: &mut Tx<Sqlite>, account: Account, Json(new): Json<NewOrder>) -> Result<StatusCode, ApiError> {
    let (first, second) = tokio::join!(
        insert_order(tx, &new),
        async { sqlx::query("DELETE FROM orders").execute(pool()).await },
    );
    let later = async || sqlx::query("DELETE FROM orders").execute(crate::pool()).await;
    later().await?;
    tokio::select! {
        done = sqlx::query("DELETE FROM orders").execute(&*DB) => { done?; }
    }
    tx.savepoint(async |part| {
        sqlx::query("DELETE FROM orders").execute(&*DB).await?;
        Ok::<_, ApiError>(())
    })
    .await?;
    Ok(StatusCode::CREATED)
}

#[idempotent(scope = "account")]
async fn a_second_transaction(tx: &mut Tx<Sqlite>, account: Account) -> Result<StatusCode, ApiError> {
    let mut other = pool().begin().await?;
    other.commit().await?;
    let connection = REGISTRY.db.try_acquire();
    let connection = POOL.get().unwrap().begin_with("BEGIN IMMEDIATE").await?;
    Ok(StatusCode::CREATED)
}

#[idempotent(scope = "account")]
async fn a_new_connection(tx: &mut Tx<Sqlite>, account: Account) -> Result<StatusCode, ApiError> {
    use sqlx::Connection as _;
    use sqlx::SqlitePool as Store;
    let one = SqliteConnection::connect("sqlite:orders.db").await?;
    let two = Store::connect_lazy("sqlite:orders.db")?;
    let three = sqlx::Pool::<Sqlite>::connect("sqlite:orders.db").await?;
    let four = sqlx::pool::PoolOptions::<Sqlite>::new().connect("sqlite:orders.db").await?;
    Ok(StatusCode::CREATED)
}

fn main() {}
