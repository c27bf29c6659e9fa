//! `idempotency.outbox()`: what operators see of messages, and what they do with them.

use std::ops::AsyncFnOnce;
use std::time::Duration;

use tokio::time::Instant;

use super::view::summary;
use super::{MessageDetail, MessageId, MessageState, MessageSummary, Messages, OutboxCounts};
use crate::backend::Backend;
use crate::backend::operations::Audit;
use crate::backend::outbox::{Handling, MessageCounts};
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
        let filter = messages.filter();
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
    RecordId::of_staged(id.as_uuid())
}
