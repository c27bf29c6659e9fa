//! What generated code names. Not part of the public API.

use std::marker::PhantomData;
use std::time::Duration;

pub use std::option::Option::Some;

pub use axum::extract::Request;
pub use axum::response::{IntoResponse, Response};

pub use crate::bounds::{future, message, router_state, underneath};
pub use crate::call::{AllParts, Call, Running, Split, run};
pub use crate::capability::{EffectFree, field, vet};
pub use crate::inbox::consumer::{
    Consumer, ConsumerFunctions, ConsumerSpec, FaultyConsumer, MessageIdentity, Registered,
    Registration,
};
pub use crate::inbox::verdict::verdict;
pub use crate::operation::{
    AuthorizeOf, Errors, Expired, Functions, InFlight, InputsOf, KeyRequirement, KeySpace,
    Operation, PrefixOf, RebuildOf, Spec,
};
pub use crate::replay::Replay;
pub use crate::routing::declared::{Declaration, Declared, Design, Faulty, RepeatSafe};
pub use crate::scope::{Scope, ScopeBuilder, ScopeKey};
pub use crate::settle::{Disposition, ErrorKind, Settled, outcome};
pub use crate::steps::Inputs;

/// What a hidden type has of its function's parameters.
pub type Type<T> = PhantomData<fn(&T)>;

/// The specification of a handler whose attribute says nothing but its scope.
#[doc(hidden)]
#[macro_export]
macro_rules! __spec {
    ($name:literal, $scope:literal, $function:literal) => {{
        let mut spec = $crate::Spec::new($name, $scope);
        spec.function = ::core::concat!(::core::module_path!(), "::", $function);
        spec
    }};
}
pub use __spec as spec;

/// The specification of a consumer whose attribute says nothing but its source.
#[doc(hidden)]
#[macro_export]
macro_rules! __consumer_spec {
    ($name:literal, $source:literal, $function:literal) => {
        $crate::inbox::ConsumerSpec::new(
            $name,
            $source,
            ::core::concat!(::core::module_path!(), "::", $function),
        )
    };
}
pub use __consumer_spec as consumer_spec;

/// A duration of the attribute.
#[must_use]
pub const fn seconds(seconds: u64) -> Option<Duration> {
    Some(Duration::from_secs(seconds))
}

/// All durations of the attribute, in milliseconds.
pub const fn durations(spec: &mut Spec, ttl: u64, wait: u64, tombstone: u64, timeout: u64) {
    spec.ttl = milliseconds(ttl);
    spec.wait = milliseconds(wait);
    spec.tombstone = milliseconds(tombstone);
    spec.timeout = milliseconds(timeout);
}

/// A duration of the attribute that is no whole number of seconds.
#[must_use]
pub const fn milliseconds(milliseconds: u64) -> Option<Duration> {
    Some(Duration::from_millis(milliseconds))
}
