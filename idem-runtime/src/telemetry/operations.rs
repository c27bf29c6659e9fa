//! What happened to operations with recovery points.

use crate::backend::operations::Unresolved;
use crate::operations::OperationId;

/// How many were kept as unknown.
#[cfg(feature = "metrics")]
pub(super) const PARKED: &str = "idempotency_operations_parked_total";
/// How many attempts of recovery workers ended, by their outcome.
#[cfg(feature = "metrics")]
pub(super) const RECOVERED: &str = "idempotency_operations_recovered_total";
/// How many decisions operators made.
#[cfg(feature = "metrics")]
pub(super) const RESOLVED: &str = "idempotency_operations_resolved_total";
/// How many are not resolved now.
#[cfg(feature = "metrics")]
pub(super) const UNRESOLVED: &str = "idempotency_operations_unresolved";
/// How many of those that are begun wait for a recovery worker.
#[cfg(feature = "metrics")]
pub(super) const DUE: &str = "idempotency_operations_due";
/// The age of the oldest.
#[cfg(feature = "metrics")]
pub(super) const OLDEST: &str = "idempotency_operations_oldest_seconds";

/// An operation is kept as unknown.
pub(crate) fn parked(operation: &'static str, id: OperationId, reason: &str) {
    tracing::error!(
        target: "idem",
        signal = "parked",
        operation,
        %id,
        reason,
        "an operation is kept as unknown until somebody resolves it"
    );
    #[cfg(feature = "metrics")]
    metrics::counter!(PARKED, "operation" => operation).increment(1);
}

/// A recovery worker's attempt ended.
pub(crate) fn recovered(operation: &'static str, id: OperationId, outcome: &'static str) {
    tracing::info!(
        target: "idem",
        signal = "recovered",
        operation,
        %id,
        outcome,
        "an operation was taken over"
    );
    #[cfg(feature = "metrics")]
    metrics::counter!(RECOVERED, "operation" => operation, "outcome" => outcome).increment(1);
}

/// An operator decided.
pub(crate) fn resolved(operation: &str, id: OperationId, action: &'static str, actor: &str) {
    tracing::info!(
        target: "idem",
        signal = "resolved",
        operation,
        %id,
        action,
        actor,
        "an operator resolved an operation"
    );
    #[cfg(feature = "metrics")]
    metrics::counter!(RESOLVED, "operation" => operation.to_owned(), "action" => action)
        .increment(1);
}

/// What is not resolved, as gauges.
pub(crate) fn unresolved(unresolved: &Unresolved) {
    let _ = unresolved;
    #[cfg(feature = "metrics")]
    {
        #[allow(clippy::cast_precision_loss, reason = "gauges are floats")]
        let float = |value: u64| value as f64;
        metrics::gauge!(UNRESOLVED, "state" => "started").set(float(unresolved.started));
        metrics::gauge!(UNRESOLVED, "state" => "unknown").set(float(unresolved.unknown));
        metrics::gauge!(DUE).set(float(unresolved.due));
        metrics::gauge!(OLDEST).set(float(unresolved.oldest.unsigned_abs() / 1000));
    }
}

/// See [`super::describe`].
#[cfg(feature = "metrics")]
pub(super) fn describe() {
    use metrics::Unit::{Count, Seconds};
    for (name, description) in [
        (PARKED, "Operations that were kept as unknown."),
        (
            RECOVERED,
            "Attempts of recovery workers that ended, by their outcome.",
        ),
        (RESOLVED, "Decisions of operators, by their kind."),
    ] {
        metrics::describe_counter!(name, Count, description);
    }
    for (name, unit, description) in [
        (
            UNRESOLVED,
            Count,
            "Operations that are not completed, by their state.",
        ),
        (DUE, Count, "Operations that wait for a recovery worker."),
        (
            OLDEST,
            Seconds,
            "The age of the oldest operation that is not completed.",
        ),
    ] {
        metrics::describe_gauge!(name, unit, description);
    }
}
