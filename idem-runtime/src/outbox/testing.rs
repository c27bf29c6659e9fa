//! Messages for tests of a publisher.

use std::time::SystemTime;

use bytes::Bytes;
use uuid::Uuid;

use super::{MessageId, OutboxMessage};

/// With the feature `testing`: a message without a database, for the test of a [`Publisher`](super::Publisher).
impl OutboxMessage {
    /// A JSON message, staged now, at its first attempt.
    #[must_use]
    pub fn for_test(id: Uuid, topic: impl Into<String>, payload: impl Into<Bytes>) -> Self {
        Self {
            id: MessageId::from_uuid(id),
            topic: topic.into(),
            ordering_key: None,
            content_type: "application/json".to_owned(),
            payload: payload.into(),
            headers: Vec::new(),
            staged_at: SystemTime::now(),
            attempt: 1,
        }
    }

    /// The same with another header.
    #[must_use]
    pub fn with_header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    /// The same with another content type.
    #[must_use]
    pub fn with_content_type(mut self, content_type: impl Into<String>) -> Self {
        self.content_type = content_type.into();
        self
    }
}
