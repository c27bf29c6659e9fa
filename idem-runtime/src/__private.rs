//! What generated code names. Not part of the public API.

use axum::extract::{FromRequest, FromRequestParts};

pub use crate::call::{AllParts, Answer, Call, Split};
pub use crate::operation::{
    ConnectionOf, Errors, Expired, InFlight, KeyRequirement, KeySpace, Operation, Spec,
};
pub use crate::replay::Replay;
pub use crate::scope::{Scope, ScopeBuilder, ScopeKey};
pub use crate::settle::{
    Disposition, ErrorKind, SettleDeclared, SettlePlain, SettleSourced, SettleTotal, Settled,
    outcome,
};
pub use axum::extract::Request;
pub use axum::response::{IntoResponse, Response};

use crate::call::HasIdempotency;
use crate::tx::Handle;

/// A function, so that the bound's error is spanned where the macro puts the call.
pub fn owner<T: Scope + ?Sized>(owner: &T) -> ScopeKey {
    ScopeKey::of(owner)
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
