//! What happened to each request, as `tracing` events and, with the feature `metrics`, as metrics.
//!
//! Events have the target `idem` and the fields `signal`, `operation`, `key` (a digest, absent where
//! the request had no valid key), `elapsed_seconds` and, where the request is answered a problem of the framework's own, its
//! `code`. Metrics go through the `metrics` facade:
//!
//! | metric | kind | labels |
//! |---|---|---|
//! | `idempotency_requests_total` | counter | `operation`, `outcome` |
//! | `idempotency_request_duration_seconds` | histogram | `operation`, `outcome` |
//!
//! `outcome` is the signal's name. Keys and scopes are never labels. [`Signal::Released`] comes on
//! top of a request's own signal: leave it out when you sum requests over all outcomes.
//!
//! # Operations with recovery points
//!
//! What happens to them besides requests is an event with the target `idem` too, with the fields `signal`, `operation`,
//! `id` (the [operation's](crate::operations::OperationId)) and those of the table:
//!
//! | `signal` | level | fields | when |
//! |---|---|---|---|
//! | `parked` | `ERROR` | `reason` | it is kept as unknown until an operator resolves it |
//! | `recovered` | `INFO` | `outcome` | a recovery worker took it over and its attempt ended: [`Recovered`](crate::steps::Recovered) in small letters |
//! | `resolved` | `INFO` | `action` (`done`, `refused`, `resume`), `actor` | an operator decided; the reason is in the audit |
//!
//! | metric | kind | labels |
//! |---|---|---|
//! | `idempotency_operations_parked_total` | counter | `operation` |
//! | `idempotency_operations_recovered_total` | counter | `operation`, `outcome` |
//! | `idempotency_operations_resolved_total` | counter | `operation`, `action` |
//! | `idempotency_operations_unresolved` | gauge | `state` (`started`, `unknown`) |
//! | `idempotency_operations_due` | gauge | |
//! | `idempotency_operations_oldest_seconds` | gauge | |
//!
//! Recovery workers set the gauges, each for the whole database, when they start and once a minute: take the maximum over
//! processes. `due` counts operations whose lease is over or whose next try is due.
//!
//! # The outbox
//!
//! | `signal` | level | fields | when |
//! |---|---|---|---|
//! | `message_failed` | `WARN` | `id`, `topic`, `attempt`, `reason`, `delay_seconds` | an attempt to publish a message failed; there will be another |
//! | `message_dead` | `ERROR` | `id`, `topic`, `attempt`, `reason` | it is a dead letter until an operator requeues or drops it |
//! | `publisher_paused` | `WARN` | `prefix`, `reason`, `pause_seconds` | a publisher is out of reach; its topics wait |
//! | `message_handled` | `INFO` | `id`, `action` (`requeue`, `drop`), `actor` | an operator decided; the reason is in the audit |
//!
//! | metric | kind | labels |
//! |---|---|---|
//! | `idempotency_outbox_staged_total` | counter | |
//! | `idempotency_outbox_published_total` | counter | `outcome` (`delivered`, `failed`, `dead`) |
//! | `idempotency_outbox_messages` | gauge | `state` |
//! | `idempotency_outbox_oldest_seconds` | gauge | |
//!
//! Relays set the gauges, each for the whole database, once a minute. `oldest` is the age of the oldest message that is
//! pending or failed.

use std::{fmt, time::Duration};

use tracing::Level;

use crate::problem::Code;

mod operations;
pub(crate) mod outbox;

pub(crate) use operations::{parked, recovered, resolved, unresolved};

/// The counter's name.
#[cfg(feature = "metrics")]
const REQUESTS: &str = "idempotency_requests_total";

/// The histogram's name.
#[cfg(feature = "metrics")]
const DURATION: &str = "idempotency_request_duration_seconds";

/// What happened to a request. Each emits exactly one, and [`Signal::Released`] besides when its
/// attempt lets the key go.
///
/// What the service must look at is an error, what a client does wrong or an operator may want to
/// follow is a warning, the rest is information:
///
/// | level | signals |
/// |---|---|
/// | `ERROR` | `StoreFailure` |
/// | `WARN` | `Mismatch`, `WrongRegion`, `Overloaded`, `Unresolved` |
/// | `INFO` | all others |
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Signal {
    /// A first use: the handler ran.
    Accepted,
    /// The stored answer was sent again.
    Replayed,
    /// The key came with another request before; answered 422.
    Mismatch,
    /// The key was past its `ttl`: it ran as a first use, or with `expired = "reject"` was refused.
    Expired,
    /// The key's first request was still in flight when the wait was over.
    PendingDuplicate,
    /// Another attempt with the key won the claim or the final insert; its record was answered.
    ReservationConflict,
    /// The attempt was rolled back and its key let go: the client may try again with it.
    Released,
    /// The database was out of reach, its pool exhausted, a commit's acknowledgement lost, or the account's home region not to
    /// be found out.
    StoreFailure,
    /// Refused before the store was asked: no key, an invalid key, a body too large.
    Refused,
    /// The account's home is another region, or it is on its way there.
    WrongRegion,
    /// No key, with `key = "optional"`: the handler ran without protection.
    Unprotected,
    /// Too many in flight or waiting, or the server drains.
    Overloaded,
    /// The key's outcome is unknown until somebody resolves it.
    Unresolved,
}

