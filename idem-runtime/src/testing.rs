//! What users test their own handlers with.

use uuid::Uuid;

use crate::backend::Backend;
use crate::idempotency::{Idempotency, StoreError};
use crate::tx::Tx;

impl<DB: Backend> Idempotency<DB> {
    /// A transaction for a unit test of a handler: pass it to
    /// [`IdempotentHandler::invoke`](crate::IdempotentHandler::invoke). It is rolled back when it is
    /// dropped, and no key is claimed. `operation_id` is what the handler finds as
    /// [`Tx::operation_id`]; a test passes the same one twice to see what a retry after `ttl` does.
    ///
    /// # Errors
    ///
    /// When the database is out of reach, or on SQLite when another transaction is open for long.
    ///
    /// # Cancel safety
    ///
    /// Not cancel safe: a begin that is dropped half way may leave its transaction open.
    pub async fn test_transaction(&self, operation_id: Uuid) -> sqlx::Result<Tx<DB>> {
        self.begin(operation_id).await.map_err(|error| match error {
            StoreError::Database(error) => error,
            error => sqlx::Error::Io(std::io::Error::other(error)),
        })
    }
}
