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
    Idempotency::new(pool.clone())
        .test_transaction(operation_id.into_uuid())
        .await
        .unwrap_or_else(|error| panic!("a test's transaction could not begin: {error}"))
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
        // In a task of its own: a begin that is dropped half way would leave an open transaction behind.
        let idempotency = self.clone();
        let begun = tokio::spawn(async move {
            let limit = tokio::time::Instant::now() + idempotency.shared.settings.store_timeout;
            idempotency
                .begin(operation_id, None, limit, Duration::ZERO)
                .await
        });
        begun
            .await
            .map_err(|error| sqlx::Error::Io(std::io::Error::other(error)))?
            .map_err(|error| match error {
                StoreError::Database(error) => error,
                error => sqlx::Error::Io(std::io::Error::other(error)),
            })
    }
}
