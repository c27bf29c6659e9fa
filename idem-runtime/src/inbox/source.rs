//! Where messages come from: what a broker must be able to do.

use std::future::Future;
use std::time::Duration;

use super::message::Incoming;
use crate::outbox::BoxError;

/// Pulls messages from a broker. [`Consumers`](super::Consumers) asks for as many as it has places for.
///
/// One that reads what another task receives, and tells that what became of it:
///
/// ```
/// use std::time::Duration;
/// use idem_runtime::inbox::{Delivery, Horizon, Incoming, Redelivery, Source, SourceError};
/// use tokio::sync::{mpsc, oneshot};
///
/// enum Told { Acknowledged, Again(Duration), Dead(String) }
///
/// struct Channel(mpsc::Receiver<(Incoming, oneshot::Sender<Told>)>);
///
/// struct Taken(Incoming, Option<oneshot::Sender<Told>>);
///
/// impl Source for Channel {
///     type Delivery = Taken;
///
///     async fn start(&mut self) -> Result<Redelivery, SourceError> {
///         Ok(Redelivery::on_disconnect().horizon(Horizon::Within(Duration::from_secs(3600))))
///     }
///
///     async fn receive(&mut self, most: usize) -> Result<Vec<Taken>, SourceError> {
///         let mut messages = Vec::new();
///         if self.0.recv_many(&mut messages, most).await == 0 {
///             return Err(SourceError::unavailable("the other task has ended"));
///         }
///         Ok(messages.into_iter().map(|(message, tell)| Taken(message, Some(tell))).collect())
///     }
/// }
///
/// impl Taken {
///     fn tell(&mut self, told: Told) -> Result<(), SourceError> {
///         let tell = self.1.take().ok_or_else(|| SourceError::unavailable("told before"))?;
///         tell.send(told).map_err(|_| SourceError::unavailable("the other task has ended"))
///     }
/// }
///
/// impl Delivery for Taken {
///     fn message(&self) -> &Incoming {
///         &self.0
///     }
///     async fn acknowledge(&mut self) -> Result<(), SourceError> {
///         self.tell(Told::Acknowledged)
///     }
///     async fn retry(&mut self, after: Duration) -> Result<(), SourceError> {
///         self.tell(Told::Again(after))
///     }
///     async fn dead_letter(&mut self, reason: &str) -> Result<(), SourceError> {
///         self.tell(Told::Dead(reason.to_owned()))
///     }
/// }
/// ```
pub trait Source: Send + 'static {
    /// What it delivers.
    type Delivery: Delivery;

    /// Connects, and says when messages that were delivered come again. Called once, before the first message.
    ///
    /// # Errors
    ///
    /// [`SourceError`]: the consumers don't start.
    fn start(&mut self) -> impl Future<Output = Result<Redelivery, SourceError>> + Send;

    /// Waits for messages, and returns at most so many as soon as there is one; none after a while is fine. Connects again
    /// where it must. Nothing is waited for between two calls, so that a place that gets free is filled at once.
    ///
    /// # Errors
    ///
    /// [`SourceError`]: it is called again after a pause.
    ///
    /// # Cancel safety
    ///
    /// It is dropped at a shutdown: what it has taken by then must be delivered again, by the broker's own rules.
    fn receive(
        &mut self,
        most: usize,
    ) -> impl Future<Output = Result<Vec<Self::Delivery>, SourceError>> + Send;
}

/// A message that was delivered and is neither acknowledged nor given back yet. Dropped, it is delivered again by the
/// broker's own rules. Each method but `extend` is called at most once with success.
pub trait Delivery: Send + 'static {
    /// The message.
    fn message(&self) -> &Incoming;

    /// It is processed: never again. Called after the commit.
    ///
    /// # Errors
    ///
    /// [`SourceError`], unless the broker is known to have heard of it.
    fn acknowledge(&mut self) -> impl Future<Output = Result<(), SourceError>> + Send;

    /// The time after which it is delivered again begins anew. Called at a third of it, where the source can.
    ///
    /// # Errors
    ///
    /// [`SourceError`]: it is tried again after another third.
    ///
    /// # Cancel safety
    ///
    /// Dropped when the consumers are done meanwhile.
    fn extend(&mut self) -> impl Future<Output = Result<(), SourceError>> + Send {
        std::future::ready(Ok(()))
    }

    /// Deliver it again, after so long or later.
    ///
    /// # Errors
    ///
    /// [`SourceError`]; then it is delivered again by the broker's own rules.
    fn retry(&mut self, after: Duration) -> impl Future<Output = Result<(), SourceError>> + Send;

    /// It can't be processed: it must be stored with the reason, durably, before it is acknowledged.
    ///
    /// # Errors
    ///
    /// [`SourceError`], unless it is known to be stored; then it is delivered again.
    fn dead_letter(&mut self, reason: &str)
    -> impl Future<Output = Result<(), SourceError>> + Send;
}

/// When a message that was delivered comes again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Redelivery {
    pub(crate) timeout: Option<Duration>,
    pub(crate) extends: bool,
    pub(crate) horizon: Horizon,
}

/// How long after its first delivery a message may be delivered again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Horizon {
    /// Not after so long.
    Within(Duration),
    /// At any time.
    Unlimited,
    /// Nobody says. A warning is logged at the start.
    Unknown,
}

impl Redelivery {
    /// A message comes again when its connection is lost, and never by a time-out.
    #[must_use]
    pub const fn on_disconnect() -> Self {
        Self {
            timeout: None,
            extends: false,
            horizon: Horizon::Unknown,
        }
    }

    /// A message comes again when it was not acknowledged after so long, whatever happens.
    #[must_use]
    pub const fn after(timeout: Duration) -> Self {
        Self {
            timeout: Some(timeout),
            ..Self::on_disconnect()
        }
    }

    /// A message comes again when it was neither acknowledged nor [extended](Delivery::extend) for so long.
    #[must_use]
    pub const fn after_silence(timeout: Duration) -> Self {
        Self {
            timeout: Some(timeout),
            extends: true,
            horizon: Horizon::Unknown,
        }
    }

    /// With how long after its first delivery it may come again.
    #[must_use]
    pub const fn horizon(mut self, horizon: Horizon) -> Self {
        self.horizon = horizon;
        self
    }
}

/// Why a source can't go on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SourceError {
    /// The broker is out of reach, or did not confirm.
    #[error("the broker is out of reach: {0}")]
    Unavailable(#[source] BoxError),
    /// What is asked for is not there, or not allowed. The message says what to do.
    #[error("{0}")]
    Misconfigured(String),
}

impl SourceError {
    /// The broker is out of reach.
    pub fn unavailable(error: impl Into<BoxError>) -> Self {
        Self::Unavailable(error.into())
    }
}
