//! `idempotency.outbox()`: what operators see of messages, and what they do with them.

use std::ops::AsyncFnOnce;
use std::time::Duration;

use bytes::Bytes;
use serde::{Serialize, Serializer};
use tokio::time::Instant;

use super::{MessageId, MessageState};
use crate::backend::Backend;
use crate::backend::operations::Audit;
use crate::backend::outbox::{Handling, MessageCounts, MessageFilter, MessageRow};
use crate::idempotency::{Idempotency, StoreError};
use crate::operations::AuditEntry;
use crate::scope::RecordId;
use crate::telemetry;

/// What went wrong.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OutboxError {
    /// There is no message of this id that is not delivered.
    #[error("there is no message {0} that is not delivered: it may have been published meanwhile")]
    NotFound(MessageId),
    /// There is nothing to requeue.
    #[error("message {0} is pending: a relay publishes it as soon as it comes to it")]
    Pending(MessageId),
    /// A decision needs to say who made it and why.
    #[error("say who decides, and why: both are kept")]
    Unsigned,
    /// The database failed.
    #[error("the outbox can't be read or written: {0}")]
    Store(#[source] Box<dyn std::error::Error + Send + Sync>),
}

impl From<StoreError> for OutboxError {
    fn from(error: StoreError) -> Self {
        Self::Store(Box::new(error))
    }
}

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

/// See the [module](super). Made by [`Idempotency::outbox`].
#[derive(Debug)]
pub struct Outbox<DB: Backend> {
    idempotency: Idempotency<DB>,
}

impl<DB: Backend> Clone for Outbox<DB> {
    fn clone(&self) -> Self {
        Self {
            idempotency: self.idempotency.clone(),
        }
    }
}

impl<DB: Backend> Idempotency<DB> {
    /// The messages of the outbox, for operators: looking changes nothing, and a decision is kept with who made it and why.
    #[must_use]
    pub fn outbox(&self) -> Outbox<DB> {
        Outbox {
            idempotency: self.clone(),
        }
    }
}

impl<DB: Backend> Outbox<DB> {
    /// Lists messages, in the order of their staging.
    ///
    /// # Errors
    ///
    /// [`OutboxError::Store`].
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub async fn list(&self, messages: &Messages) -> Result<Vec<MessageSummary>, OutboxError> {
        let filter = MessageFilter {
            state: messages.state,
            topic: messages.topic.as_deref(),
            ordering_key: messages.ordering_key.as_deref(),
            after: messages.after,
            limit: messages.limit,
        };
        let rows = self
            .read(async |connection: &mut DB::Connection| DB::messages(connection, &filter).await)
            .await?;
        Ok(rows.into_iter().map(|row| summary(row).0).collect())
    }

    /// One message; `None` if there is none of this id, because it was delivered and is not kept, or was dropped.
    ///
    /// # Errors
    ///
    /// [`OutboxError::Store`].
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub async fn inspect(&self, id: MessageId) -> Result<Option<MessageDetail>, OutboxError> {
        let row = self
            .read(async |connection: &mut DB::Connection| DB::message(connection, id).await)
            .await?;
        let Some(row) = row else {
            return Ok(None);
        };
        let (summary, content_type, headers, payload) = summary(row);
        Ok(Some(MessageDetail {
            summary,
            content_type,
            headers,
            payload: payload.unwrap_or_default(),
            audit: self.audit(id).await?,
        }))
    }

    /// What operators did with a message, the oldest first. Kept when the message is gone.
    ///
    /// # Errors
    ///
    /// [`OutboxError::Store`].
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub async fn audit(&self, id: MessageId) -> Result<Vec<AuditEntry>, OutboxError> {
        let record = audited(id);
        let rows = self
            .read(async |connection: &mut DB::Connection| DB::audit(connection, &record).await)
            .await?;
        Ok(rows.into_iter().map(AuditEntry::of).collect())
    }

