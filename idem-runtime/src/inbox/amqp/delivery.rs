//! A message of a queue, and what becomes of it.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use lapin::options::{BasicAckOptions, BasicNackOptions};
use tokio::runtime::Handle;

use super::outlet::Outlet;
use super::properties::{self, DELIVERIES};
use crate::backoff::jitter;
use crate::inbox::message::Incoming;
use crate::inbox::source::{Delivery, SourceError};

/// At most, and at least half of it.
const GIVEN_BACK_AFTER: Duration = Duration::from_secs(4);
const REQUEUE: BasicNackOptions = BasicNackOptions {
    multiple: false,
    requeue: true,
};

/// A message of an [`Amqp`](super::Amqp) queue.
pub struct AmqpDelivery {
    incoming: Incoming,
    delivery: lapin::message::Delivery,
    outlet: Arc<Outlet>,
    /// Whether the broker was told what became of it.
    told: bool,
}

impl AmqpDelivery {
    pub(super) fn new(delivery: lapin::message::Delivery, outlet: Arc<Outlet>) -> Self {
        Self {
            incoming: properties::incoming(&delivery),
            delivery,
            outlet,
            told: false,
        }
    }

    /// How often it waited, once it waits again. What a quorum queue counts it will count anew.
    fn waits(&self) -> i64 {
        i64::from(self.incoming.delivery())
    }

    async fn acked(&mut self) -> Result<(), SourceError> {
        let acked = self.delivery.acker.ack(BasicAckOptions::default()).await;
        self.known(acked)
    }

    /// The broker does not answer an acknowledgement: all that can be known is that its connection was there.
    fn known(&mut self, told: lapin::Result<bool>) -> Result<(), SourceError> {
        match told {
            Ok(true) => {
                self.told = true;
                Ok(())
            }
            Ok(false) => Err(SourceError::unavailable("the channel is gone")),
            Err(error) => Err(SourceError::unavailable(error)),
        }
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
            let given_back = self.delivery.acker.nack(REQUEUE).await;
            return self.known(given_back);
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
        let queue = self.outlet.dead_letters();
        self.outlet
            .publish(queue, &self.delivery.data, properties)
            .await?;
        self.acked().await
    }
}

/// One that was neither acknowledged nor given back holds its place at the broker for as long as the connection lives: it is given
/// back, though not at once, since whatever failed would fail again.
impl Drop for AmqpDelivery {
    fn drop(&mut self) {
        let Ok(runtime) = Handle::try_current() else {
            return;
        };
        if self.told {
            return;
        }
        let acker = self.delivery.acker.clone();
        runtime.spawn(async move {
            tokio::time::sleep(jitter(GIVEN_BACK_AFTER)).await;
            // Fails only where the broker has it back already.
            let _ = acker.nack(REQUEUE).await;
        });
    }
}

impl fmt::Debug for AmqpDelivery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AmqpDelivery")
            .field("incoming", &self.incoming)
            .finish_non_exhaustive()
    }
}
