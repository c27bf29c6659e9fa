//! `tx.outbox()`: messages that commit with the handler's effect.

use std::borrow::Cow;
use std::fmt::{self, Display};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use serde::Serialize;
use uuid::Builder;

use super::MessageId;
use super::lanes::lane_of;
use crate::backend::Backend;
use crate::backend::outbox::Staged;
use crate::faults;
use crate::tx::Tx;

/// The longest topic, ordering key and content type, in bytes.
const NAME: usize = 255;

/// Why a message was not staged. It comes as [`sqlx::Error::Encode`], so that `?` works wherever it works for a statement;
/// nothing was sent to the database, and the transaction goes on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NotStaged {
    /// Payload and headers are too large together.
    #[error(
        "a message for `{topic}` has {size} bytes with its headers, more than the {limit} that `max_message` allows: stage \
         a reference, or raise `IdempotencyBuilder::max_message`"
    )]
    TooLarge {
        /// Its topic.
        topic: String,
        /// In bytes.
        size: usize,
        /// In bytes.
        limit: usize,
    },
    /// The topic, the ordering key, the content type or a header can't be carried.
    #[error("a message's {what} {why}")]
    Unfit {
        /// Which part.
        what: &'static str,
        /// What is wrong with it.
        why: &'static str,
    },
    /// The payload can't be serialized.
    #[error("a message's payload can't be written as JSON: {0}")]
    Payload(#[source] serde_json::Error),
}

impl From<NotStaged> for sqlx::Error {
    fn from(error: NotStaged) -> Self {
        Self::Encode(Box::new(error))
    }
}

/// Stages messages in a handler's transaction. Made by [`Tx::outbox`].
pub struct Staging<'t, DB: Backend> {
    tx: &'t mut Tx<DB>,
}

/// A message that is being put together. Made by [`Staging::message`].
#[must_use = "a message is staged with `.stage().await`"]
pub struct MessageBuilder<'t, DB: Backend> {
    tx: &'t mut Tx<DB>,
    topic: String,
    payload: Result<Bytes, NotStaged>,
    content_type: Cow<'static, str>,
    ordering_key: Option<String>,
    headers: Vec<(String, String)>,
    delay: Option<Duration>,
}

impl<DB: Backend> Tx<DB> {
    /// The outbox: what is staged in it commits with this transaction, or not at all, and is published afterwards by a
    /// [relay](crate::outbox::Relay), at least once, with an id that stays the same.
    ///
    /// ```
    /// # #[cfg(feature = "sqlite")] mod example {
    /// use idem_runtime::Tx;
    /// use sqlx::Sqlite;
    ///
    /// #[derive(serde::Serialize)]
    /// struct OrderPlaced {
    ///     order: i64,
    /// }
    ///
    /// async fn body_of_a_handler(tx: &mut Tx<Sqlite>) -> sqlx::Result<()> {
    ///     let order = 17;
    ///     // Messages of one order are published in the order of their staging.
    ///     tx.outbox().publish("orders.placed", &order, &OrderPlaced { order }).await?;
    ///     Ok(())
    /// }
    /// # }
    /// ```
    pub fn outbox(&mut self) -> Staging<'_, DB> {
        Staging { tx: self }
    }
}

impl<'t, DB: Backend> Staging<'t, DB> {
    /// Stages a message with a payload of JSON. Messages of the same `ordering_key`, whatever their topics, are published one
    /// after the other. One statement.
    ///
    /// # Errors
    ///
    /// What the database says; [`sqlx::Error::Encode`] with [`NotStaged`] for a message that is too large or can't be written.
    ///
    /// # Cancel safety
    ///
    /// As of any statement on the transaction: dropped half way, the message is staged or not.
    pub async fn publish<P: Serialize + ?Sized>(
        self,
        topic: &str,
        ordering_key: &(impl Display + ?Sized),
        payload: &P,
    ) -> sqlx::Result<MessageId> {
        let message = self.message(topic, payload).ordering_key(ordering_key);
        message.stage().await
    }

    /// A message with a payload of JSON.
    pub fn message<P: Serialize + ?Sized>(
        self,
        topic: &str,
        payload: &P,
    ) -> MessageBuilder<'t, DB> {
        let payload = serde_json::to_vec(payload);
        let payload = payload.map(Bytes::from).map_err(NotStaged::Payload);
        self.of(topic, Cow::Borrowed("application/json"), payload)
    }

    /// A message with a payload as it is, and its media type.
    pub fn bytes(
        self,
        topic: &str,
        content_type: impl Into<Cow<'static, str>>,
        payload: impl Into<Bytes>,
    ) -> MessageBuilder<'t, DB> {
        self.of(topic, content_type.into(), Ok(payload.into()))
    }

    fn of(
        self,
        topic: &str,
        content_type: Cow<'static, str>,
        payload: Result<Bytes, NotStaged>,
    ) -> MessageBuilder<'t, DB> {
        MessageBuilder {
            tx: self.tx,
            topic: topic.to_owned(),
            payload,
            content_type,
            ordering_key: None,
            headers: Vec::new(),
            delay: None,
        }
    }
}

