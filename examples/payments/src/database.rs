//! The database: one file a backend with its SQL, and here what is the same for all.
//!
//! Each function takes any executor. A step passes `&mut *tx`, a handler that only reads passes `&pool`.

use std::env;
use std::time::Duration;

use sqlx::{Executor, Pool};
use uuid::Uuid;

use crate::auth::Account;
use crate::payments::Order;

#[cfg(any(
    all(feature = "sqlite", feature = "postgres"),
    all(feature = "sqlite", feature = "mysql"),
    all(feature = "postgres", feature = "mysql"),
    not(any(feature = "sqlite", feature = "postgres", feature = "mysql")),
))]
compile_error!(
    "enable exactly one of the features `sqlite` (the default), `postgres` and `mysql`: \
     `cargo run -p payments --no-default-features --features postgres`"
);

// With several features the first one counts, so that the message above is the only error.
#[cfg(feature = "sqlite")]
#[path = "database/sqlite.rs"]
mod backend;
#[cfg(all(feature = "postgres", not(feature = "sqlite")))]
#[path = "database/postgres.rs"]
mod backend;
#[cfg(all(feature = "mysql", not(any(feature = "sqlite", feature = "postgres"))))]
#[path = "database/mysql.rs"]
mod backend;

pub use backend::Db;
use backend::*;

/// How long a request waits for a connection.
pub const ACQUIRE_TIMEOUT: Duration = Duration::from_secs(3);

/// Why there is no address.
#[derive(Debug, thiserror::Error)]
pub enum UrlError {
    #[error("DATABASE_URL is not set; a build for {DATABASE} needs it, as in {EXAMPLE_URL}")]
    Missing,
    #[error(
        "DATABASE_URL begins with `{0}:`, and this build speaks {DATABASE} ({EXAMPLE_URL}); there are others: \
         `cargo run -p payments --no-default-features --features postgres` (or `mysql`, or `sqlite`)"
    )]
    OtherScheme(String),
}

/// The address in the environment, or the embedded database where there is one.
pub fn url() -> Result<String, UrlError> {
    let url = match (env::var("DATABASE_URL"), DEFAULT_URL) {
        (Ok(url), _) => url,
        (Err(_), Some(url)) => url.to_owned(),
        (Err(_), None) => return Err(UrlError::Missing),
    };
    let scheme = url.split(':').next().unwrap_or_default();
    if SCHEMES.contains(&scheme) {
        return Ok(url);
    }
    Err(UrlError::OtherScheme(scheme.to_owned()))
}

/// Opens a pool.
pub async fn connect(url: &str) -> sqlx::Result<Pool<Db>> {
    // The guard finds a handler that takes a second connection, whose writes no step records.
    let options = idem_runtime::guard(sqlx::pool::PoolOptions::<Db>::new())
        .max_connections(10)
        .acquire_timeout(ACQUIRE_TIMEOUT);
    options.connect_with(connect_options(url)?).await
}

/// Makes the tables and the items that are missing.
pub async fn create_tables(pool: &Pool<Db>) -> sqlx::Result<()> {
    for statement in SCHEMA {
        pool.execute(*statement).await?;
    }
    Ok(())
}

/// Takes one piece. `false`: there is none.
pub async fn take_from_stock(
    db: impl Executor<'_, Database = Db>,
    item: &str,
) -> sqlx::Result<bool> {
    let done = sqlx::query(TAKE_FROM_STOCK).bind(item).execute(db).await?;
    Ok(done.rows_affected() == 1)
}

pub async fn return_to_stock(db: impl Executor<'_, Database = Db>, item: &str) -> sqlx::Result<()> {
    sqlx::query(RETURN_TO_STOCK).bind(item).execute(db).await?;
    Ok(())
}

/// In cents.
pub async fn price(db: impl Executor<'_, Database = Db>, item: &str) -> sqlx::Result<i64> {
    sqlx::query_scalar(PRICE).bind(item).fetch_one(db).await
}

/// Fails with a unique violation if there is an order of this id.
pub async fn insert_order(
    db: impl Executor<'_, Database = Db>,
    id: Uuid,
    account: &Account,
    item: &str,
    total: i64,
) -> sqlx::Result<()> {
    sqlx::query(INSERT_ORDER)
        .bind(id)
        .bind(&account.0)
        .bind(item)
        .bind(total)
        .execute(db)
        .await?;
    Ok(())
}

pub async fn set_status(
    db: impl Executor<'_, Database = Db>,
    order: Uuid,
    status: &str,
) -> sqlx::Result<()> {
    sqlx::query(SET_STATUS)
        .bind(status)
        .bind(order)
        .execute(db)
        .await?;
    Ok(())
}

pub async fn insert_receipt(
    db: impl Executor<'_, Database = Db>,
    order: Uuid,
    payment: &str,
) -> sqlx::Result<()> {
    sqlx::query(INSERT_RECEIPT)
        .bind(order)
        .bind(payment)
        .execute(db)
        .await?;
    Ok(())
}

/// How many receipts there are, of all accounts.
pub async fn count_receipts(db: impl Executor<'_, Database = Db>) -> sqlx::Result<i64> {
    sqlx::query_scalar("SELECT count(*) FROM receipts")
        .fetch_one(db)
        .await
}

pub async fn list_orders(
    db: impl Executor<'_, Database = Db>,
    account: &Account,
) -> sqlx::Result<Vec<Order>> {
    sqlx::query_as(LIST_ORDERS)
        .bind(&account.0)
        .fetch_all(db)
        .await
}
