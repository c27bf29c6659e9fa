//! A connection for statements of their own: no transaction of a handler's is open on it.

use std::ops::AsyncFnOnce;
use std::time::Duration;

use sqlx::pool::PoolConnection;
use tokio::time::{Instant, timeout_at};

use crate::backend::Backend;
use crate::idempotency::{Idempotency, StoreError};
use crate::turn::{self, Turn, waited};

/// Closes its connection unless what ran on it came to its end: a dropped future may have left a transaction open.
pub(crate) struct Alone<DB: Backend> {
    idempotency: Idempotency<DB>,
    /// Taken when this is dropped.
    connection: Option<PoolConnection<DB>>,
    running: bool,
    /// The writer's turn, where the engine has one writer.
    turn: Option<Turn>,
    /// By how much the limit that it was asked for with is put off.
    waited: Duration,
}

impl<DB: Backend> Idempotency<DB> {
    /// Takes a connection for statements of their own, and the writer's turn where there is one writer.
    pub(crate) async fn alone(&self, limit: Instant) -> Result<Alone<DB>, StoreError> {
        self.alone_within(limit, self.shared.settings.writer_timeout)
            .await
    }

    /// The same with a `patience` of its own for the turn.
    pub(crate) async fn alone_within(
        &self,
        limit: Instant,
        patience: Duration,
    ) -> Result<Alone<DB>, StoreError> {
        let turn = self.turn(limit, patience).await?;
        let waited = waited(turn.as_ref());
        let limit = limit + waited;
        Ok(Alone {
            idempotency: self.clone(),
            connection: Some(self.connection(limit).await?),
            running: false,
            turn,
            waited,
        })
    }
}

impl<DB: Backend> Idempotency<DB> {
    /// Takes a connection for statements that only read.
    pub(crate) async fn reading(&self, limit: Instant) -> Result<Alone<DB>, StoreError> {
        Ok(self.alone_on(self.connection(limit).await?))
    }

    /// The same with a connection that was taken already.
    pub(crate) fn alone_on(&self, connection: PoolConnection<DB>) -> Alone<DB> {
        Alone {
            idempotency: self.clone(),
            connection: Some(connection),
            running: false,
            turn: None,
            waited: Duration::ZERO,
        }
    }

    /// Runs a part that is made of statements of their own, on a connection without a transaction: with what the server
    /// wants before and after it. Whoever drops this, or gets an error, closes the connection.
    pub(crate) async fn apart<T>(
        &self,
        connection: &mut DB::Connection,
        part: impl AsyncFnOnce(&mut DB::Connection) -> sqlx::Result<T>,
    ) -> sqlx::Result<T> {
        let server = self.server(connection).await?;
        if !DB::encloses(&server) {
            return part(connection).await;
        }
        DB::open_alone(&mut *connection, &server).await?;
        let done = part(&mut *connection).await;
        let closed = DB::close_alone(connection, &server, done.is_ok()).await;
        done.and_then(|done| closed.map(|()| done))
    }
}

impl<DB: Backend> Alone<DB> {
    /// Runs a part, up to a limit, which the wait for the turn has put off for the first one.
    pub(crate) async fn run<T>(
        &mut self,
        limit: Instant,
        part: impl AsyncFnOnce(&mut DB::Connection) -> sqlx::Result<T>,
    ) -> Result<T, StoreError> {
        self.running = true;
        let limit = limit + std::mem::take(&mut self.waited);
        let connection = self.connection.as_mut().expect("taken at the end only");
        let apart = self.idempotency.apart(connection, part);
        let done = timeout_at(limit, apart).await;
        let done = done.map_err(|_| StoreError::TimedOut("a statement of an operation"))?;
        self.running = done.is_err();
        if let (Ok(_), Some(turn)) = (&done, &mut self.turn) {
            turn.done();
        }
        done.map_err(StoreError::Database)
    }
}

impl<DB: Backend> Drop for Alone<DB> {
    fn drop(&mut self) {
        if self.running
            && let Some(connection) = self.connection.take()
        {
            turn::close(connection, self.turn.take());
        }
    }
}
