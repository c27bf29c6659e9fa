//! What the attribute says of a handler, and the one trait that a generated handler implements.

use std::future::Future;
use std::time::Duration;

use axum::response::Response;
use futures_util::future::BoxFuture;
use sqlx::Database;

use crate::call::Split;
use crate::replay::Replay;
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

/// The connection that a handle's database uses.
pub type ConnectionOf<H> = <<H as Handle>::Db as Database>::Connection;

/// One annotated handler, as data and functions. `#[idempotent]` implements it; nobody else does.
///
/// Bounds stand on the trait and not on its types, and futures are boxed or have defaults: rustc proves a bound of an
/// associated type, and an `impl Future` of an implementation, for every handler from the start.
pub trait Operation: Sized + Send + Sync + 'static
where
    Self::Handle: Handle,
    Self::Args: Split,
{
    /// What the handler writes through: `Tx<DB>`.
    type Handle;
    /// The handler's arguments but the transaction.
    type Args;
    /// What the handler returns ([`Settled`] where that can't be named).
    type Output;
    /// What the attribute says.
    const SPEC: Spec;
    /// Whether `replay_with` rebuilds the answer.
    const REBUILDS: bool = false;

    /// Holds the checks of the arguments: that it compiles is all. Never called, so that they are no code, and no `async fn`,
    /// where rustc would prove anew what it knows of other handlers.
    fn check() {}

    /// Whose key this is.
    fn scope(prefix: &<Self::Args as Split>::Prefix) -> ScopeKey;

    /// The user's function.
    fn call<'t>(handle: &'t mut Self::Handle, args: Self::Args) -> BoxFuture<'t, Self::Output>;

    /// What becomes of the answer.
    fn settle(output: Self::Output) -> Settled;

    /// Whether the handler may run again without its request.
    const KEEPS_INPUTS: bool = false;

    /// The arguments as data.
    fn inputs(_args: &Self::Args) -> Inputs {
        Inputs::new()
    }

    /// The check that runs on every call, on replays too.
    fn authorize(
        _prefix: &<Self::Args as Split>::Prefix,
    ) -> impl Future<Output = Result<(), Response>> + Send {
        std::future::ready(Ok(()))
    }

    /// Builds the answer of a replay again, for `replay_with`.
    fn replay<'c>(
        _connection: &'c mut ConnectionOf<Self::Handle>,
        _replay: &'c Replay,
    ) -> impl Future<Output = Option<Response>> + Send + 'c {
        std::future::ready(None)
    }
}
