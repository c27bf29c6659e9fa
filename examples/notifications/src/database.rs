//! The database: one file a backend with its SQL, and here what is the same for all.
//!
//! Each function takes any executor. A handler and a consumer pass `&mut *tx`, what only reads passes `&pool`.

use std::env;
use std::time::Duration;

use sqlx::{Executor, Pool};

use crate::auth::Account;
use crate::ledger::Entry;
use crate::orders::{Order, OrderPlaced};
use crate::receiver::Seen;

#[cfg(any(
    all(feature = "sqlite", feature = "postgres"),
    all(feature = "sqlite", feature = "mysql"),
    all(feature = "postgres", feature = "mysql"),
    not(any(feature = "sqlite", feature = "postgres", feature = "mysql")),
))]
compile_error!(
    "enable exactly one of the features `sqlite` (the default), `postgres` and `mysql`: \
     `cargo run -p notifications --no-default-features --features postgres`"
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
         `cargo run -p notifications --no-default-features --features postgres` (or `mysql`, or `sqlite`)"
    )]
    OtherScheme(String),
}

/// Whose tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tables {
    Shop,
    Ledger,
    Receiver,
}

/// The address in the environment, or the part's own embedded database where there is one.
pub fn url(part: &str) -> Result<String, UrlError> {
    let url = match env::var("DATABASE_URL") {
        Ok(url) => url,
        Err(_) => default_url(part).ok_or(UrlError::Missing)?,
    };
    let scheme = url.split(':').next().unwrap_or_default();
    if SCHEMES.contains(&scheme) {
        return Ok(url);
    }
    Err(UrlError::OtherScheme(scheme.to_owned()))
}

/// Opens a pool.
pub async fn connect(url: &str) -> sqlx::Result<Pool<Db>> {
    // The guard finds a handler that takes a second connection, whose writes would not commit with its messages.
    let options = idem_runtime::guard(sqlx::pool::PoolOptions::<Db>::new())
        .max_connections(10)
        .acquire_timeout(ACQUIRE_TIMEOUT);
    options.connect_with(connect_options(url)?).await
}

/// Makes the tables that are missing.
pub async fn create_tables(pool: &Pool<Db>, tables: Tables) -> sqlx::Result<()> {
    let statements = match tables {
        Tables::Shop => SHOP,
        Tables::Ledger => LEDGER,
        Tables::Receiver => RECEIVER,
    };
    for statement in statements {
        pool.execute(*statement).await?;
    }
    Ok(())
}

/// Counts an order of an account. Others of the account wait from here to the end of the transaction.
pub async fn count_order(
    db: impl Executor<'_, Database = Db>,
    account: &Account,
) -> sqlx::Result<()> {
    sqlx::query(COUNT_ORDER)
        .bind(&account.0)
        .execute(db)
        .await?;
    Ok(())
}

/// How many orders an account has.
pub async fn orders_of(
    db: impl Executor<'_, Database = Db>,
    account: &Account,
) -> sqlx::Result<i64> {
    sqlx::query_scalar(ORDERS_OF)
        .bind(&account.0)
        .fetch_one(db)
        .await
}

/// Fails with a unique violation if there is an order of this id.
pub async fn insert_order(
    db: impl Executor<'_, Database = Db>,
    account: &Account,
    order: &Order,
) -> sqlx::Result<()> {
    sqlx::query(INSERT_ORDER)
        .bind(order.id)
        .bind(&account.0)
        .bind(order.number)
        .bind(&order.item)
        .bind(order.cents)
        .execute(db)
        .await?;
    Ok(())
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

/// An account's total in the ledger, in cents.
pub async fn total_of(db: impl Executor<'_, Database = Db>, account: &str) -> sqlx::Result<i64> {
    let last = sqlx::query_scalar(TOTAL_OF).bind(account);
    Ok(last.fetch_optional(db).await?.unwrap_or(0))
}

pub async fn insert_entry(db: impl Executor<'_, Database = Db>, entry: &Entry) -> sqlx::Result<()> {
    sqlx::query(INSERT_ENTRY)
        .bind(entry.order_id)
        .bind(&entry.account)
        .bind(entry.number)
        .bind(entry.cents)
        .bind(entry.total)
        .execute(db)
        .await?;
    Ok(())
}

/// All entries, in the order in which they were made.
pub async fn list_entries(db: impl Executor<'_, Database = Db>) -> sqlx::Result<Vec<Entry>> {
    sqlx::query_as("SELECT order_id, account, number, cents, total FROM ledger ORDER BY position")
        .fetch_all(db)
        .await
}

/// Notes that a webhook came.
pub async fn note_delivery(
    db: impl Executor<'_, Database = Db>,
    message: &str,
) -> sqlx::Result<()> {
    sqlx::query(NOTE_DELIVERY).bind(message).execute(db).await?;
    Ok(())
}

/// Counts a webhook.
pub async fn count(
    db: impl Executor<'_, Database = Db>,
    message: &str,
    placed: &OrderPlaced,
) -> sqlx::Result<()> {
    sqlx::query(COUNT)
        .bind(message)
        .bind(placed.order)
        .bind(placed.cents)
        .execute(db)
        .await?;
    Ok(())
}

pub async fn seen(db: impl Executor<'_, Database = Db>) -> sqlx::Result<Seen> {
    sqlx::query_as(
        "SELECT (SELECT count(*) FROM deliveries) AS deliveries,
                (SELECT count(DISTINCT message) FROM deliveries) AS ids,
                (SELECT count(*) FROM counted) AS counted",
    )
    .fetch_one(db)
    .await
}
