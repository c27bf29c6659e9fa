//! A connection for statements of their own: no transaction of a handler's is open on it.

use std::ops::AsyncFnOnce;

use sqlx::pool::PoolConnection;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Instant, timeout_at};

use crate::backend::Backend;
use crate::idempotency::{Idempotency, StoreError};

/// Closes its connection unless what ran on it came to its end: a dropped future may have left a transaction open.
pub(crate) struct Alone<DB: Backend> {
    connection: PoolConnection<DB>,
    running: bool,
    /// The writer's permit, where the engine has one writer.
    _writer: Option<OwnedSemaphorePermit>,
}

impl<DB: Backend> Idempotency<DB> {
    /// Takes a connection for statements of their own, and the writer's turn where there is one writer.
    pub(crate) async fn alone(&self, limit: Instant) -> Result<Alone<DB>, StoreError> {
        let writer = self.writer(limit).await?;
        Ok(Alone {
            connection: self.connection(limit).await?,
            running: false,
            _writer: writer,
        })
    }
}

impl<DB: Backend> Idempotency<DB> {
    /// Takes a connection for statements that only read.
    pub(crate) async fn reading(&self, limit: Instant) -> Result<Alone<DB>, StoreError> {
        Ok(Alone {
            connection: self.connection(limit).await?,
            running: false,
            _writer: None,
        })
    }
}

impl<DB: Backend> Alone<DB> {
    /// Runs a part, up to a limit.
    pub(crate) async fn run<T>(
        &mut self,
        limit: Instant,
        part: impl AsyncFnOnce(&mut DB::Connection) -> sqlx::Result<T>,
    ) -> Result<T, StoreError> {
        self.running = true;
        let done = timeout_at(limit, part(&mut self.connection)).await;
        let done = done.map_err(|_| StoreError::TimedOut("a statement of an operation"))?;
        self.running = done.is_err();
        done.map_err(StoreError::Database)
    }
}

impl<DB: Backend> Drop for Alone<DB> {
    fn drop(&mut self) {
        if self.running {
            self.connection.close_on_drop();
        }
    }
}
