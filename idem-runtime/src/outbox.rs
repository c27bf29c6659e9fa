//! Notifications: messages that commit with the handler's effect, and are published afterwards.
//!
//! A handler stages a message through [`tx.outbox()`](crate::Tx::outbox). It commits with the effect and the stored answer,
//! or not at all: a rolled-back attempt never sends it, and a replayed request stages nothing. A [`Relay`] reads what is
//! committed and gives it to a [`Publisher`], at least once, with an id that stays the same; a consumer tells a repetition by
//! it. See [`Relay`] for what is promised of order.
//!
//! A message that can't be published is tried again, and then kept as a dead letter. Operators see it, requeue it or drop
//! it, through [`Idempotency::outbox`](crate::Idempotency::outbox) or the program `idem`:
//!
//! ```
//! # #[cfg(feature = "sqlite")]
//! # async fn f(idempotency: idem_runtime::Idempotency<sqlx::Sqlite>) -> Result<(), idem_runtime::outbox::OutboxError> {
//! use idem_runtime::outbox::{MessageState, Messages};
//!
//! let outbox = idempotency.outbox();
//! for message in outbox.list(&Messages::all().state(MessageState::Dead)).await? {
//!     println!("{} to {}: {:?}", message.id, message.topic, message.reason);
//!     outbox.requeue(message.id, "alice", "ticket 123: the exchange is there now").await?;
//! }
//! # Ok(())
//! # }
//! ```

#[cfg(feature = "amqp")]
pub mod amqp;
pub(crate) mod lanes;
mod message;
#[cfg(feature = "nats")]
pub mod nats;
mod operators;
mod publisher;
mod relay;
mod staging;
mod state;
#[cfg(feature = "testing")]
mod testing;
mod trace;
mod view;
#[cfg(feature = "webhook")]
pub mod webhook;

pub(crate) use self::lanes::Lanes;
pub use self::message::{MessageId, NotAMessageId, OutboxMessage};
pub(crate) use self::operators::audited;
pub use self::operators::{Outbox, OutboxError};
pub use self::publisher::{BoxError, PublishError, Publisher};
pub use self::relay::{Relay, RelayError, RelayHandle, Relayed};
pub use self::staging::{MessageBuilder, NotStaged, Staging};
pub use self::state::MessageState;
pub use self::trace::TraceContext;
pub(crate) use self::trace::TraceHook;
pub use self::view::{MessageDetail, MessageSummary, Messages, OutboxCounts};
