//! Messages from an AMQP 0-9-1 queue: RabbitMQ.

mod delivery;
mod outlet;
mod properties;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{FutureExt, StreamExt};
use lapin::options::{BasicConsumeOptions, BasicQosOptions, QueueDeclareOptions};
use lapin::types::FieldTable;
use lapin::uri::AMQPUri;
use lapin::{Channel, Connection, ConnectionProperties};

pub use self::delivery::AmqpDelivery;
use self::outlet::Outlet;
use super::source::{Horizon, Redelivery, Source, SourceError};

/// A peer that is gone is noticed after twice as long.
const HEARTBEAT_SECONDS: u16 = 10;

/// A queue's messages.
///
/// * A message is acknowledged after the commit. As many are taken at once as are processed at once (prefetch).
/// * AMQP 0-9-1 has no way to ask for more time. RabbitMQ closes the channel of a consumer that has not acknowledged within its
///   `consumer_timeout` (30 minutes unless configured), and delivers the message again. So the consumers' `timeout` must be shorter,
///   which is checked at the start; a message that waits for the database is given back in time.
/// * A message that failed waits for its next delivery in a queue of its own (`<queue>.idem-wait.<seconds>s`, made when it is
///   needed), whose messages expire into the queue again, after 48 days at the latest. It carries the number of its deliveries as
///   `idem-deliveries`. Where that queue may not be made, or is another's, the message goes behind the others of its own queue after
///   some seconds.
/// * A dead letter is published to the queue that is named for them, with the headers `idem-reason`, `idem-exchange`,
///   `idem-routing-key` and `idem-deliveries`; the message is acknowledged when the broker has confirmed it.
/// * How late a message may be delivered again, AMQP does not tell: say it as [`redelivered_within`](Self::redelivered_within), from
///   the queue's `x-message-ttl` or from how long your consumers may be down.
/// * AMQP gives a message no id: with `id = "broker"` none is found.
///
/// * Messages are published over a connection of their own: RabbitMQ holds up one that publishes when it is short of memory or
///   disk, and acknowledgements must not wait for that. What can't be published goes back to the queue some seconds later, and its
///   delivery is not counted unless the queue does so.
///
/// A connection that is lost is made again.
pub struct Amqp {
    uri: String,
    queue: String,
    dead_letters: String,
    consumer_timeout: Duration,
    redelivered_within: Option<Duration>,
    prefetch: u16,
    link: Option<Link>,
    outlet: Arc<Outlet>,
}

/// One connection.
struct Link {
    /// Closed when it is dropped.
    _connection: Connection,
    consumer: lapin::Consumer,
}

impl Amqp {
    /// The messages of `queue`, which must be there. What can't be processed is published to the queue `dead_letters`, which is
    /// made, durable, where there is none.
    #[must_use]
    pub fn new(
        uri: impl Into<String>,
        queue: impl Into<String>,
        dead_letters: impl Into<String>,
    ) -> Self {
        let (uri, queue, dead_letters) = (uri.into(), queue.into(), dead_letters.into());
        let outlet = Outlet::new(uri.clone(), queue.clone(), dead_letters.clone());
        Self {
            uri,
            queue,
            dead_letters,
            outlet: Arc::new(outlet),
            consumer_timeout: Duration::from_secs(30 * 60),
            redelivered_within: None,
            prefetch: 0,
            link: None,
        }
    }

    /// The server's `consumer_timeout`: 30 minutes unless said, as RabbitMQ's.
    #[must_use]
    pub fn consumer_timeout(mut self, timeout: Duration) -> Self {
        self.consumer_timeout = timeout;
        self
    }

    /// How long after its first delivery a message may come again: your word. Without it a warning is logged at the start.
    #[must_use]
    pub fn redelivered_within(mut self, horizon: Duration) -> Self {
        self.redelivered_within = Some(horizon);
        self
    }

    async fn connect(&self) -> Result<Connection, SourceError> {
        connect(&self.uri, format!("idem inbox of {}", self.queue)).await
    }

