//! Rows of `idem_outbox` as they are read, whatever the database.

use std::time::{Duration, SystemTime};

use bytes::Bytes;
use sqlx::{ColumnIndex, Decode, Row, Type};
use uuid::Uuid;

use super::{Fetched, MessageRow};
use crate::outbox::{MessageId, MessageState, OutboxMessage};

/// Reads a column of text, which some databases keep as bytes.
type Text<R> = fn(&R, &'static str) -> sqlx::Result<Option<String>>;

/// Reads a message that is to be published. It was staged so many milliseconds after 1970 began.
pub(in crate::backend) fn fetched<R: Row>(
    row: &R,
    text: Text<R>,
    staged_at: i64,
) -> sqlx::Result<Fetched>
where
    &'static str: ColumnIndex<R>,
    for<'r> i16: Decode<'r, R::Database> + Type<R::Database>,
    for<'r> i32: Decode<'r, R::Database> + Type<R::Database>,
    for<'r> i64: Decode<'r, R::Database> + Type<R::Database>,
    for<'r> Vec<u8>: Decode<'r, R::Database> + Type<R::Database>,
{
    let attempts: i32 = row.try_get("attempts")?;
    let payload: Vec<u8> = row.try_get("payload")?;
    Ok(Fetched {
        position: row.try_get("position")?,
        lane: u8::try_from(row.try_get::<i16, _>("lane")?).unwrap_or(u8::MAX),
        state: MessageState::from_sql(row.try_get("state")?),
        message: OutboxMessage {
            id: id(row)?,
            topic: text(row, "topic")?.unwrap_or_default(),
            ordering_key: text(row, "ordering_key")?,
            content_type: text(row, "content_type")?.unwrap_or_default(),
            payload: Bytes::from(payload),
            headers: headers(text(row, "headers")?)?,
            staged_at: SystemTime::UNIX_EPOCH + Duration::from_millis(staged_at.unsigned_abs()),
            attempt: attempts.unsigned_abs().saturating_add(1),
        },
    })
}

/// Reads a message for an operator, with its payload or without.
pub(in crate::backend) fn message<R: Row>(
    row: &R,
    text: Text<R>,
    with_payload: bool,
) -> sqlx::Result<MessageRow>
where
    &'static str: ColumnIndex<R>,
    for<'r> i16: Decode<'r, R::Database> + Type<R::Database>,
    for<'r> i32: Decode<'r, R::Database> + Type<R::Database>,
    for<'r> i64: Decode<'r, R::Database> + Type<R::Database>,
    for<'r> Vec<u8>: Decode<'r, R::Database> + Type<R::Database>,
{
    let attempts: i32 = row.try_get("attempts")?;
    let payload = if with_payload {
        Some(Bytes::from(row.try_get::<Vec<u8>, _>("payload")?))
    } else {
        None
    };
    Ok(MessageRow {
        position: row.try_get("position")?,
        id: id(row)?,
        topic: text(row, "topic")?.unwrap_or_default(),
        ordering_key: text(row, "ordering_key")?,
        content_type: text(row, "content_type")?.unwrap_or_default(),
        headers: headers(text(row, "headers")?)?,
        payload,
        size: row.try_get("size")?,
        staged_at: row.try_get("staged_ms")?,
        state: MessageState::from_sql(row.try_get("state")?),
        state_at: row.try_get("state_ms")?,
        attempts: attempts.unsigned_abs(),
        reason: text(row, "reason")?,
        now: row.try_get("now_ms")?,
    })
}

fn id<R: Row>(row: &R) -> sqlx::Result<MessageId>
where
    &'static str: ColumnIndex<R>,
    for<'r> Vec<u8>: Decode<'r, R::Database> + Type<R::Database>,
{
    let id: Vec<u8> = row.try_get("id")?;
    let id = Uuid::from_slice(&id).map_err(|error| sqlx::Error::Decode(Box::new(error)))?;
    Ok(MessageId::from_uuid(id))
}

fn headers(stored: Option<String>) -> sqlx::Result<Vec<(String, String)>> {
    match stored {
        None => Ok(Vec::new()),
        Some(json) => {
            serde_json::from_str(&json).map_err(|error| sqlx::Error::Decode(Box::new(error)))
        }
    }
}
