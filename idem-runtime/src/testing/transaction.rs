//! A transaction for a unit test of a handler.

use std::time::Duration;

use sqlx::Pool;
use uuid::Uuid;

use crate::backend::Backend;
use crate::idempotency::{Idempotency, StoreError};
use crate::tx::Tx;

/// A transaction to call a handler's function with; rolled back when it is dropped.
///
/// The function runs as the framework runs it, but for the key: there is no claim, and nothing is stored.
/// What it wrote can be read through the same transaction, and is gone after the test.
///
/// ```
/// # #[cfg(feature = "sqlite")] mod example {
/// use idem_runtime::{Idempotency, IdempotentHandler, Tx, idempotent, testing};
/// use sqlx::{Sqlite, SqlitePool};
/// # use axum::extract::Path;
///
/// #[idempotent(scope = "account")]
/// async fn close(tx: &mut Tx<Sqlite>, Path(account): Path<u64>) -> String {
///     format!("{account} is closed")
/// }
///
/// async fn closing_says_so(pool: SqlitePool) {
///     let mut tx = testing::begin(&pool).await;
///     let text = close.invoke(&mut tx, (Path(7),)).await;
///     assert_eq!(text, "7 is closed");
/// }
/// # }
/// ```
///
/// # Panics
///
/// If the database can't be reached, the library's tables are missing ([`Idempotency::migrate`] makes them), or no connection comes free within 1.5 seconds.
///
/// # Cancel safety
///
/// Cancel safe.
pub async fn begin<DB: Backend>(pool: &Pool<DB>) -> Tx<DB> {
    let operation_id = uuid::Builder::from_random_bytes(fastrand::u128(..).to_be_bytes());
    let idempotency = Idempotency::new(pool.clone());
    match idempotency.begin_test(operation_id.into_uuid()).await {
        Ok(tx) => tx,
        Err(error) => panic!(
            "`testing::begin` has no transaction to give: {}",
            advice(&error)
        ),
    }
}

/// What is wrong, and what a test does about it.
fn advice(error: &StoreError) -> String {
    match error {
        StoreError::Schema(error) => {
            format!(
                "{error}. In a test: `Idempotency::new(pool.clone()).migrate().await` before it"
            )
        }
        StoreError::Database(sqlx::Error::PoolTimedOut) => {
            advice(&StoreError::TimedOut("a connection of the pool"))
        }
        StoreError::TimedOut(what) => format!(
            "waited too long for {what}. Drop the `Tx`, or give back the connection, that the test still holds, or give the pool more \
             connections; SQLite has one writer, and so one `Tx` at a time"
        ),
        error => format!(
            "the database refused ({error}). Check the URL of the test's pool, and that the server runs"
        ),
    }
}

impl<DB: Backend> Idempotency<DB> {
    /// As [`begin`], with the `operation_id` that the handler finds as [`Tx::operation_id`]: a test passes
    /// the same one twice to see what a retry after `ttl` does.
    ///
    /// # Errors
    ///
    /// When the database is out of reach, or on SQLite when another transaction is open for long.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub async fn test_transaction(&self, operation_id: Uuid) -> sqlx::Result<Tx<DB>> {
        self.begin_test(operation_id)
            .await
            .map_err(|error| match error {
                StoreError::Database(error) => error,
                error => sqlx::Error::Io(std::io::Error::other(error)),
            })
    }

    async fn begin_test(&self, operation_id: Uuid) -> Result<Tx<DB>, StoreError> {
        // In a task of its own: a begin that is dropped half way would leave an open transaction behind.
        let idempotency = self.clone();
        let begun = tokio::spawn(async move {
            let limit = tokio::time::Instant::now() + idempotency.shared.settings.store_timeout;
            idempotency
                .begin(operation_id, None, limit, Duration::ZERO)
                .await
        });
        let stopped = |error| StoreError::Database(sqlx::Error::Io(std::io::Error::other(error)));
        begun.await.map_err(stopped)?
    }
}
