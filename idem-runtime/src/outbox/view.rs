//! What operators see of messages.

use std::time::Duration;

use bytes::Bytes;
use serde::{Serialize, Serializer};

use super::{MessageId, MessageState};
use crate::backend::outbox::{MessageFilter, MessageRow};
use crate::operations::AuditEntry;

/// Which messages to list. Made by [`Messages::all`].
#[derive(Clone, Debug)]
#[must_use]
pub struct Messages {
    state: Option<MessageState>,
    topic: Option<String>,
    ordering_key: Option<String>,
    after: Option<i64>,
    limit: u32,
}

impl Messages {
    /// All, a hundred at once.
    pub fn all() -> Self {
        Self {
            state: None,
            topic: None,
            ordering_key: None,
            after: None,
            limit: 100,
        }
    }

    /// Those in one state.
    pub fn state(mut self, state: MessageState) -> Self {
        self.state = Some(state);
        self
    }

    /// Those of one topic.
    pub fn topic(mut self, topic: impl Into<String>) -> Self {
        self.topic = Some(topic.into());
        self
    }

    /// Those of one ordering key.
    pub fn ordering_key(mut self, key: impl Into<String>) -> Self {
        self.ordering_key = Some(key.into());
        self
    }

    /// Those that follow one of the page before.
    pub fn after(mut self, last: &MessageSummary) -> Self {
        self.after = Some(last.position);
        self
    }

    /// At most so many.
    pub fn limit(mut self, messages: u32) -> Self {
        self.limit = messages.max(1);
        self
    }

    /// As the store is asked.
    pub(super) fn filter(&self) -> MessageFilter<'_> {
        MessageFilter {
            state: self.state,
            topic: self.topic.as_deref(),
            ordering_key: self.ordering_key.as_deref(),
            after: self.after,
            limit: self.limit,
        }
    }
}

/// A message as it is listed. Times are milliseconds since 1970, by the database's clock.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct MessageSummary {
    /// The same at every delivery.
    pub id: MessageId,
    /// Where it goes.
    pub topic: String,
    /// What it is in order with.
    pub ordering_key: Option<String>,
    /// Where it stands.
    pub state: MessageState,
    /// How often its publishing was tried.
    pub attempts: u32,
    /// Why the last attempt failed.
    pub reason: Option<String>,
    /// When it was staged.
    pub staged_at: i64,
    /// Until when it waits, if it is delayed or failed; since when it is so, if it is delivered or dead.
    pub state_at: i64,
    /// The payload's, in bytes.
    pub size: u64,
    /// The moment at which this was read.
    pub now: i64,
    #[serde(skip)]
    position: i64,
}

/// A message with all that is known of it.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct MessageDetail {
    /// As it is listed.
    #[serde(flatten)]
    pub summary: MessageSummary,
    /// The payload's media type.
    pub content_type: String,
    /// Names and values.
    pub headers: Vec<(String, String)>,
    /// Byte for byte. Serialized as text; what is not UTF-8 is replaced.
    #[serde(serialize_with = "as_text")]
    pub payload: Bytes,
    /// What operators did with it, the oldest first.
    pub audit: Vec<AuditEntry>,
}

fn as_text<S: Serializer>(payload: &Bytes, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&String::from_utf8_lossy(payload))
}

/// How many messages there are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct OutboxCounts {
    /// To be published as soon as a relay comes to them.
    pub pending: u64,
    /// To be published later.
    pub delayed: u64,
    /// To be tried again.
    pub failed: u64,
    /// Delivered, and kept.
    pub delivered: u64,
    /// Dead letters.
    pub dead: u64,
    /// The age of the oldest that is pending or failed; zero if there is none.
    #[serde(skip)]
    pub oldest: Duration,
}

/// Its parts, as they are listed and shown.
pub(super) fn summary(
    row: MessageRow,
) -> (MessageSummary, String, Vec<(String, String)>, Option<Bytes>) {
    let summary = MessageSummary {
        id: row.id,
        topic: row.topic,
        ordering_key: row.ordering_key,
        state: row.state,
        attempts: row.attempts,
        reason: row.reason,
        staged_at: row.staged_at,
        state_at: row.state_at,
        size: row.size.unsigned_abs(),
        now: row.now,
        position: row.position,
    };
    (summary, row.content_type, row.headers, row.payload)
}
