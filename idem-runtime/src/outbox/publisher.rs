//! Where messages go.

use std::future::Future;
use std::sync::Arc;

use super::OutboxMessage;

/// Any error.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Delivers messages to a broker, or to anybody else. The relay calls it, with several messages at the same time, and never
/// with two of one ordering key.
pub trait Publisher: Send + Sync + 'static {
    /// Publishes one message. `Ok` is the promise that the broker has it durably: the relay forgets it then. Whatever is not
    /// known to have been stored is an error, and the message is published again, with the same id.
    ///
    /// # Cancel safety
    ///
    /// The future is dropped when its time is over; the message counts as [unconfirmed](PublishError::Unconfirmed) then.
    fn publish(
        &self,
        message: &OutboxMessage,
    ) -> impl Future<Output = Result<(), PublishError>> + Send;
}

/// One that several relays share.
impl<P: Publisher> Publisher for Arc<P> {
    async fn publish(&self, message: &OutboxMessage) -> Result<(), PublishError> {
        P::publish(self, message).await
    }
}

/// Why a message is not known to be published.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PublishError {
    /// Nobody is there to take messages: the next one would not fare better. The relay pauses, and no attempt is counted.
    #[error("the broker is out of reach: {0}")]
    Unavailable(#[source] BoxError),
    /// It may have been published: no confirmation came. An attempt.
    #[error("no confirmation came: {0}")]
    Unconfirmed(#[source] BoxError),
    /// It was not published, and may be later. An attempt.
    #[error("not published: {0}")]
    Failed(#[source] BoxError),
    /// It was refused, and would be again: it goes to the dead letters at once.
    #[error("refused: {0}")]
    Rejected(#[source] BoxError),
}
