//! A connection on which a transaction is being begun.

use std::ops::AsyncFnOnce;

use sqlx::pool::PoolConnection;
use tokio::time::{Instant, timeout_at};

use crate::backend::Backend;
use crate::faults::{self, Plant};
use crate::idempotency::StoreError;

/// Closes its connection unless the begin came to its end. sqlx counts a transaction once the server has answered: a begin
/// that is dropped before would leave one open, which the connection's next user writes into and nobody commits.
pub(crate) struct Beginning<DB: Backend>(Option<PoolConnection<DB>>);

impl<DB: Backend> Beginning<DB> {
    pub(crate) fn on(connection: PoolConnection<DB>) -> Self {
        Self(Some(connection))
    }

    /// Sends what begins it.
    pub(crate) async fn run<T>(
        &mut self,
        limit: Instant,
        begin: impl AsyncFnOnce(&mut DB::Connection) -> sqlx::Result<T>,
    ) -> Result<T, StoreError> {
        let connection = self.0.as_mut().expect("taken at the end only");
        match timeout_at(limit, begin(connection)).await {
            Ok(begun) => begun.map_err(StoreError::Database),
            Err(_) => Err(StoreError::TimedOut("the begin of a transaction")),
        }
    }

    /// The connection of a begin that came to its end.
    pub(crate) fn end(mut self) -> PoolConnection<DB> {
        self.0.take().expect("taken here only")
    }
}

impl<DB: Backend> Drop for Beginning<DB> {
    fn drop(&mut self) {
        if let Some(connection) = &mut self.0
            && !faults::planted(Plant::BeginCancelled)
        {
            connection.close_on_drop();
        }
    }
}
