//! A message of a stream, and what becomes of it.

use std::fmt;
use std::time::Duration;

use async_nats::HeaderMap;
use async_nats::jetstream::message::Acker;
use async_nats::jetstream::{self, AckKind, Context};

use crate::inbox::message::Incoming;
use crate::inbox::source::{Delivery, SourceError};

/// The id that a dead letter had, under which it is known where it is published again.
const MESSAGE_ID: &str = "Idem-Message-Id";
/// The id by which JetStream itself tells publications, which our outbox sets.
const NATS_MESSAGE_ID: &str = "Nats-Msg-Id";

/// A message of a [`JetStream`](super::JetStream).
pub struct JetStreamDelivery {
    incoming: Incoming,
    headers: HeaderMap,
    acker: Acker,
    context: Context,
    dead_letters: String,
    stream: String,
    sequence: u64,
}

impl JetStreamDelivery {
    /// `None` for what is no message of a stream.
    pub(super) fn new(message: jetstream::Message, dead_letters: &str) -> Option<Self> {
        let context = message.context.clone();
        let (stream, sequence, delivered, published) = {
            let info = message.info().ok()?;
            let published = info.published.unix_timestamp_nanos();
            (
                info.stream.to_owned(),
                info.stream_sequence,
                info.delivered,
                published,
            )
        };
        let (message, acker) = message.split();
        let headers = message.headers.unwrap_or_default();
        let id = headers
            .get(MESSAGE_ID)
            .or_else(|| headers.get(NATS_MESSAGE_ID));
        let mut incoming = Incoming::new(message.subject.as_str(), message.payload)
            .with_broker_id(format!("{stream}/{sequence}/{published}"))
            .with_delivery(u32::try_from(delivered).unwrap_or(u32::MAX));
        if let Some(id) = id {
            incoming = incoming.with_message_id(id.as_str());
        }
        for (name, values) in headers.iter() {
            for value in values {
                incoming = incoming.with_header(name.to_string(), value.as_str());
            }
        }
        Some(Self {
            incoming,
            headers,
            acker,
            context,
            dead_letters: dead_letters.to_owned(),
            stream,
            sequence,
        })
    }

    async fn tell(&self, kind: AckKind) -> Result<(), SourceError> {
        let told = self.acker.double_ack_with(kind).await;
        told.map_err(SourceError::Unavailable)
    }

    /// The message's headers and the reason. Headers that tell the server how to store are not for another stream.
    fn dead_letter_headers(&self, reason: &str) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, values) in self.headers.iter() {
            let name = name.to_string();
            let control = name
                .get(..5)
                .is_some_and(|start| start.eq_ignore_ascii_case("nats-"));
            for value in values.iter().filter(|_| !control) {
                headers.append(name.as_str(), value.clone());
            }
        }
        let (sequence, delivery) = (
            self.sequence.to_string(),
            self.incoming.delivery().to_string(),
        );
        // A line break would end the header.
        let reason = reason.replace(['\r', '\n'], " ");
        headers.insert("Idem-Reason", reason.as_str());
        headers.insert("Idem-Subject", self.incoming.topic());
        headers.insert("Idem-Stream", self.stream.as_str());
        headers.insert("Idem-Sequence", sequence.as_str());
        headers.insert("Idem-Deliveries", delivery.as_str());
        if let Some(id) = self.incoming.message_id() {
            headers.insert(MESSAGE_ID, id);
        }
        headers
    }
}

impl Delivery for JetStreamDelivery {
    fn message(&self) -> &Incoming {
        &self.incoming
    }

    async fn acknowledge(&mut self) -> Result<(), SourceError> {
        self.tell(AckKind::Ack).await
    }

    async fn extend(&mut self) -> Result<(), SourceError> {
        let extended = self.acker.ack_with(AckKind::Progress).await;
        extended.map_err(SourceError::Unavailable)
    }

    async fn retry(&mut self, after: Duration) -> Result<(), SourceError> {
        let after = (!after.is_zero()).then_some(after);
        self.tell(AckKind::Nak(after)).await
    }

    async fn dead_letter(&mut self, reason: &str) -> Result<(), SourceError> {
        let headers = self.dead_letter_headers(reason);
        let payload = self.incoming.payload().clone();
        let subject = self.dead_letters.clone();
        let published = self
            .context
            .publish_with_headers(subject, headers, payload)
            .await;
        let stored = published.map_err(SourceError::unavailable)?;
        stored.await.map_err(SourceError::unavailable)?;
        self.tell(AckKind::Term).await
    }
}

impl fmt::Debug for JetStreamDelivery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JetStreamDelivery")
            .field("incoming", &self.incoming)
            .finish_non_exhaustive()
    }
}
