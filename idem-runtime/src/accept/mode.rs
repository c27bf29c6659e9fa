//! What differs between kinds of handlers.

use axum::response::Response;

use super::{Buffered, Finished, Ticket};
use crate::atomic::Attempt;
use crate::backend::Backend;
use crate::call::Prepare;
use crate::telemetry::Signal;
use crate::tx::{Handle, Tx};
use crate::unprotected;

/// How the requests of one kind of handler run.
pub(crate) trait Mode: Handle {
    /// Runs the handler for its key.
    fn attempt(
        attempt: Attempt<Self::Db>,
        prepare: Prepare<Self>,
    ) -> impl Future<Output = Finished> + Send;

    /// Runs it without a key.
    fn unprotected(
        ticket: Ticket<Self::Db>,
        buffered: Buffered,
        prepare: Prepare<Self>,
    ) -> impl Future<Output = (Response, Signal)> + Send;
}

impl<DB: Backend> Mode for Tx<DB> {
    fn attempt(
        attempt: Attempt<DB>,
        prepare: Prepare<Self>,
    ) -> impl Future<Output = Finished> + Send {
        attempt.run(prepare)
    }

    async fn unprotected(
        ticket: Ticket<DB>,
        buffered: Buffered,
        prepare: Prepare<Self>,
    ) -> (Response, Signal) {
        unprotected::answer(&ticket, buffered, prepare).await
    }
}
