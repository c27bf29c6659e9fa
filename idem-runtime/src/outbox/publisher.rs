//! Where messages go.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use super::OutboxMessage;

/// Any error.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Delivers messages to a broker, or to anybody else. The relay calls it, with several messages at the same time, and never
/// with two of one ordering key.
///
/// # Examples
///
/// Into a folder, one file a message. The name is the id, so that a redelivery changes nothing.
///
/// ```
/// use idem_runtime::outbox::{OutboxMessage, PublishError, Publisher};
/// use tokio::{fs::File, io::AsyncWriteExt};
///
/// struct Folder(std::path::PathBuf);
///
/// impl Publisher for Folder {
///     async fn publish(&self, message: &OutboxMessage) -> Result<(), PublishError> {
///         let write = async || -> std::io::Result<()> {
///             let mut file = File::create(self.0.join(message.id().to_string())).await?;
///             file.write_all(message.payload()).await?;
///             file.sync_all().await
///         };
///         write().await.map_err(|error| PublishError::Failed(error.into()))
///     }
/// }
/// ```
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

/// A failure that names a time.
#[derive(Debug, thiserror::Error)]
#[error("{reason}")]
struct Later {
    reason: BoxError,
    after: Duration,
}

impl PublishError {
    /// [`Failed`](Self::Failed), by a receiver that asks to be left alone for `after`.
    #[must_use]
    pub fn failed_until(reason: impl Into<BoxError>, after: Duration) -> Self {
        let reason = reason.into();
        Self::Failed(Box::new(Later { reason, after }))
    }

    /// How long the receiver asks to be left alone. The next attempt comes no earlier; it may come later.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Failed(reason) => reason.downcast_ref::<Later>().map(|later| later.after),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_may_say_when_the_next_attempt_is_welcome() {
        let after = Duration::from_secs(7);
        let error = PublishError::failed_until("too many", after);
        assert_eq!(error.retry_after(), Some(after));
        assert_eq!(error.to_string(), "not published: too many");
        assert_eq!(PublishError::Failed("full".into()).retry_after(), None);
    }
}
