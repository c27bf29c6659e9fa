//! A message between its staging and its publication.

use std::fmt;
use std::str::FromStr;
use std::time::SystemTime;

use bytes::Bytes;
use serde::{Serialize, Serializer};
use uuid::Uuid;

/// What identifies a message: drawn when it is staged, and the same at every delivery. Consumers tell a redelivery by it.
///
/// Written as a UUID (version 7) in its hyphenated form.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MessageId(Uuid);

impl MessageId {
    pub(crate) fn from_uuid(id: Uuid) -> Self {
        Self(id)
    }

    /// The UUID.
    #[must_use]
    pub fn as_uuid(&self) -> &Uuid {
        &self.0
    }
}

impl Serialize for MessageId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Not a UUID.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a message's id is a UUID, as it is listed")]
pub struct NotAMessageId;

impl FromStr for MessageId {
    type Err = NotAMessageId;

    fn from_str(text: &str) -> Result<Self, NotAMessageId> {
        Uuid::try_parse(text).map(Self).map_err(|_| NotAMessageId)
    }
}

impl fmt::Display for MessageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.hyphenated().fmt(f)
    }
}

impl fmt::Debug for MessageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MessageId({self})")
    }
}

/// A staged message, as a [`Publisher`](super::Publisher) is given it.
#[derive(Clone)]
pub struct OutboxMessage {
    pub(crate) id: MessageId,
    pub(crate) topic: String,
    pub(crate) ordering_key: Option<String>,
    pub(crate) content_type: String,
    pub(crate) payload: Bytes,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) staged_at: SystemTime,
    pub(crate) attempt: u32,
}

impl OutboxMessage {
    /// The same at every delivery.
    #[must_use]
    pub fn id(&self) -> MessageId {
        self.id
    }

    /// Where it goes: a subject, a routing key, an event's type.
    #[must_use]
    pub fn topic(&self) -> &str {
        &self.topic
    }

    /// Messages with the same key are published in the order in which they were staged; those without one in any.
    #[must_use]
    pub fn ordering_key(&self) -> Option<&str> {
        self.ordering_key.as_deref()
    }

    /// The payload's media type: `application/json` for what was serialized.
    #[must_use]
    pub fn content_type(&self) -> &str {
        &self.content_type
    }

    /// The payload as it was staged, byte for byte the same at every delivery.
    #[must_use]
    pub fn payload(&self) -> &Bytes {
        &self.payload
    }

    /// Names and values; the trace context (`traceparent`, `tracestate`) is among them where there was one.
    pub fn headers(&self) -> impl Iterator<Item = (&str, &str)> {
        self.headers
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// When it was staged, by the database's clock.
    #[must_use]
    pub fn staged_at(&self) -> SystemTime {
        self.staged_at
    }

    /// Which attempt to publish it this is: 1 for the first.
    #[must_use]
    pub fn attempt(&self) -> u32 {
        self.attempt
    }
}

impl fmt::Debug for OutboxMessage {
    /// Without payload and headers, which are the application's secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OutboxMessage")
            .field("id", &self.id)
            .field("topic", &self.topic)
            .field("attempt", &self.attempt)
            .finish_non_exhaustive()
    }
}
