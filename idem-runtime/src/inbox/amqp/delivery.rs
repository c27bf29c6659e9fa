//! A message of a queue, and what becomes of it.

use std::fmt;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use lapin::options::{BasicAckOptions, BasicNackOptions, BasicPublishOptions, QueueDeclareOptions};
use lapin::types::{AMQPValue, FieldTable};
use lapin::{BasicProperties, Confirmation};

use super::Outlet;
use super::properties::{self, DELIVERIES};
use crate::inbox::message::Incoming;
use crate::inbox::source::{Delivery, SourceError};

/// A message of an [`Amqp`](super::Amqp) queue.
pub struct AmqpDelivery {
    incoming: Incoming,
    delivery: lapin::message::Delivery,
    outlet: Arc<Outlet>,
}

impl AmqpDelivery {
    pub(super) fn new(delivery: lapin::message::Delivery, outlet: Arc<Outlet>) -> Self {
        Self {
            incoming: properties::incoming(&delivery),
            delivery,
            outlet,
        }
    }

    /// How often it waited, once it waits again. What a quorum queue counts it will count anew.
    fn waits(&self) -> i64 {
        i64::from(self.incoming.delivery())
    }

    async fn acked(&self) -> Result<(), SourceError> {
        let acked = self.delivery.acker.ack(BasicAckOptions::default()).await;
        known(acked)
    }
}

impl Delivery for AmqpDelivery {
    fn message(&self) -> &Incoming {
        &self.incoming
    }

    async fn acknowledge(&mut self) -> Result<(), SourceError> {
        self.acked().await
    }

    async fn retry(&mut self, after: Duration) -> Result<(), SourceError> {
        if after.is_zero() {
            let requeue = BasicNackOptions {
                requeue: true,
                ..BasicNackOptions::default()
            };
            return known(self.delivery.acker.nack(requeue).await);
        }
        let queue = self.outlet.wait(after).await?;
        let properties = properties::again(&self.delivery, (DELIVERIES, self.waits()), None);
        self.outlet
            .publish(&queue, &self.delivery.data, properties)
            .await?;
        self.acked().await
    }

    async fn dead_letter(&mut self, reason: &str) -> Result<(), SourceError> {
        let number = (DELIVERIES, self.waits());
        let properties = properties::again(&self.delivery, number, Some(reason));
        let queue = self.outlet.dead_letters.as_str();
        self.outlet
            .publish(queue, &self.delivery.data, properties)
            .await?;
        self.acked().await
    }
}

/// The broker does not answer an acknowledgement: all that can be known is that its connection was there.
fn known(told: lapin::Result<bool>) -> Result<(), SourceError> {
    match told {
        Ok(true) => Ok(()),
        Ok(false) => Err(SourceError::unavailable("the channel is gone")),
        Err(error) => Err(SourceError::unavailable(error)),
    }
}

impl Outlet {
    /// The queue in which messages wait for so long, or for at most twice that: few pauses make few queues.
    async fn wait(&self, after: Duration) -> Result<String, SourceError> {
        let seconds = after.as_secs_f64().ceil().max(1.0) as u64;
        let seconds = seconds.next_power_of_two();
        let name = format!("{}.idem-wait.{seconds}s", self.queue);
        let known = || self.waits.lock().unwrap_or_else(PoisonError::into_inner);
        if known().contains(&name) {
            return Ok(name);
        }
        let mut arguments = FieldTable::default();
        let text = |text: &str| AMQPValue::LongString(text.into());
        let milliseconds = i64::try_from(seconds.saturating_mul(1000)).unwrap_or(i64::MAX);
        // A quorum queue moves an expired message only once the other queue has confirmed it; a classic one hopes.
        for (name, value) in [
            ("x-queue-type", text("quorum")),
            ("x-overflow", text("reject-publish")),
            ("x-dead-letter-strategy", text("at-least-once")),
            ("x-dead-letter-exchange", text("")),
            ("x-dead-letter-routing-key", text(&self.queue)),
            ("x-message-ttl", AMQPValue::LongLongInt(milliseconds)),
        ] {
            arguments.insert(name.into(), value);
        }
        let durable = QueueDeclareOptions {
            durable: true,
            ..QueueDeclareOptions::default()
        };
        let made = self
            .channel
            .queue_declare(name.as_str().into(), durable, arguments)
            .await;
        made.map_err(SourceError::unavailable)?;
        known().insert(name.clone());
        Ok(name)
    }

    /// Through the default exchange. Confirmed is not routed: what comes back was not stored.
    async fn publish(
        &self,
        queue: &str,
        payload: &[u8],
        properties: BasicProperties,
    ) -> Result<(), SourceError> {
        let mandatory = BasicPublishOptions {
            mandatory: true,
            ..BasicPublishOptions::default()
        };
        let published = self
            .channel
            .basic_publish("".into(), queue.into(), mandatory, payload, properties)
            .await;
        let confirmation = published.map_err(SourceError::unavailable)?;
        match confirmation.await.map_err(SourceError::unavailable)? {
            Confirmation::Ack(None) => Ok(()),
            _ => Err(SourceError::unavailable(format!(
                "the broker did not take a message for queue `{queue}`"
            ))),
        }
    }
}

impl fmt::Debug for AmqpDelivery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AmqpDelivery")
            .field("incoming", &self.incoming)
            .finish_non_exhaustive()
    }
}
