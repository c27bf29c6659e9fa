//! Messages, and a loop in the relay's place.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::{StreamExt as _, stream};
use idem_runtime::outbox::{OutboxMessage, PublishError, Publisher};
use idem_tests::wait::{PATIENCE, until};
use uuid::Uuid;

/// A name that no other test has, good as part of a subject, a queue and a stream.
pub(crate) fn fresh_name() -> String {
    format!("t{}", Uuid::new_v4().simple())
}

pub(crate) fn message(topic: &str) -> OutboxMessage {
    OutboxMessage::for_test(Uuid::now_v7(), topic, r#"{"order":1}"#)
}

pub(crate) fn messages(topic: &str, count: usize) -> Vec<OutboxMessage> {
    (0..count)
        .map(|n| OutboxMessage::for_test(Uuid::now_v7(), topic, format!(r#"{{"n":{n}}}"#)))
        .collect()
}

pub(crate) fn ids(messages: &[OutboxMessage]) -> BTreeSet<String> {
    messages.iter().map(|one| one.id().to_string()).collect()
}

/// What a relay does about failures, without a database: it tries again. It remembers how many it counts as published, and what
/// went wrong.
#[derive(Default)]
pub(crate) struct Relay {
    published: AtomicUsize,
    unconfirmed: AtomicUsize,
    unavailable: AtomicUsize,
}

impl Relay {
    /// Publishes all of them, many at a time, each until it is published.
    pub(crate) async fn deliver(&self, publisher: &impl Publisher, messages: &[OutboxMessage]) {
        stream::iter(messages)
            .for_each_concurrent(64, async |message| {
                until("a message is published", PATIENCE * 3, async || {
                    self.attempt(publisher, message).await
                })
                .await;
            })
            .await;
    }

    async fn attempt(&self, publisher: &impl Publisher, message: &OutboxMessage) -> bool {
        let attempt = tokio::time::timeout(Duration::from_secs(10), publisher.publish(message));
        let counted = match attempt.await {
            Ok(Ok(())) => {
                self.published.fetch_add(1, Ordering::SeqCst);
                return true;
            }
            Ok(Err(PublishError::Unavailable(_))) => &self.unavailable,
            Ok(Err(PublishError::Unconfirmed(_))) | Err(_) => &self.unconfirmed,
            // A stream that a restarted broker has not read yet.
            Ok(Err(PublishError::Failed(_))) => return false,
            Ok(Err(error)) => panic!("{error}"),
        };
        counted.fetch_add(1, Ordering::SeqCst);
        false
    }

    pub(crate) fn published(&self) -> usize {
        self.published.load(Ordering::SeqCst)
    }

    pub(crate) fn unconfirmed(&self) -> usize {
        self.unconfirmed.load(Ordering::SeqCst)
    }

    pub(crate) fn unavailable(&self) -> usize {
        self.unavailable.load(Ordering::SeqCst)
    }
}

/// That it failed as `kind` says, with a reason that contains `part`.
#[macro_export]
macro_rules! assert_failed {
    ($result:expr, $kind:ident, $part:expr) => {{
        let result = $result;
        match &result {
            Err(idem_runtime::outbox::PublishError::$kind(reason))
                if reason.to_string().contains($part) => {}
            _ => panic!(
                "expected {} because of {:?}: {result:?}",
                stringify!($kind),
                $part
            ),
        }
    }};
}
