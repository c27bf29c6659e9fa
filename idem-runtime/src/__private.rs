//! What generated code names. Not part of the public API.

use axum::extract::{FromRequest, FromRequestParts};

pub use axum::extract::Request;
pub use axum::response::{IntoResponse, Response};

pub use crate::call::{AllParts, Answer, Call, HasIdempotency, Split};
pub use crate::operation::{
    ConnectionOf, Errors, Expired, InFlight, KeyRequirement, KeySpace, Operation, Spec,
};
pub use crate::replay::Replay;
pub use crate::routing::declared::{Declaration, Declared, Design, Faulty, RepeatSafe, declared};
pub use crate::scope::{Scope, ScopeBuilder, ScopeKey};
pub use crate::settle::{
    Disposition, ErrorKind, SettleDeclared, SettlePlain, SettleSourced, SettleTotal, Settled,
    outcome,
};
pub use crate::tx::Handle;

/// Runs an operation. A function: where its operation is faulty, a method would be an error too.
pub fn run<O: Operation>(call: Call<O::Handle, O::Args>) -> impl Future<Output = Answer<O>> + Send {
    call.run::<O>()
}

/// Turns the answer of an `authorize` function into the refusal.
pub fn authorized<E: IntoResponse>(checked: Result<(), E>) -> Result<(), Response> {
    checked.map_err(IntoResponse::into_response)
}

/// Names the user's function where its future is not `Send`.
pub const fn require_send<F: Future + Send>(future: F) -> F {
    future
}

/// Checks one argument against the state that the attribute names.
pub const fn assert_parts<T: FromRequestParts<S>, S>() {}

/// Checks the last argument against the state that the attribute names.
pub const fn assert_request<T: FromRequest<S, M>, S, M>() {}

/// Checks the state that the attribute names for the handler's own needs.
pub const fn assert_store<S: HasIdempotency<H::Db>, H: Handle>() {}
