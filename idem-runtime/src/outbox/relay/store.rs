//! A relay's way to the database.

use std::ops::AsyncFnOnce;
use std::time::Duration;

use tokio::time::Instant;

use crate::alone::Alone;
use crate::backend::Backend;
use crate::idempotency::{Idempotency, StoreError};

/// How long a connection and a statement on it may take.
const STATEMENT: Duration = Duration::from_secs(5);

/// Keeps its connection from one statement to the next, until it is told to let go of it.
pub(super) struct Store<DB: Backend> {
    pub(super) idempotency: Idempotency<DB>,
    held: Option<Alone<DB>>,
}

impl<DB: Backend> Store<DB> {
    pub(super) fn new(idempotency: Idempotency<DB>) -> Self {
        Self {
            idempotency,
            held: None,
        }
    }

    /// Gives the connection back to the pool.
    pub(super) fn release(&mut self) {
        self.held = None;
    }

    /// Runs what only reads.
    pub(super) async fn read<T>(
        &mut self,
        part: impl AsyncFnOnce(&mut DB::Connection) -> sqlx::Result<T>,
    ) -> Result<T, StoreError> {
        let limit = Instant::now() + STATEMENT;
        let alone = match self.held.take() {
            Some(held) => held,
            None => self.idempotency.reading(limit).await?,
        };
        self.run(alone, limit, part).await
    }

    /// Runs what writes.
    pub(super) async fn write<T>(
        &mut self,
        part: impl AsyncFnOnce(&mut DB::Connection) -> sqlx::Result<T>,
    ) -> Result<T, StoreError> {
        let limit = Instant::now() + STATEMENT;
        let alone = match self.held.take() {
            Some(held) => held,
            // No longer than for the rest: lanes are lent for some seconds.
            None => self.idempotency.alone_within(limit, STATEMENT).await?,
        };
        self.run(alone, limit, part).await
    }

    async fn run<T>(
        &mut self,
        mut alone: Alone<DB>,
        limit: Instant,
        part: impl AsyncFnOnce(&mut DB::Connection) -> sqlx::Result<T>,
    ) -> Result<T, StoreError> {
        let done = alone.run(limit, part).await?;
        // Where there is one writer, its turn is nothing to keep; and who has a connection must not wait for the turn.
        if !DB::SINGLE_WRITER {
            self.held = Some(alone);
        }
        Ok(done)
    }
}
