//! NATS JetStream.

use std::fmt;

use async_nats::connection::State;
use async_nats::header::{HeaderMap, HeaderName, HeaderValue, NATS_MESSAGE_ID};
use async_nats::jetstream::context::{
    AccountErrorKind, PublishError as JetStreamError, PublishErrorKind,
};
use async_nats::jetstream::message::PublishMessage;
use async_nats::jetstream::publish::PublishAck;
use async_nats::jetstream::stream::RawMessageErrorKind;
use async_nats::jetstream::{Context, Error as ServerError, ErrorCode};

use super::{BoxError, OutboxMessage, PublishError, Publisher};

/// Publishes to JetStream: the topic is the subject, and `Ok` is the acknowledgement of the stream that took it.
///
/// Each message carries its id as `Nats-Msg-Id`, by which the stream drops what it was given before, for as long as its
/// duplicate window (two minutes unless it says otherwise). A redelivery after that is stored again, with the same id.
/// `Content-Type` is the payload's, and the message's headers are the application's.
///
/// # What an acknowledgement is worth
///
/// One that says `duplicate` tells that the id was seen, and not that the message is there: it may have been deleted since, or
/// somebody else used the id. It counts once the message at the sequence it names has this id and this payload; that takes the
/// permission to ask `$JS.API.STREAM.MSG.GET` for the stream. A message that is gone meanwhile, as from a work queue where it was
/// processed, is not known to have been stored: it's published again until the window has passed, and its consumer tells the
/// redelivery by its id.
///
/// A stored message is as durable as the stream is: kept in memory or in files, on one server or several, flushed when the server's
/// `sync_interval` says so.
///
/// # What fails how
///
/// | what happens | error |
/// |---|---|
/// | the client is not connected, or nobody answers for JetStream | [`Unavailable`](PublishError::Unavailable) |
/// | no acknowledgement in the context's time-out (5 seconds unless it says otherwise) | [`Unconfirmed`](PublishError::Unconfirmed) |
/// | no stream takes the subject | [`Failed`](PublishError::Failed): a stream may be created later, and dead letters would have to be requeued by hand |
/// | the stream is full, sealed, or out of storage | [`Failed`](PublishError::Failed) |
/// | larger than the server or the stream takes; no subject; a header that NATS cannot carry | [`Rejected`](PublishError::Rejected) |
///
/// # Examples
///
/// ```no_run
/// use idem_runtime::outbox::nats::JetStream;
///
/// # async fn example() -> Result<(), async_nats::ConnectError> {
/// let client = async_nats::connect("nats://127.0.0.1:4222").await?;
/// let publisher = JetStream::new(async_nats::jetstream::new(client))
///     .subject(|message| format!("shop.{}", message.topic()));
/// # let _ = publisher;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct JetStream {
    context: Context,
    subject: fn(&OutboxMessage) -> String,
}

impl JetStream {
    /// Publishes through `context`, with its time-out and its limit of messages in flight.
    #[must_use]
    pub fn new(context: Context) -> Self {
        Self {
            context,
            subject: |message| message.topic().to_owned(),
        }
    }

    /// Which subject a message is published to; its topic by default. The same message must get the same subject each time.
    #[must_use]
    pub fn subject(mut self, subject: fn(&OutboxMessage) -> String) -> Self {
        self.subject = subject;
        self
    }

    async fn send(&self, message: &OutboxMessage) -> Result<PublishAck, PublishError> {
        let headers = headers(message)?;
        let subject = (self.subject)(message);
        // The client lets more pass than a server has streams for.
        if subject
            .split('.')
            .any(|token| matches!(token, "" | "*" | ">"))
        {
            let reason = format!("{subject:?} is no subject to publish to");
            return Err(PublishError::Rejected(reason.into()));
        }
        let publish = PublishMessage::build()
            .payload(message.payload().clone())
            .headers(headers);
        let sent = self.context.send_publish(subject.clone(), publish).await;
        // Nothing is on the wire before the first of the two futures is done.
        let acknowledgement = sent.map_err(not_sent)?;
        match acknowledgement.await {
            Ok(acknowledgement) => Ok(acknowledgement),
            Err(error) if error.kind() == PublishErrorKind::StreamNotFound => {
                Err(self.nobody_listens(&subject).await)
            }
            Err(error) => Err(not_stored(error)),
        }
    }

    /// Whether there is no stream for the subject, or no JetStream at all, as when a server has just started.
    async fn nobody_listens(&self, subject: &str) -> PublishError {
        match self.context.query_account().await {
            Err(error) if error.kind() == AccountErrorKind::JetStreamUnavailable => {
                PublishError::Unavailable(error.into())
            }
            _ => PublishError::Failed(format!("no stream takes the subject {subject:?}").into()),
        }
    }

