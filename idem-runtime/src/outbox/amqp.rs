//! AMQP 0-9-1: RabbitMQ.

mod confirms;
mod link;
mod parcel;
mod returns;

use std::fmt;
use std::time::Duration;

use tokio::sync::{Mutex, oneshot};

use self::link::Link;
use self::parcel::Parcel;
use super::{OutboxMessage, PublishError, Publisher};

/// Publishes to one exchange of a RabbitMQ: the topic is the routing key, and `Ok` is the broker's confirm of a message that it
/// had a queue for.
///
/// Messages are persistent and `mandatory`, and carry id (`message-id`), content type, the time they were staged (`timestamp`) and
/// the message's headers. All go over one channel, many at a time; a connection that is lost is made anew, at first at once and
/// then with growing pauses of up to 10 seconds.
///
/// # What a confirm is worth
///
/// RabbitMQ also confirms what it has no queue for, after it has sent it back. lapin gives what came back to whichever confirm comes
/// next, so this publisher looks at the message ids, and calls a message published when it can't have come back any more.
///
/// A message is as durable as the queue is: declare it durable, or as a quorum queue. Exchange and queues are the application's;
/// a [topology file](https://www.rabbitmq.com/docs/definitions) or its own start declares them.
///
/// # What fails how
///
/// | what happens | error |
/// |---|---|
/// | no connection, no such exchange, or the broker holds publishers up (an alarm of memory or disk) | [`Unavailable`](PublishError::Unavailable) |
/// | no confirm in [`timeout`](Self::timeout), or channel or connection end before it | [`Unconfirmed`](PublishError::Unconfirmed) |
/// | no queue is bound for the routing key | [`Failed`](PublishError::Failed): one may be later, and dead letters would have to be requeued by hand |
/// | the broker refuses it (nack), as a full queue does that is declared so | [`Failed`](PublishError::Failed) |
/// | a routing key or content type over 255 bytes, headers or payload too large, a header that RabbitMQ keeps for itself (`CC`, `BCC`) | [`Rejected`](PublishError::Rejected) |
///
/// lapin logs each message that comes back, payload and all, as a warning: where payloads are secrets, its target
/// `lapin::returned_messages` belongs out of the log.
///
/// # Examples
///
/// ```
/// use idem_runtime::outbox::amqp::Amqp;
///
/// let publisher = Amqp::new("amqp://guest:guest@127.0.0.1:5672/%2f")?
///     .exchange("shop")
///     .routing_key(|message| format!("shop.{}", message.topic()));
/// # let _ = publisher;
/// # Ok::<_, idem_runtime::outbox::amqp::InvalidUri>(())
/// ```
pub struct Amqp {
    link: Mutex<Link>,
    exchange: String,
    routing_key: fn(&OutboxMessage) -> String,
    timeout: Duration,
    max_payload: usize,
}

/// No URI of an AMQP broker.
#[derive(Debug, thiserror::Error)]
#[error("not an AMQP URI: {0}")]
pub struct InvalidUri(String);

impl Amqp {
    /// A broker by its [URI](https://www.rabbitmq.com/docs/uri-spec); the first message connects. Without `heartbeat` in the
    /// query it is 10 seconds. `amqps` needs a TLS feature of lapin's in the application.
    ///
    /// # Errors
    ///
    /// When it's no such URI.
    pub fn new(uri: &str) -> Result<Self, InvalidUri> {
        Ok(Self {
            link: Mutex::new(Link::new(uri.parse().map_err(InvalidUri)?)),
            exchange: String::new(),
            routing_key: |message| message.topic().to_owned(),
            timeout: Duration::from_secs(5),
            max_payload: 16 * 1024 * 1024,
        })
    }

    /// The exchange, which must exist. Without: the default one, which hands a message to the queue that the routing key names.
    #[must_use]
    pub fn exchange(mut self, exchange: impl Into<String>) -> Self {
        self.exchange = exchange.into();
        self
    }

    /// Which routing key a message gets; its topic by default.
    #[must_use]
    pub fn routing_key(mut self, routing_key: fn(&OutboxMessage) -> String) -> Self {
        self.routing_key = routing_key;
        self
    }

    /// How long a connection may take, and a message's confirm after that. Default 5 seconds; the relay's own time for an attempt
    /// should be twice as long.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Payloads over this are refused here, in bytes; default 16 MiB, the limit of RabbitMQ 4. One that the broker refuses costs the
    /// channel, and all that is in flight on it is sent once more.
    #[must_use]
    pub fn max_payload(mut self, bytes: usize) -> Self {
        self.max_payload = bytes;
        self
    }
}

impl Publisher for Amqp {
    async fn publish(&self, message: &OutboxMessage) -> Result<(), PublishError> {
        let routing_key = (self.routing_key)(message);
        let (answer, outcome) = oneshot::channel();
        let parcel = Parcel::new(message, routing_key, self.max_payload, answer)?;
        let parcels = {
            let mut link = self.link.lock().await;
            link.parcels(&self.exchange, self.timeout).await?
        };
        if parcels.send(parcel).is_err() {
            return Err(PublishError::Unavailable("the channel was closed".into()));
        }
        match tokio::time::timeout(self.timeout, outcome).await {
            Ok(Ok(outcome)) => outcome,
            Ok(Err(_)) => Err(PublishError::Unconfirmed("the channel was closed".into())),
            Err(elapsed) => Err(PublishError::Unconfirmed(elapsed.into())),
        }
    }
}

impl fmt::Debug for Amqp {
    /// Without the URI, which has the password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Amqp")
            .field("exchange", &self.exchange)
            .finish_non_exhaustive()
    }
}
