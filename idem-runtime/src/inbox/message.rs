//! A message as a broker delivered it, and as a consumer takes it.

use std::fmt;
use std::ops::Deref;

use bytes::Bytes;

/// A message as it was delivered: what a [`Source`](super::Source) makes. A consumer may take it too, for payloads that are no
/// JSON.
#[derive(Clone)]
pub struct Incoming {
    topic: String,
    payload: Bytes,
    headers: Vec<(String, String)>,
    message_id: Option<String>,
    broker_id: Option<String>,
    delivery: u32,
    uncounted: bool,
}

impl Incoming {
    /// A message of a topic, which was not delivered before.
    #[must_use]
    pub fn new(topic: impl Into<String>, payload: impl Into<Bytes>) -> Self {
        Self {
            topic: topic.into(),
            payload: payload.into(),
            headers: Vec::new(),
            message_id: None,
            broker_id: None,
            delivery: 1,
            uncounted: false,
        }
    }

    /// With the id that its publisher gave it: the same at every publication.
    #[must_use]
    pub fn with_message_id(mut self, id: impl Into<String>) -> Self {
        self.message_id = Some(id.into());
        self
    }

    /// With the id that the broker gave it: the same at every delivery, and another when it is published again.
    #[must_use]
    pub fn with_broker_id(mut self, id: impl Into<String>) -> Self {
        self.broker_id = Some(id.into());
        self
    }

    /// With a header.
    #[must_use]
    pub fn with_header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    /// Delivered for the `number`th time; 1 is the first.
    #[must_use]
    pub fn with_delivery(mut self, number: u32) -> Self {
        self.delivery = number.max(1);
        self
    }

    /// Delivered before, by a broker that does not say how often.
    #[must_use]
    pub fn with_uncounted_deliveries(mut self) -> Self {
        self.uncounted = true;
        self
    }

    /// Where it was published to: a subject, a routing key.
    #[must_use]
    pub fn topic(&self) -> &str {
        &self.topic
    }

    /// As it was published.
    #[must_use]
    pub fn payload(&self) -> &Bytes {
        &self.payload
    }

    /// Names and values.
    pub fn headers(&self) -> impl Iterator<Item = (&str, &str)> {
        self.headers
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// The first header of a name, in whatever case.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers()
            .find_map(|(known, value)| known.eq_ignore_ascii_case(name).then_some(value))
    }

    /// The id that its publisher gave it.
    #[must_use]
    pub fn message_id(&self) -> Option<&str> {
        self.message_id.as_deref()
    }

    /// The id that the broker gave it.
    #[must_use]
    pub fn broker_id(&self) -> Option<&str> {
        self.broker_id.as_deref()
    }

    /// For which time it was delivered, where the broker says so; 1 is the first.
    #[must_use]
    pub fn delivery(&self) -> u32 {
        self.delivery
    }

    /// Whether it was delivered before by a broker that does not say how often.
    #[must_use]
    pub fn has_uncounted_deliveries(&self) -> bool {
        self.uncounted
    }
}

impl fmt::Debug for Incoming {
    /// Without payload and headers, which are the application's secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Incoming")
            .field("topic", &self.topic)
            .field("message_id", &self.message_id)
            .field("broker_id", &self.broker_id)
            .field("delivery", &self.delivery)
            .finish_non_exhaustive()
    }
}

/// A message with its payload read from JSON: what a consumer takes. It derefs to the payload.
#[derive(Clone)]
pub struct Message<T> {
    /// What was published.
    pub payload: T,
    /// As it was delivered.
    pub incoming: Incoming,
}

impl<T> Message<T> {
    /// A message with this payload, for tests of a consumer.
    #[must_use]
    pub fn new(payload: T, incoming: Incoming) -> Self {
        Self { payload, incoming }
    }

    /// What was published.
    #[must_use]
    pub fn into_payload(self) -> T {
        self.payload
    }
}

impl<T> Deref for Message<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.payload
    }
}

impl<T> fmt::Debug for Message<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Message")
            .field("incoming", &self.incoming)
            .finish_non_exhaustive()
    }
}