    /// Counts the messages. It reads each row's state: not for every second.
    ///
    /// # Errors
    ///
    /// [`OutboxError::Store`].
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub async fn counts(&self) -> Result<OutboxCounts, OutboxError> {
        let MessageCounts {
            pending,
            delayed,
            failed,
            delivered,
            dead,
            oldest,
        } = self
            .read(async |connection: &mut DB::Connection| DB::count_messages(connection).await)
            .await?;
        Ok(OutboxCounts {
            pending,
            delayed,
            failed,
            delivered,
            dead,
            oldest: Duration::from_millis(oldest.unsigned_abs()),
        })
    }

    /// Has a message published at once: a dead letter, one that failed, or a delayed one. Its attempts begin at zero. A dead
    /// letter has lost its place in the order of its key: what followed it has gone.
    ///
    /// # Errors
    ///
    /// [`OutboxError`]; nothing is changed then.
    ///
    /// # Cancel safety
    ///
    /// Not cancel safe: whether it was requeued is not known. To do it again does no harm.
    pub async fn requeue(
        &self,
        id: MessageId,
        actor: &str,
        reason: &str,
    ) -> Result<(), OutboxError> {
        self.handle(id, Handling::Requeue, actor, reason).await
    }

    /// Deletes a message that is not delivered. If it is being published at this moment it may be delivered all the same.
    ///
    /// # Errors
    ///
    /// [`OutboxError`]; nothing is changed then.
    ///
    /// # Cancel safety
    ///
    /// Not cancel safe: whether it was dropped is not known. To do it again does no harm.
    pub async fn drop_message(
        &self,
        id: MessageId,
        actor: &str,
        reason: &str,
    ) -> Result<(), OutboxError> {
        self.handle(id, Handling::Drop, actor, reason).await
    }

    async fn handle(
        &self,
        id: MessageId,
        handling: Handling,
        actor: &str,
        reason: &str,
    ) -> Result<(), OutboxError> {
        if actor.trim().is_empty() || reason.trim().is_empty() {
            return Err(OutboxError::Unsigned);
        }
        let limit = self.limit();
        let mut alone = self.idempotency.alone(limit).await?;
        // What is gone can't be looked up any more: the audit says what it was.
        let found = alone
            .run(limit, async |connection: &mut DB::Connection| {
                DB::message(connection, id).await
            })
            .await?;
        let row = found.ok_or(OutboxError::NotFound(id))?;
        match row.state {
            MessageState::Delivered => return Err(OutboxError::NotFound(id)),
            MessageState::Pending if handling == Handling::Requeue => {
                return Err(OutboxError::Pending(id));
            }
            _ => {}
        }
        let detail = serde_json::json!({
            "topic": row.topic,
            "state": row.state,
            "attempts": row.attempts,
        });
        let detail = detail.to_string();
        let action = match handling {
            Handling::Requeue => "requeue",
            Handling::Drop => "drop",
        };
        let audit = Audit {
            actor,
            action,
            reason,
            detail: Some(&detail),
        };
        let handled = alone
            .run(limit, async |connection: &mut DB::Connection| {
                DB::handle(connection, id, handling, &audit).await
            })
            .await?;
        if !handled {
            return Err(OutboxError::NotFound(id));
        }
        telemetry::outbox::handled(id, action, actor);
        self.idempotency.shared.staged.send_replace(());
        Ok(())
    }

    async fn read<T>(
        &self,
        part: impl AsyncFnOnce(&mut DB::Connection) -> sqlx::Result<T>,
    ) -> Result<T, OutboxError> {
        let limit = self.limit();
        let mut alone = self.idempotency.reading(limit).await?;
        Ok(alone.run(limit, part).await?)
    }

    fn limit(&self) -> Instant {
        Instant::now() + self.idempotency.shared.settings.store_timeout
    }
}

/// What the audit knows a message by: keys are known there by a digest of 32 bytes.
pub(crate) fn audited(id: MessageId) -> RecordId {
    RecordId::of_message(id.as_uuid())
}

fn summary(row: MessageRow) -> (MessageSummary, String, Vec<(String, String)>, Option<Bytes>) {
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