    /// Whether the message that a duplicate is said to be one of is this one, and is there.
    async fn is_stored(
        &self,
        message: &OutboxMessage,
        acknowledgement: &PublishAck,
    ) -> Result<(), PublishError> {
        let place = Place(acknowledgement);
        let stream = self
            .context
            .get_stream_no_info(&acknowledgement.stream)
            .await
            .map_err(|error| PublishError::Unconfirmed(error.into()))?;
        let stored = match stream.get_raw_message(acknowledgement.sequence).await {
            Ok(stored) => stored,
            Err(error) if error.kind() == RawMessageErrorKind::NoMessageFound => {
                let reason = format!("said to be a duplicate of {place}, where no message is");
                return Err(PublishError::Failed(reason.into()));
            }
            Err(error) => return Err(PublishError::Unconfirmed(error.into())),
        };
        let id = stored.headers.get(NATS_MESSAGE_ID);
        if id.is_some_and(|id| id.as_str() == message.id().to_string())
            && stored.payload == *message.payload()
        {
            Ok(())
        } else {
            let reason = format!("said to be a duplicate of {place}, which is another message");
            Err(PublishError::Failed(reason.into()))
        }
    }
}

impl Publisher for JetStream {
    async fn publish(&self, message: &OutboxMessage) -> Result<(), PublishError> {
        // The client keeps what it's given while it is away, and sends it later.
        if self.context.client().connection_state() != State::Connected {
            return Err(PublishError::Unavailable("not connected to NATS".into()));
        }
        let acknowledgement = self.send(message).await?;
        if acknowledgement.duplicate {
            self.is_stored(message, &acknowledgement).await?;
        }
        Ok(())
    }
}

impl fmt::Debug for JetStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JetStream").finish_non_exhaustive()
    }
}

/// A stream and a sequence, for people.
struct Place<'a>(&'a PublishAck);

impl fmt::Display for Place<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.0.stream, self.0.sequence)
    }
}

fn headers(message: &OutboxMessage) -> Result<HeaderMap, PublishError> {
    let mut headers = HeaderMap::new();
    for (name, value) in message.headers() {
        let (name, value) = header(name, value).map_err(|error| {
            let reason = format!("NATS does not carry the header {name:?}: {error}");
            PublishError::Rejected(reason.into())
        })?;
        headers.append(name, value);
    }
    let content_type: HeaderValue = message
        .content_type()
        .parse()
        .map_err(|error| PublishError::Rejected(BoxError::from(error)))?;
    headers.insert("Content-Type", content_type);
    headers.insert(NATS_MESSAGE_ID, message.id().to_string());
    Ok(headers)
}

fn header(name: &str, value: &str) -> Result<(HeaderName, HeaderValue), BoxError> {
    // The client lets it pass, and then can't read it.
    if name.is_empty() {
        return Err("it has no name".into());
    }
    Ok((name.parse()?, value.parse()?))
}

fn not_sent(error: JetStreamError) -> PublishError {
    match error.kind() {
        PublishErrorKind::MaxPayloadExceeded => PublishError::Rejected(error.into()),
        // The client's own queue is full: it could not get rid of anything in all that time.
        PublishErrorKind::TimedOut => PublishError::Unavailable(error.into()),
        PublishErrorKind::Other if is_invalid_subject(&error) => {
            PublishError::Rejected(error.into())
        }
        _ => PublishError::Failed(error.into()),
    }
}

fn is_invalid_subject(error: &JetStreamError) -> bool {
    source::<async_nats::SubjectError>(error).is_some()
}

fn not_stored(error: JetStreamError) -> PublishError {
    match (error.kind(), source::<ServerError>(&error)) {
        // The server has answered, and that it did not store it.
        (PublishErrorKind::Other, Some(answer)) => match answer.error_code() {
            ErrorCode::STREAM_MESSAGE_EXCEEDS_MAXIMUM => PublishError::Rejected(error.into()),
            ErrorCode::JETSTREAM_NOT_ENABLED | ErrorCode::CLUSTER_NOT_AVAILABLE => {
                PublishError::Unavailable(error.into())
            }
            _ => PublishError::Failed(error.into()),
        },
        (PublishErrorKind::WrongLastMessageId | PublishErrorKind::WrongLastSequence, _) => {
            PublishError::Failed(error.into())
        }
        _ => PublishError::Unconfirmed(error.into()),
    }
}

fn source<E: std::error::Error + 'static>(error: &JetStreamError) -> Option<&E> {
    std::error::Error::source(error)?.downcast_ref()
}
