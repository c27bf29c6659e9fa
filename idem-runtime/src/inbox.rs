//! Consumers: a message that a broker delivers again has its effect once.
//!
//! A broker delivers at least once: when an acknowledgement is lost, a process dies, or a time-out passes, the same message
//! comes again. The inbox keeps one row a message and consumer, which commits in one transaction with what the consumer
//! wrote. A duplicate finds the row and is acknowledged without running; a failure leaves no row. So there is **one effect
//! in the consumer's database, for as long as the `ttl`**. What a consumer does elsewhere is not covered, and does not
//! compile where the types show it.
//!
#![cfg_attr(feature = "sqlite", doc = "```")]
#![cfg_attr(not(feature = "sqlite"), doc = "```ignore")]
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use idem_runtime::Idempotency;
//! use idem_runtime::inbox::Processed;
//! use sqlx::sqlite::SqlitePoolOptions;
//!
//! let pool = SqlitePoolOptions::new().max_connections(1).connect("sqlite::memory:").await?;
//! sqlx::query("CREATE TABLE ledger (order_id INTEGER)").execute(&pool).await?;
//! let idempotency = Idempotency::new(pool.clone());
//! idempotency.migrate().await?;
//! let inbox = idempotency.inbox();
//!
//! // The acknowledgement got lost, and the broker delivers the message again.
//! for expected in [Processed::Done(()), Processed::Duplicate] {
//!     let processed = inbox
//!         .process("ledger", "orders", "018f6e52-7c1e-7aa0-8f6f-0c1d2e3f4a5b", async |tx| {
//!             sqlx::query("INSERT INTO ledger VALUES (42)").execute(&mut *tx).await?;
//!             Ok::<_, sqlx::Error>(())
//!         })
//!         .await?;
//!     assert_eq!(processed, expected);
//! }
//! let rows: i64 = sqlx::query_scalar("SELECT count(*) FROM ledger").fetch_one(&pool).await?;
//! assert_eq!(rows, 1);
//! # Ok(())
//! # }
//! ```
//!
//! [`macro@consumer`](crate::consumer) annotates a function as a consumer, which [`Consumers`] runs for what a [`Source`]
//! delivers: NATS JetStream (`nats`), AMQP (`amqp`), or one of your own.
//!
//! # What identifies a message
//!
//! The id must be the same at every delivery, and another for another message. By default it is the one that this library's
//! outbox publishers set: `Nats-Msg-Id`, AMQP's `message-id`, `webhook-id`. `id = "event_id"` takes a field of the payload.
//! An id that the broker assigns (a stream's sequence number) is new when a publisher publishes again, so that only
//! redeliveries are told by it: it is used where `id = "broker"` is written. A message without an id, or with an empty one,
//! is refused and never taken for another.
//!
//! # For how long
//!
//! A row stays for the `ttl`, from the processing. A message that is delivered again later runs again. So the `ttl` must be
//! at least as long as the broker may deliver a message again, which is checked at the start where the broker says it.

#[cfg(feature = "amqp")]
pub mod amqp;
mod arguments;
mod attempt;
pub(crate) mod consumer;
mod consumers;
mod errors;
mod identity;
mod message;
#[cfg(feature = "nats")]
pub mod nats;
mod source;
mod suspects;
pub(crate) mod verdict;
mod worker;

use std::error::Error;
use std::fmt;
use std::time::Duration;

pub use self::arguments::{FromMessage, MessageArguments, Unreadable};
use self::attempt::{Attempt, Begun, Body, Ended};
pub use self::consumer::{Consumer, ConsumerHandler, ConsumerSpec, ConsumesWith, MessageIdentity};
pub use self::consumers::{Consumers, ConsumersError, ConsumersHandle};
pub use self::errors::{IdentityError, InboxError};
pub(crate) use self::identity::Identity;
pub use self::message::{Incoming, Message};
pub use self::source::{Delivery, Horizon, Redelivery, Source, SourceError};
use crate::backend::Backend;
use crate::idempotency::Idempotency;
use crate::tx::Tx;

/// How long a message is remembered, unless said.
pub(crate) const TTL: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// What became of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Processed<T> {
    /// Its consumer ran, and what it wrote is committed.
    Done(T),
    /// It was processed before: nothing ran.
    Duplicate,
}

/// Processes messages once. Made by [`Idempotency::inbox`].
pub struct Inbox<DB: Backend> {
    idempotency: Idempotency<DB>,
    ttl: Duration,
    timeout: Duration,
}

impl<DB: Backend> Idempotency<DB> {
    /// The inbox: what consumers of messages are run by.
    #[must_use]
    pub fn inbox(&self) -> Inbox<DB> {
        Inbox {
            ttl: TTL,
            timeout: self.shared.settings.timeout,
            idempotency: self.clone(),
        }
    }
}

impl<DB: Backend> Inbox<DB> {
    /// How long a message is remembered, from its processing: 7 days unless said. At least as long as it may be delivered again.
    #[must_use]
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.ttl = ttl;
        self
    }

    /// How long one run may take: the builder's [`timeout`](crate::IdempotencyBuilder::timeout) unless said. Shorter than the
    /// time after which the broker delivers the message again.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Runs `body` in a transaction, unless this consumer has processed this message before. The message's row, and all that
    /// the body writes through its `tx`, commit together. Acknowledge the message when this has returned `Ok`, and not
    /// before; after an error let the broker deliver it again.
    ///
    /// `consumer` and `source` are stable names, of 255 bytes at most: a message is the same for the same three. The body may
    /// run several times, after a serialization failure, a deadlock, or a lost commit; what it wrote in a run that did not commit
    /// is gone. So it is cloned for each run, and can't change what it captures.
    ///
    /// # Errors
    ///
    /// What the body returns, or an [`InboxError`]: the message has no id, another process works on it, or the store failed. Nothing
    /// is written then and nothing remembered, but for [`InboxError::TransactionEnded`] and
    /// [`InboxError::EffectOutsideTransaction`].
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: a future that is dropped rolls back, or has committed.
    pub async fn process<T, E, F>(
        &self,
        consumer: &str,
        source: &str,
        id: impl AsRef<[u8]>,
        body: F,
    ) -> Result<Processed<T>, E>
    where
        F: AsyncFnOnce(&mut Tx<DB>) -> Result<T, E> + Clone,
        E: Error + From<InboxError> + 'static,
    {
        let identity =
            Identity::new(consumer, source, Some(id.as_ref())).map_err(InboxError::Identity)?;
        let mut attempt = Attempt::new(&self.idempotency, identity, self.ttl, self.timeout);
        loop {
            let mut tx = match attempt.begin().await? {
                Begun::Won(tx) => tx,
                Begun::Duplicate => return Ok(Processed::Duplicate),
                Begun::Own(value) => return Ok(Processed::Done(value)),
            };
            let run = async { Body::of(body.clone()(&mut tx).await) };
            let ran = attempt.watched(run).await;
            match attempt.end(tx, ran).await? {
                Some(Ended::Done(value)) => return Ok(Processed::Done(value)),
                Some(Ended::Failed(error)) => return Err(error),
                None => {}
            }
        }
    }
}

impl<DB: Backend> Clone for Inbox<DB> {
    fn clone(&self) -> Self {
        Self {
            idempotency: self.idempotency.clone(),
            ..*self
        }
    }
}

impl<DB: Backend> fmt::Debug for Inbox<DB> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inbox")
            .field("ttl", &self.ttl)
            .field("timeout", &self.timeout)
            .finish_non_exhaustive()
    }
}
