//! A connection on which a transaction is being begun.

use std::ops::AsyncFnOnce;

use sqlx::pool::PoolConnection;
use tokio::time::{Instant, timeout_at};

use crate::backend::Backend;
use crate::faults::{self, Plant};
use crate::idempotency::StoreError;
use crate::turn::{self, Turn};

/// Closes its connection unless the begin came to its end. sqlx counts a transaction once the server has answered: a begin
/// that is dropped before would leave one open, which the connection's next user writes into and nobody commits.
pub(crate) struct Beginning<DB: Backend> {
    connection: Option<PoolConnection<DB>>,
    /// The writer's turn, where the engine has one writer.
    turn: Option<Turn>,
}

impl<DB: Backend> Beginning<DB> {
    pub(crate) fn on(connection: PoolConnection<DB>) -> Self {
        Self::in_turn(connection, None)
    }

    pub(crate) fn in_turn(connection: PoolConnection<DB>, turn: Option<Turn>) -> Self {
        Self {
            connection: Some(connection),
            turn,
        }
    }

    /// Sends what begins it.
    pub(crate) async fn run<T>(
        &mut self,
        limit: Instant,
        begin: impl AsyncFnOnce(&mut DB::Connection) -> sqlx::Result<T>,
    ) -> Result<T, StoreError> {
        let connection = self.connection.as_mut().expect("taken at the end only");
        match timeout_at(limit, begin(connection)).await {
            Ok(begun) => begun.map_err(StoreError::Database),
            Err(_) => Err(StoreError::TimedOut("the begin of a transaction")),
        }
    }

    /// The connection of a begin that came to its end.
    pub(crate) fn end(self) -> PoolConnection<DB> {
        self.end_in_turn().0
    }

    /// The same, with the writer's turn.
    pub(crate) fn end_in_turn(mut self) -> (PoolConnection<DB>, Option<Turn>) {
        let connection = self.connection.take().expect("taken here only");
        (connection, self.turn.take())
    }
}

impl<DB: Backend> Drop for Beginning<DB> {
    fn drop(&mut self) {
        if let Some(connection) = self.connection.take()
            && !faults::planted(Plant::BeginCancelled)
        {
            turn::close(connection, self.turn.take());
        }
    }
}