impl<DB: Backend> MessageBuilder<'_, DB> {
    /// Messages with the same key, whatever their topics, are published one after the other, in the order of their staging.
    /// Two transactions that stage for one key at the same time have no order, unless they write a row that both lock before.
    pub fn ordering_key(mut self, key: &(impl Display + ?Sized)) -> Self {
        self.ordering_key = Some(key.to_string());
        self
    }

    /// A header beside the trace's. One of the same name, in whatever case, is replaced.
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        let name = name.into();
        self.headers
            .retain(|(other, _)| !other.eq_ignore_ascii_case(&name));
        self.headers.push((name, value.into()));
        self
    }

    /// Not to be published before so long after its staging, by the database's clock. It has no place in the order of its
    /// key: messages that are staged later are published first.
    pub fn delay(mut self, delay: Duration) -> Self {
        self.delay = Some(delay);
        self
    }

    /// Stages it. One statement.
    ///
    /// # Errors
    ///
    /// As of [`Staging::publish`].
    ///
    /// # Cancel safety
    ///
    /// As of [`Staging::publish`].
    pub async fn stage(mut self) -> sqlx::Result<MessageId> {
        let payload = std::mem::replace(&mut self.payload, Ok(Bytes::new()))?;
        if let Some(trace) = self.tx.trace() {
            for (name, value) in trace.headers() {
                let said = |(other, _): &(String, String)| other.eq_ignore_ascii_case(name);
                if !self.headers.iter().any(said) {
                    self.headers.push((name.to_owned(), value.to_owned()));
                }
            }
        }
        self.check(&payload)?;
        let headers = if self.headers.is_empty() {
            None
        } else {
            Some(serde_json::to_string(&self.headers).map_err(NotStaged::Payload)?)
        };
        let id = new_id();
        let staged = Staged {
            id,
            topic: &self.topic,
            ordering_key: self.ordering_key.as_deref(),
            lane: lane_of(self.ordering_key.as_deref()),
            content_type: &self.content_type,
            headers: headers.as_deref(),
            payload: &payload,
            delay: self.delay,
        };
        faults::point("outbox.stage");
        self.tx.stage(&staged).await?;
        Ok(id)
    }

    fn check(&self, payload: &Bytes) -> Result<(), NotStaged> {
        if self.topic.is_empty() {
            let (what, why) = ("topic", "is empty");
            return Err(NotStaged::Unfit { what, why });
        }
        fits("topic", &self.topic)?;
        fits("content type", &self.content_type)?;
        if let Some(key) = &self.ordering_key {
            fits("ordering key", key)?;
        }
        for (name, value) in &self.headers {
            http::HeaderName::try_from(name).map_err(|_| NotStaged::Unfit {
                what: "header",
                why: "has a name that is no HTTP field name",
            })?;
            if value.chars().any(char::is_control) {
                let (what, why) = ("header", "has a control character in its value");
                return Err(NotStaged::Unfit { what, why });
            }
        }
        let headers = self.headers.iter();
        let size = payload.len()
            + headers
                .map(|(name, value)| name.len() + value.len())
                .sum::<usize>();
        let limit = self.tx.max_message();
        if size > limit {
            return Err(NotStaged::TooLarge {
                topic: self.topic.clone(),
                size,
                limit,
            });
        }
        Ok(())
    }
}

fn fits(what: &'static str, text: &str) -> Result<(), NotStaged> {
    let why = if text.len() > NAME {
        "is longer than 255 bytes"
    } else if text.chars().any(char::is_control) {
        "has a control character"
    } else {
        return Ok(());
    };
    Err(NotStaged::Unfit { what, why })
}

/// A UUID of version 7 (RFC 9562): ids that are drawn one after the other are near each other in their index.
fn new_id() -> MessageId {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let millis = now.map_or(0, |now| u64::try_from(now.as_millis()).unwrap_or(u64::MAX));
    let mut random = [0; 10];
    random.copy_from_slice(&fastrand::u128(..).to_be_bytes()[..10]);
    MessageId::from_uuid(Builder::from_unix_timestamp_millis(millis, &random).into_uuid())
}

impl<DB: Backend> fmt::Debug for Staging<'_, DB> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Staging").finish_non_exhaustive()
    }
}

impl<DB: Backend> fmt::Debug for MessageBuilder<'_, DB> {
    /// Without payload and headers, which are the application's secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MessageBuilder")
            .field("topic", &self.topic)
            .finish_non_exhaustive()
    }
}
