//! Bounds that generated code asks of the user's types.
//!
//! Methods of values that only a function returns: where a bound does not hold, rustc names the method, and
//! no path of generated code.

use std::error::Error;

use axum::response::{IntoResponse, Response};
use futures_util::future::BoxFuture;

use crate::call::HasIdempotency;
use crate::inbox::FromMessage;
use crate::routing::declared::{Declared, declared};
use crate::settle::Settled;
use crate::tx::Handle;

/// The state of the router that a handler is for.
#[derive(Debug)]
pub struct RouterState;

/// What a handler, or an `authorize` function, returns when it is called.
#[derive(Debug)]
pub struct HandlerFuture;

/// Starts the check of the state that the attribute names.
#[must_use]
pub const fn router_state() -> RouterState {
    RouterState
}

/// What a consumer's arguments are made of.
#[derive(Debug)]
pub struct ConsumedMessage;

/// Starts the check of a consumer's argument.
#[must_use]
pub const fn message() -> ConsumedMessage {
    ConsumedMessage
}

impl ConsumedMessage {
    /// It can be made of a message and of this state.
    pub const fn makes<T: FromMessage<S>, S>(self) {}
}

/// The error underneath one that derives [`Disposition`](crate::Disposition).
#[derive(Debug)]
pub struct Underneath;

/// Starts the check of a field that holds one.
#[must_use]
pub const fn underneath() -> Underneath {
    Underneath
}

/// An error with a chain. A trait of ours, for a message of ours.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no error, and so has no chain that could be asked",
    label = "must implement `std::error::Error`",
    note = "the chain says whether the database wants the handler to run again: keep the error itself in the field, such as `sqlx::Error`",
    note = "where there is none, say what the variant leaves of its key: `validation`, `rejection` or `transient`"
)]
pub trait Chained: Error {}

#[diagnostic::do_not_recommend]
impl<E: Error> Chained for E {}

impl Underneath {
    /// It is an error.
    pub const fn is<'e, E: Chained + 'static>(self, error: &'e E) -> &'e (dyn Error + 'static) {
        error
    }
}

/// Starts the check of a handler's future.
#[must_use]
pub const fn future() -> HandlerFuture {
    HandlerFuture
}

impl RouterState {
    /// It has what the handler needs for itself.
    pub const fn has_idempotency<S: HasIdempotency<H::Db>, H: Handle>(self) {}
}

impl HandlerFuture {
    /// Names the user's function where its future is not `Send`.
    pub fn must_be_send<'t, F: Future + Send + 't>(self, future: F) -> BoxFuture<'t, F::Output> {
        Box::pin(future)
    }

    /// The same where what the function returns has no name: it is settled at once.
    pub fn must_be_send_and_settled<'t, F: Future + Send + 't>(
        self,
        future: F,
        settle: fn(F::Output) -> Settled,
    ) -> BoxFuture<'t, Settled> {
        Box::pin(async move { settle(future.await) })
    }

    /// The same for a check of `authorize`, whose error is the refusal.
    pub fn must_be_send_and_authorize<'t, F, E>(
        self,
        checked: F,
    ) -> BoxFuture<'t, Result<(), Response>>
    where
        F: Future<Output = Result<(), E>> + Send + 't,
        E: IntoResponse,
    {
        Box::pin(async move { checked.await.map_err(IntoResponse::into_response) })
    }

    /// The same for a function of `#[repeat_safe]`.
    pub fn must_be_send_and_declare<R, D>(
        self,
        run: impl Future<Output = R> + Send,
        respond: fn(R) -> Response,
    ) -> impl Future<Output = Declared<R, D>> + Send {
        declared(run, respond)
    }

    /// The same for the answer that `replay_with` builds again.
    pub fn must_be_send_and_rebuild<'t, F>(self, rebuilt: F) -> BoxFuture<'t, Response>
    where
        F: Future<Output: IntoResponse> + Send + 't,
    {
        Box::pin(async move { rebuilt.await.into_response() })
    }
}
