//! The database: one file a backend with its SQL, and here what is the same for all.
//!
//! Each function takes any executor. A handler that must write in its transaction passes `&mut *tx`, one
//! that reads or needs no transaction passes `&pool`.

use std::env;

use sqlx::{Executor, Pool};
use uuid::Uuid;

use crate::auth::Account;
use crate::orders::Order;
use crate::profile::Profile;

#[cfg(any(
    all(feature = "sqlite", feature = "postgres"),
    all(feature = "sqlite", feature = "mysql"),
    all(feature = "postgres", feature = "mysql"),
    not(any(feature = "sqlite", feature = "postgres", feature = "mysql")),
))]
compile_error!(
    "enable exactly one of the features `sqlite` (the default), `postgres` and `mysql`: \
     `cargo run -p orders --no-default-features --features postgres`"
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

/// Why there is no pool.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    #[error("DATABASE_URL is not set; a build for {DATABASE} needs it, as in {EXAMPLE_URL}")]
    NoUrl,
    #[error(
        "DATABASE_URL begins with `{scheme}:`, and this build speaks {DATABASE} ({EXAMPLE_URL}); {advice}"
    )]
    OtherScheme { scheme: String, advice: String },
    #[error("the database of DATABASE_URL can't be opened: {0}")]
    Open(#[from] sqlx::Error),
}

/// The address in the environment, or the embedded database where there is one.
pub fn url() -> Result<String, ConnectError> {
    match (env::var("DATABASE_URL"), DEFAULT_URL) {
        (Ok(url), _) => Ok(url),
        (Err(_), Some(url)) => Ok(url.to_owned()),
        (Err(_), None) => Err(ConnectError::NoUrl),
    }
}

/// Opens a pool.
pub async fn connect(url: &str) -> Result<Pool<Db>, ConnectError> {
    check_scheme(url)?;
    // The guard finds a handler that takes a second connection, whose writes its rollback would not undo.
    let options = idem_runtime::guard(sqlx::pool::PoolOptions::<Db>::new()).max_connections(10);
    Ok(options.connect_with(connect_options(url)?).await?)
}

fn check_scheme(url: &str) -> Result<(), ConnectError> {
    let scheme = url.split(':').next().unwrap_or_default();
    if SCHEMES.contains(&scheme) {
        return Ok(());
    }
    let feature = match scheme {
        "sqlite" => Some("sqlite"),
        "postgres" | "postgresql" => Some("postgres"),
        "mysql" | "mariadb" => Some("mysql"),
        _ => None,
    };
    Err(ConnectError::OtherScheme {
        scheme: scheme.to_owned(),
        advice: match feature {
            Some(feature) => {
                format!("run `cargo run -p orders --no-default-features --features {feature}`")
            }
            None => "there are builds for `sqlite:`, `postgres:` and `mysql:`".to_owned(),
        },
    })
}

/// Makes the tables and the demo accounts that are missing.
pub async fn create_tables(pool: &Pool<Db>) -> sqlx::Result<()> {
    for statement in SCHEMA {
        pool.execute(*statement).await?;
    }
    Ok(())
}

/// Keeps an order, unless its id or its operation already has one: then it does nothing.
pub async fn insert_order(
    db: impl Executor<'_, Database = Db>,
    account: &Account,
    order: &Order,
    operation_id: Option<Uuid>,
) -> sqlx::Result<()> {
    sqlx::query(INSERT_ORDER)
        .bind(order.id)
        .bind(operation_id)
        .bind(&account.0)
        .bind(&order.item)
        .bind(order.quantity)
        .bind(order.total)
        .bind(&order.status)
        .execute(db)
        .await?;
    Ok(())
}

/// The order that an operation made.
pub async fn find_operation(
    db: impl Executor<'_, Database = Db>,
    operation_id: Uuid,
) -> sqlx::Result<Order> {
    sqlx::query_as(FIND_OPERATION)
        .bind(operation_id)
        .fetch_one(db)
        .await
}

