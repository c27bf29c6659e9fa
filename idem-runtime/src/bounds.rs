//! Bounds that generated code asks of the user's types.
//!
//! Methods of values that only a function returns: where a bound does not hold, rustc names the method, and
//! no path of generated code.

use axum::extract::{FromRequest, FromRequestParts};
use futures_util::future::BoxFuture;

use crate::call::HasIdempotency;
use crate::settle::Settled;
use crate::tx::Handle;

/// An argument of a handler.
#[derive(Debug)]
pub struct HandlerArgument;

/// The state of the router that a handler is for.
#[derive(Debug)]
pub struct RouterState;

/// What a handler returns when it is called.
#[derive(Debug)]
pub struct HandlerFuture;

/// Starts the check of an argument against the state that the attribute names.
#[must_use]
pub const fn argument() -> HandlerArgument {
    HandlerArgument
}

/// Starts the check of the state that the attribute names.
#[must_use]
pub const fn router_state() -> RouterState {
    RouterState
}

/// Starts the check of a handler's future.
#[must_use]
pub const fn handler_future() -> HandlerFuture {
    HandlerFuture
}

impl HandlerArgument {
    /// It is read from the request's parts.
    pub const fn reads_parts<T: FromRequestParts<S>, S>(&self) {}

    /// It is the last, and may read the body.
    pub const fn reads_request<T: FromRequest<S, M>, S, M>(&self) {}
}

impl RouterState {
    /// It has what the handler needs for itself.
    pub const fn has_idempotency<S: HasIdempotency<H::Db>, H: Handle>(&self) {}
}

impl HandlerFuture {
    /// Names the user's function where its future is not `Send`.
    pub fn must_be_send<'t, F: Future + Send + 't>(&self, future: F) -> BoxFuture<'t, F::Output> {
        Box::pin(future)
    }

    /// The same where what the function returns has no name: it is settled at once.
    pub fn must_be_send_and_settled<'t, F: Future + Send + 't>(
        &self,
        future: F,
        settle: fn(F::Output) -> Settled,
    ) -> BoxFuture<'t, Settled> {
        Box::pin(async move { settle(future.await) })
    }
}