impl Signal {
    /// Every signal, for documentation and tests.
    pub const ALL: [Signal; 13] = [
        Signal::Accepted,
        Signal::Replayed,
        Signal::Mismatch,
        Signal::Expired,
        Signal::PendingDuplicate,
        Signal::ReservationConflict,
        Signal::Released,
        Signal::StoreFailure,
        Signal::Refused,
        Signal::WrongRegion,
        Signal::Unprotected,
        Signal::Overloaded,
        Signal::Unresolved,
    ];

    /// The name in events and labels, such as `pending_duplicate`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Signal::Accepted => "accepted",
            Signal::Replayed => "replayed",
            Signal::Mismatch => "mismatch",
            Signal::Expired => "expired",
            Signal::PendingDuplicate => "pending_duplicate",
            Signal::ReservationConflict => "reservation_conflict",
            Signal::Released => "released",
            Signal::StoreFailure => "store_failure",
            Signal::Refused => "refused",
            Signal::WrongRegion => "wrong_region",
            Signal::Unprotected => "unprotected",
            Signal::Overloaded => "overloaded",
            Signal::Unresolved => "unresolved",
        }
    }

    /// The level of its event.
    #[must_use]
    pub const fn level(self) -> Level {
        match self {
            Signal::StoreFailure => Level::ERROR,
            Signal::Mismatch | Signal::WrongRegion | Signal::Overloaded | Signal::Unresolved => {
                Level::WARN
            }
            _ => Level::INFO,
        }
    }

    /// Tells whoever listens. `key_digest` is that of [`IdempotencyKey::digest`], or empty where
    /// there is no valid key.
    ///
    /// [`IdempotencyKey::digest`]: crate::key::IdempotencyKey::digest
    pub fn emit(self, operation: &'static str, key_digest: &str, elapsed: Duration) {
        self.emit_with(operation, key_digest, elapsed, None);
    }

    /// The same with the code of the problem that the request is answered.
    pub(crate) fn emit_with(
        self,
        operation: &'static str,
        key_digest: &str,
        elapsed: Duration,
        code: Option<Code>,
    ) {
        self.trace(operation, key_digest, elapsed, code);
        #[cfg(feature = "metrics")]
        self.measure(operation, elapsed);
    }

    /// An event that nobody listens to costs a load and a comparison: the macro looks first.
    fn trace(
        self,
        operation: &'static str,
        key_digest: &str,
        elapsed: Duration,
        code: Option<Code>,
    ) {
        macro_rules! event {
            ($level:expr) => {
                tracing::event!(
                    target: "idem",
                    $level,
                    signal = self.as_str(),
                    operation,
                    key = (!key_digest.is_empty()).then_some(key_digest),
                    elapsed_seconds = elapsed.as_secs_f64(),
                    code = code.map(Code::as_str),
                )
            };
        }
        // An event's level is part of its static metadata, so each has a place of its own.
        match self.level() {
            Level::ERROR => event!(Level::ERROR),
            Level::WARN => event!(Level::WARN),
            _ => event!(Level::INFO),
        }
    }

    /// Handles are not cached: one that is made before the recorder is installed stays silent for
    /// ever. Without a recorder both calls end at the facade's no-op.
    #[cfg(feature = "metrics")]
    fn measure(self, operation: &'static str, elapsed: Duration) {
        let labels = [("operation", operation), ("outcome", self.as_str())];
        metrics::counter!(REQUESTS, &labels).increment(1);
        metrics::histogram!(DURATION, &labels).record(elapsed);
    }
}

impl fmt::Display for Signal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Gives the metrics their descriptions and units. Call it after the recorder is installed; again
/// does no harm.
#[cfg(feature = "metrics")]
pub fn describe() {
    metrics::describe_counter!(
        REQUESTS,
        metrics::Unit::Count,
        "Requests to idempotent handlers, by what happened to them."
    );
    metrics::describe_histogram!(
        DURATION,
        metrics::Unit::Seconds,
        "Time from a request's arrival at an idempotent handler to its answer."
    );
    operations::describe();
    outbox::describe();
}

#[cfg(test)]
mod tests;
