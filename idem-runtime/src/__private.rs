//! What generated code names. Not part of the public API.

use std::time::Duration;

pub use axum::extract::Request;
pub use axum::response::{IntoResponse, Response};
pub use futures_util::future::BoxFuture;

pub use crate::bounds::{argument, handler_future, router_state};
pub use crate::call::{AllParts, Answer, Call, Split};
pub use crate::capability::{EffectFree, field, vet};
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
pub use crate::steps::{Inputs, Steps};
pub use crate::tx::Handle;

/// Runs an operation. A function: where its operation is faulty, a method would be an error too.
pub fn run<O>(call: Call<O::Handle, O::Args>) -> impl Future<Output = Answer<O>> + Send
where
    O: Operation<Handle: Handle, Args: Split>,
{
    call.run::<O>()
}

/// The specification of a handler whose attribute says nothing but its scope.
#[must_use]
pub const fn spec(name: &'static str, scope: &'static str) -> Spec {
    Spec::new(name, scope)
}

/// A duration of the attribute.
#[must_use]
pub const fn seconds(seconds: u64) -> Option<Duration> {
    Some(Duration::from_secs(seconds))
}

/// A duration of the attribute that is no whole number of seconds.
#[must_use]
pub const fn milliseconds(milliseconds: u64) -> Option<Duration> {
    Some(Duration::from_millis(milliseconds))
}

/// Turns the answer of an `authorize` function into the refusal.
pub fn authorized<E: IntoResponse>(checked: Result<(), E>) -> Result<(), Response> {
    checked.map_err(IntoResponse::into_response)
}
