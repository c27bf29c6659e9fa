//! Notifications: messages that commit with the handler's effect, and are published afterwards.

#[cfg(feature = "amqp")]
pub mod amqp;
mod message;
#[cfg(feature = "nats")]
pub mod nats;
mod publisher;
#[cfg(feature = "testing")]
mod testing;
#[cfg(feature = "webhook")]
pub mod webhook;

pub use self::message::{MessageId, OutboxMessage};
pub use self::publisher::{BoxError, PublishError, Publisher};
