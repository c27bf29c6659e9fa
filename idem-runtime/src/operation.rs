//! What the attribute says of a handler, and the one trait that a generated handler implements.

use std::fmt;
use std::time::Duration;

use futures_util::future::BoxFuture;

use crate::backend::Backend;
use crate::call::{Authorize, Rebuild, Split};
use crate::scope::ScopeKey;
use crate::settle::Settled;
use crate::steps::Inputs;
use crate::tx::Handle;

/// What becomes of a key whose handler answered `Err` (the `errors` argument).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Errors {
    /// The key is free again: the client may fix its request and retry with the same key.
    Release,
    /// An answer below 500 is stored and replayed; the effect is rolled back all the same.
    Store,
}

/// What a duplicate of a request that still runs is told (the `in_flight` argument).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InFlight {
    /// It waits, up to `wait`, for the first one's answer.
    Wait,
    /// It is answered 409 at once.
    Reject,
}

/// What a key does once its `ttl` has passed (the `expired` argument).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expired {
    /// The request runs as if the key had never been used.
    Execute,
    /// The request is answered 410 until the tombstone goes.
    Reject,
}

/// What makes a key unique (the `key_space` argument).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeySpace {
    /// Scope and key: one key serves one request of its owner, whatever the operation.
    Scope,
    /// Scope, operation and key: one key may serve several operations.
    Operation,
}

/// Whether a request must bring a key (the `key` argument).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyRequirement {
    /// A request without a key is refused with 400.
    Required,
    /// A request without a key runs in a plain transaction, and nothing is stored.
    Optional,
}

/// What `#[idempotent]` says of one handler. `None` stands for the default of its
/// [`Idempotency`](crate::Idempotency).
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Spec {
    /// The operation's stable identity in records, metrics and recovery.
    pub name: &'static str,
    /// The `scope` argument, as written.
    pub scope: &'static str,
    /// The handler's full path, for messages.
    pub function: &'static str,
    /// How long a stored answer is replayed.
    pub ttl: Option<Duration>,
    /// How long a duplicate waits for the first request's answer.
    pub wait: Option<Duration>,
    /// How long after its `ttl` a key stays refused, with `expired = "reject"`.
    pub tombstone: Option<Duration>,
    /// How long the handler may run.
    pub timeout: Option<Duration>,
    /// What becomes of the key after an `Err`.
    pub errors: Option<Errors>,
    /// What a duplicate of a running request is told.
    pub in_flight: Option<InFlight>,
    /// What an expired key does.
    pub expired: Option<Expired>,
    /// The largest request body, in bytes.
    pub max_body: Option<usize>,
    /// The largest answer that is stored, in bytes.
    pub max_response: Option<usize>,
    /// Header fields that count in the fingerprint, in lower case.
    pub fingerprint_headers: &'static [&'static str],
    /// JSON pointers and `?query` names that do not.
    pub fingerprint_ignore: &'static [&'static str],
    /// What makes a key unique.
    pub key_space: KeySpace,
    /// Whether a key must be there.
    pub key: KeyRequirement,
    /// The version of the handler's steps: an operation that was begun under another is not resumed.
    pub definition: i32,
}

impl Spec {
    /// The specification of a handler whose attribute says nothing but its scope.
    #[must_use]
    pub const fn new(name: &'static str, scope: &'static str) -> Self {
        Self {
            name,
            scope,
            function: name,
            ttl: None,
            wait: None,
            tombstone: None,
            timeout: None,
            errors: None,
            in_flight: None,
            expired: None,
            max_body: None,
            max_response: None,
            fingerprint_headers: &[],
            fingerprint_ignore: &[],
            key_space: KeySpace::Scope,
            key: KeyRequirement::Required,
            definition: 1,
        }
    }
}

/// What an operation reads before the body, and what its scope is in.
pub type PrefixOf<O> = <<O as Operation>::Args as Split>::Prefix;

/// The check of `authorize`, which runs on every call, on replays too.
pub type AuthorizeOf<O> = Option<Authorize<PrefixOf<O>>>;

/// Builds the answer of a replay again, for `replay_with`.
pub type RebuildOf<O> = Option<Rebuild<<<O as Operation>::Handle as Handle>::Db>>;

/// The arguments as data.
pub type InputsOf<O> = Option<fn(&<O as Operation>::Args) -> Inputs>;

/// One annotated handler, as data and functions. `#[idempotent]` implements it; nobody else does.
///
/// Futures are boxed, and functions are values of one constant: rustc proves an `impl Future` anew for every
/// implementation, and compares each method with the trait's. What the handler's types must be is said here and by nothing
/// else that generated code names, or each would be an error of its own.
pub trait Operation: Sized + Send + Sync + 'static {
    /// What the handler writes through: `Tx<DB>`.
    type Handle: Handle<Db: Backend>;
    /// The handler's arguments but the transaction.
    type Args: Split<Prefix: 'static>;
    /// What the handler returns ([`Settled`] where that can't be named).
    type Output;
    /// What the attribute says.
    const SPEC: Spec;
    /// What the engine calls.
    const FUNCTIONS: Functions<Self>;
    /// Where the attribute says `authorize`.
    const AUTHORIZE: AuthorizeOf<Self> = None;
    /// Where the attribute says `replay_with`.
    const REBUILD: RebuildOf<Self> = None;
    /// Where the handler has recovery points: it may run again without its request.
    const INPUTS: InputsOf<Self> = None;

    /// Holds the checks of the arguments: that it compiles is all. Never called, so that they are no code, and no
    /// `async fn`, where rustc would prove anew what it knows of other handlers.
    fn check() {}
}

/// The functions of an operation.
pub struct Functions<O: Operation> {
    /// Whose key this is.
    pub scope: fn(&PrefixOf<O>) -> ScopeKey,
    /// The user's function.
    pub call: for<'t> fn(&'t mut O::Handle, O::Args) -> BoxFuture<'t, O::Output>,
    /// What becomes of the answer.
    pub settle: fn(O::Output) -> Settled,
}

impl<O: Operation> fmt::Debug for Functions<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Functions").finish_non_exhaustive()
    }
}
