//! A message made ready for the wire, with whom to tell what became of it.

use std::time::UNIX_EPOCH;

use bytes::Bytes;
use lapin::BasicProperties;
use lapin::types::{AMQPValue, FieldTable, LongString, ShortString};
use tokio::sync::oneshot;

use crate::outbox::{OutboxMessage, PublishError};

/// A content header is one frame, and a frame has 128 KiB unless the broker says otherwise.
const LONGEST_HEADERS: usize = 64 * 1024;

/// Kept on disk by a durable queue.
const PERSISTENT: u8 = 2;

pub(super) type Answer = oneshot::Sender<Result<(), PublishError>>;

pub(super) struct Parcel {
    pub(super) id: String,
    pub(super) routing_key: ShortString,
    pub(super) properties: BasicProperties,
    pub(super) payload: Bytes,
    pub(super) answer: Answer,
}

impl Parcel {
    /// Everything is refused here that lapin would panic at, or that the broker would close the channel for.
    pub(super) fn new(
        message: &OutboxMessage,
        routing_key: String,
        max_payload: usize,
        answer: Answer,
    ) -> Result<Parcel, PublishError> {
        let id = message.id().to_string();
        let payload = message.payload().clone();
        if payload.len() > max_payload {
            let reason = format!("{} bytes of payload, {max_payload} at most", payload.len());
            return Err(PublishError::Rejected(reason.into()));
        }
        let staged_at = message.staged_at().duration_since(UNIX_EPOCH);
        let properties = BasicProperties::default()
            .with_message_id(id.as_str().into())
            .with_content_type(short("content type", message.content_type())?)
            .with_delivery_mode(PERSISTENT)
            .with_timestamp(staged_at.unwrap_or_default().as_secs())
            .with_headers(headers(message)?);
        Ok(Parcel {
            id,
            routing_key: short("routing key", &routing_key)?,
            properties,
            payload,
            answer,
        })
    }
}

fn headers(message: &OutboxMessage) -> Result<FieldTable, PublishError> {
    let mut table = FieldTable::default();
    let mut size = 0;
    for (name, value) in message.headers() {
        // Lists of further routing keys: anything else under these names closes the channel.
        if matches!(name, "CC" | "BCC") {
            let reason = format!("RabbitMQ keeps the header {name} for itself");
            return Err(PublishError::Rejected(reason.into()));
        }
        size += name.len() + value.len() + 6;
        let value = AMQPValue::LongString(LongString::from(value.as_bytes()));
        table.insert(short("name of a header", name)?, value);
    }
    if size > LONGEST_HEADERS {
        let reason = format!("{size} bytes of headers, {LONGEST_HEADERS} at most");
        return Err(PublishError::Rejected(reason.into()));
    }
    Ok(table)
}

fn short(what: &str, text: &str) -> Result<ShortString, PublishError> {
    ShortString::try_new(text)
        .map_err(|error| PublishError::Rejected(format!("the {what}: {error}").into()))
}