pub async fn find_order(
    db: impl Executor<'_, Database = Db>,
    account: &Account,
    id: Uuid,
) -> sqlx::Result<Option<Order>> {
    sqlx::query_as(FIND_ORDER)
        .bind(id)
        .bind(&account.0)
        .fetch_optional(db)
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

/// How many orders there are, of all accounts.
pub async fn count_orders(db: impl Executor<'_, Database = Db>) -> sqlx::Result<i64> {
    sqlx::query_scalar("SELECT count(*) FROM orders")
        .fetch_one(db)
        .await
}

/// Marks an open order as paid, and leaves any other as it is.
pub async fn pay_order(
    db: impl Executor<'_, Database = Db>,
    account: &Account,
    id: Uuid,
) -> sqlx::Result<()> {
    sqlx::query(PAY_ORDER)
        .bind(id)
        .bind(&account.0)
        .execute(db)
        .await?;
    Ok(())
}

/// Takes cents from an account's credit. `false`: it hasn't as many.
pub async fn take_credit(
    db: impl Executor<'_, Database = Db>,
    account: &Account,
    cents: i64,
) -> sqlx::Result<bool> {
    let done = sqlx::query(TAKE_CREDIT)
        .bind(cents)
        .bind(&account.0)
        .bind(cents)
        .execute(db)
        .await?;
    Ok(done.rows_affected() == 1)
}

pub async fn find_profile(
    db: impl Executor<'_, Database = Db>,
    account: &Account,
) -> sqlx::Result<Profile> {
    sqlx::query_as(FIND_PROFILE)
        .bind(&account.0)
        .fetch_one(db)
        .await
}

/// Sets the name; one that is set already makes no new revision.
pub async fn set_name(
    db: impl Executor<'_, Database = Db>,
    account: &Account,
    name: &str,
) -> sqlx::Result<()> {
    sqlx::query(SET_NAME)
        .bind(name)
        .bind(&account.0)
        .bind(name)
        .execute(db)
        .await?;
    Ok(())
}

/// Makes the revision that follows `revision`. `false`: that is no longer the current one.
pub async fn replace_profile(
    db: impl Executor<'_, Database = Db>,
    account: &Account,
    name: &str,
    revision: i64,
) -> sqlx::Result<bool> {
    let done = sqlx::query(REPLACE_PROFILE)
        .bind(name)
        .bind(&account.0)
        .bind(revision)
        .execute(db)
        .await?;
    Ok(done.rows_affected() == 1)
}

pub async fn next_revision(
    db: impl Executor<'_, Database = Db>,
    account: &Account,
) -> sqlx::Result<()> {
    sqlx::query(NEXT_REVISION)
        .bind(&account.0)
        .execute(db)
        .await?;
    Ok(())
}

/// Whether an operation has left its notification.
pub async fn is_notified(
    db: impl Executor<'_, Database = Db>,
    operation_id: Uuid,
) -> sqlx::Result<bool> {
    let found: Option<String> = sqlx::query_scalar(FIND_NOTIFICATION)
        .bind(operation_id)
        .fetch_optional(db)
        .await?;
    Ok(found.is_some())
}

pub async fn insert_notification(
    db: impl Executor<'_, Database = Db>,
    account: &Account,
    operation_id: Uuid,
) -> sqlx::Result<()> {
    sqlx::query(INSERT_NOTIFICATION)
        .bind(operation_id)
        .bind(&account.0)
        .execute(db)
        .await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_of_another_database_names_the_feature_to_enable() {
        let other = match SCHEMES[0] {
            "postgres" => ("sqlite:orders.db", "--features sqlite"),
            _ => ("postgres://localhost/orders", "--features postgres"),
        };
        let error = check_scheme(other.0).unwrap_err().to_string();
        assert!(error.contains(other.1), "{error}");
    }

    #[test]
    fn an_unknown_address_names_the_known_ones() {
        let error = check_scheme("oracle://localhost").unwrap_err().to_string();
        assert!(error.contains("`oracle:`"), "{error}");
        assert!(
            error.contains("`sqlite:`, `postgres:` and `mysql:`"),
            "{error}"
        );
    }
}
