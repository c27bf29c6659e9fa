//! What happened to messages of the outbox.

use std::time::Duration;

use crate::backend::outbox::MessageCounts;
use crate::outbox::{MessageId, OutboxMessage};

/// How many messages were committed.
#[cfg(feature = "metrics")]
const STAGED: &str = "idempotency_outbox_staged_total";
/// How many attempts to publish ended, by their outcome.
#[cfg(feature = "metrics")]
const PUBLISHED: &str = "idempotency_outbox_published_total";
/// How many messages there are, by their state.
#[cfg(feature = "metrics")]
const MESSAGES: &str = "idempotency_outbox_messages";
/// The age of the oldest that is to be published.
#[cfg(feature = "metrics")]
const OLDEST: &str = "idempotency_outbox_oldest_seconds";

/// Messages were committed.
pub(crate) fn staged(messages: u64) {
    let _ = messages;
    #[cfg(feature = "metrics")]
    metrics::counter!(STAGED).increment(messages);
}

/// A publisher confirmed a message.
pub(crate) fn delivered() {
    #[cfg(feature = "metrics")]
    metrics::counter!(PUBLISHED, "outcome" => "delivered").increment(1);
}

/// An attempt failed. `delay`: until the next; `None`: there will be none.
pub(crate) fn failed(message: &OutboxMessage, reason: &str, delay: Option<Duration>) {
    let (id, topic, attempt) = (message.id(), message.topic(), message.attempt());
    match delay {
        Some(delay) => tracing::warn!(
            target: "idem",
            signal = "message_failed",
            %id,
            topic,
            attempt,
            reason,
            delay_seconds = delay.as_secs_f64(),
            "a message could not be published; it is tried again later"
        ),
        None => tracing::error!(
            target: "idem",
            signal = "message_dead",
            %id,
            topic,
            attempt,
            reason,
            "a message is a dead letter until somebody requeues or drops it"
        ),
    }
    #[cfg(feature = "metrics")]
    {
        let outcome = if delay.is_some() { "failed" } else { "dead" };
        metrics::counter!(PUBLISHED, "outcome" => outcome).increment(1);
    }
}

/// A publisher takes nothing for a while.
pub(crate) fn paused(prefix: &str, reason: &str, pause: Duration) {
    tracing::warn!(
        target: "idem",
        signal = "publisher_paused",
        prefix,
        reason,
        pause_seconds = pause.as_secs_f64(),
        "a publisher is out of reach; its messages wait"
    );
}

/// An operator decided.
pub(crate) fn handled(id: MessageId, action: &'static str, actor: &str) {
    tracing::info!(
        target: "idem",
        signal = "message_handled",
        %id,
        action,
        actor,
        "an operator handled a message"
    );
}

/// What there is, as gauges.
pub(crate) fn counted(counts: &MessageCounts) {
    let _ = counts;
    #[cfg(feature = "metrics")]
    {
        #[allow(clippy::cast_precision_loss, reason = "gauges are floats")]
        let float = |value: u64| value as f64;
        for (state, number) in [
            ("pending", counts.pending),
            ("delayed", counts.delayed),
            ("failed", counts.failed),
            ("delivered", counts.delivered),
            ("dead", counts.dead),
        ] {
            metrics::gauge!(MESSAGES, "state" => state).set(float(number));
        }
        metrics::gauge!(OLDEST).set(float(counts.oldest.unsigned_abs() / 1000));
    }
}

/// See [`super::describe`].
#[cfg(feature = "metrics")]
pub(super) fn describe() {
    use metrics::Unit::{Count, Seconds};
    metrics::describe_counter!(STAGED, Count, "Messages that were committed to the outbox.");
    metrics::describe_counter!(
        PUBLISHED,
        Count,
        "Attempts to publish a message of the outbox, by their outcome."
    );
    metrics::describe_gauge!(MESSAGES, Count, "Messages in the outbox, by their state.");
    metrics::describe_gauge!(
        OLDEST,
        Seconds,
        "The age of the oldest message that is to be published."
    );
}