    async fn open(&self) -> Result<Link, SourceError> {
        let connection = self.connect().await?;
        let channel = channel(&connection).await?;
        let qos = channel.basic_qos(self.prefetch.max(1), BasicQosOptions::default());
        qos.await.map_err(SourceError::unavailable)?;
        let consumer = channel.basic_consume(
            self.queue.as_str().into(),
            "".into(),
            BasicConsumeOptions::default(),
            FieldTable::default(),
        );
        let consumer = consumer.await.map_err(SourceError::unavailable)?;
        Ok(Link {
            _connection: connection,
            consumer,
        })
    }
}

async fn connect(uri: &str, name: String) -> Result<Connection, SourceError> {
    let uri: AMQPUri = uri.parse().map_err(SourceError::Misconfigured)?;
    let mut uri = uri;
    uri.query.heartbeat.get_or_insert(HEARTBEAT_SECONDS);
    let properties = ConnectionProperties::default().with_connection_name(name.into());
    let connection = Connection::connect_uri(uri, properties).await;
    connection.map_err(SourceError::unavailable)
}

async fn channel(connection: &Connection) -> Result<Channel, SourceError> {
    connection
        .create_channel()
        .await
        .map_err(SourceError::unavailable)
}

/// Whether a queue is there. A look for one that is not closes its channel.
async fn is_there(connection: &Connection, queue: &str) -> Result<bool, SourceError> {
    let look = QueueDeclareOptions {
        passive: true,
        ..QueueDeclareOptions::default()
    };
    let channel = channel(connection).await?;
    let found = channel.queue_declare(queue.into(), look, FieldTable::default());
    match found.await {
        Ok(_) => Ok(true),
        Err(error) => match error.kind() {
            lapin::ErrorKind::ProtocolError(refused) if refused.get_id() == 404 => Ok(false),
            _ => Err(SourceError::unavailable(error)),
        },
    }
}

impl Source for Amqp {
    type Delivery = AmqpDelivery;

    async fn start(&mut self) -> Result<Redelivery, SourceError> {
        let (queue, dead_letters) = (&self.queue, &self.dead_letters);
        if queue == dead_letters {
            return Err(SourceError::Misconfigured(format!(
                "dead letters would come back: `{queue}` is the queue that is consumed; use another"
            )));
        }
        let connection = self.connect().await?;
        if !is_there(&connection, queue).await? {
            return Err(SourceError::Misconfigured(format!(
                "there is no queue `{queue}`; declare it, durable, and bind it to its exchange"
            )));
        }
        if !is_there(&connection, dead_letters).await? {
            let durable = QueueDeclareOptions {
                durable: true,
                ..QueueDeclareOptions::default()
            };
            let channel = channel(&connection).await?;
            let made =
                channel.queue_declare(dead_letters.as_str().into(), durable, FieldTable::default());
            made.await.map_err(SourceError::unavailable)?;
        }
        let horizon = self
            .redelivered_within
            .map_or(Horizon::Unknown, Horizon::Within);
        Ok(Redelivery::after(self.consumer_timeout).horizon(horizon))
    }

    async fn receive(&mut self, most: usize) -> Result<Vec<AmqpDelivery>, SourceError> {
        if self.link.is_none() {
            // The first call has all places free.
            let places = u16::try_from(most).unwrap_or(u16::MAX);
            self.prefetch = self.prefetch.max(places);
            self.link = Some(self.open().await?);
        }
        let Some(link) = &mut self.link else {
            return Ok(Vec::new());
        };
        let mut deliveries = Vec::new();
        let mut next = link.consumer.next().await;
        loop {
            match next {
                Some(Ok(delivery)) => {
                    deliveries.push(AmqpDelivery::new(delivery, self.outlet.clone()));
                }
                ended => {
                    self.link = None;
                    if !deliveries.is_empty() {
                        return Ok(deliveries);
                    }
                    return Err(match ended {
                        Some(Err(error)) => SourceError::unavailable(error),
                        _ => SourceError::unavailable("the broker cancelled the consumer"),
                    });
                }
            }
            if deliveries.len() >= most {
                return Ok(deliveries);
            }
            match link.consumer.next().now_or_never() {
                Some(more) => next = more,
                None => return Ok(deliveries),
            }
        }
    }
}

impl fmt::Debug for Amqp {
    /// Without the URI, which holds a password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Amqp")
            .field("queue", &self.queue)
            .field("dead_letters", &self.dead_letters)
            .finish_non_exhaustive()
    }
}
