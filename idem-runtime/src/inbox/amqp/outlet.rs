//! Where messages are published that wait, or are dead.

use std::collections::HashSet;
use std::fmt;
use std::sync::{Mutex as StdMutex, MutexGuard, PoisonError};
use std::time::Duration;

use lapin::options::{BasicPublishOptions, ConfirmSelectOptions, QueueDeclareOptions};
use lapin::types::{AMQPValue, FieldTable};
use lapin::{BasicProperties, Channel, Confirmation, Connection};
use tokio::sync::Mutex;

use crate::inbox::source::SourceError;

/// The longest wait. The server's limit for the lifetime of a message is about 49 days.
const LONGEST_SECONDS: u64 = 1 << 22;

/// Not in the broker: the place that a message holds meanwhile is another's.
const LONGEST_WAIT_HERE: Duration = Duration::from_secs(4);
/// AMQP's access-refused, resource-locked, precondition-failed.
const BY_RULE: [u16; 3] = [403, 405, 406];

/// A connection of its own, made when it is needed and whenever it is lost. What is refused here closes its channel, and the next
/// message has another.
pub(super) struct Outlet {
    uri: String,
    queue: String,
    dead_letters: String,
    open: Mutex<Option<Open>>,
    /// The queues that are known to be there.
    waits: StdMutex<HashSet<String>>,
}

/// Why there is no queue to wait in.
enum Refused {
    ByRule(lapin::Error),
    Unavailable(SourceError),
}

struct Open {
    /// Closed when it is dropped.
    connection: Connection,
    channel: Channel,
}

impl Outlet {
    pub(super) fn new(uri: String, queue: String, dead_letters: String) -> Self {
        Self {
            uri,
            queue,
            dead_letters,
            open: Mutex::default(),
            waits: StdMutex::default(),
        }
    }

    pub(super) fn dead_letters(&self) -> &str {
        &self.dead_letters
    }

    fn waits(&self) -> MutexGuard<'_, HashSet<String>> {
        self.waits.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A channel that confirms, unless the broker takes nothing now: what is published to it then is not lost but lies before its
    /// door, and would be there once more with each try.
    async fn channel(&self) -> Result<Channel, SourceError> {
        let mut open = self.open.lock().await;
        let connection = match open.take() {
            Some(open_still) if open_still.connection.status().connected() => {
                if open_still.connection.status().blocked() {
                    *open = Some(open_still);
                    return Err(SourceError::unavailable(
                        "RabbitMQ holds publishers up: an alarm of its memory or disk",
                    ));
                }
                if open_still.channel.status().connected() {
                    return Ok(open.insert(open_still).channel.clone());
                }
                open_still.connection
            }
            _ => super::connect(&self.uri, format!("idem inbox of {}, outlet", self.queue)).await?,
        };
        let channel = super::channel(&connection).await?;
        let confirms = channel.confirm_select(ConfirmSelectOptions::default());
        confirms.await.map_err(SourceError::unavailable)?;
        *open = Some(Open {
            connection,
            channel: channel.clone(),
        });
        Ok(channel)
    }

    /// The queue in which messages wait for so long, or for at most twice that: few pauses make few queues. Where the broker does
    /// not let it be made (another of its name, a missing permission) they wait here, for some seconds at most, and then go behind
    /// the other messages of their own queue: given back, they would stand before them.
    pub(super) async fn wait(&self, after: Duration) -> Result<String, SourceError> {
        match self.waiting_queue(after).await {
            Err(Refused::ByRule(error)) => {
                tracing::warn!(target: "idem", queue = self.queue, %error, "no queue of waiting messages can be made; a message that failed goes behind the others");
                tokio::time::sleep(after.min(LONGEST_WAIT_HERE)).await;
                Ok(self.queue.clone())
            }
            Err(Refused::Unavailable(error)) => Err(error),
            Ok(queue) => Ok(queue),
        }
    }

    async fn waiting_queue(&self, after: Duration) -> Result<String, Refused> {
        let seconds = wait_seconds(after);
        let name = format!("{}.idem-wait.{seconds}s", self.queue);
        if self.waits().contains(&name) {
            return Ok(name);
        }
        let mut arguments = FieldTable::default();
        let text = |text: &str| AMQPValue::LongString(text.into());
        let milliseconds = i64::try_from(seconds * 1000).unwrap_or(i64::MAX);
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
        let channel = self.channel().await.map_err(Refused::Unavailable)?;
        let made = channel.queue_declare(name.as_str().into(), durable, arguments);
        made.await.map_err(|error| match error.kind() {
            lapin::ErrorKind::ProtocolError(refused) if BY_RULE.contains(&refused.get_id()) => {
                Refused::ByRule(error)
            }
            _ => Refused::Unavailable(SourceError::unavailable(error)),
        })?;
        self.waits().insert(name.clone());
        Ok(name)
    }

    /// Through the default exchange. Confirmed is not routed: what comes back was not stored.
    pub(super) async fn publish(
        &self,
        queue: &str,
        payload: &[u8],
        properties: BasicProperties,
    ) -> Result<(), SourceError> {
        let mandatory = BasicPublishOptions {
            mandatory: true,
            ..BasicPublishOptions::default()
        };
        let channel = self.channel().await?;
        let published =
            channel.basic_publish("".into(), queue.into(), mandatory, payload, properties);
        let confirmation = published.await.map_err(SourceError::unavailable)?;
        match confirmation.await.map_err(SourceError::unavailable)? {
            Confirmation::Ack(None) => Ok(()),
            _ => {
                // It may have been deleted: made again the next time.
                self.waits().remove(queue);
                Err(SourceError::unavailable(format!(
                    "the broker did not take a message for queue `{queue}`"
                )))
            }
        }
    }
}

/// A power of two.
fn wait_seconds(after: Duration) -> u64 {
    let seconds = after
        .as_secs()
        .saturating_add(u64::from(after.subsec_nanos() > 0));
    seconds.clamp(1, LONGEST_SECONDS).next_power_of_two()
}

impl fmt::Debug for Outlet {
    /// Without the URI, which holds a password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Outlet")
            .field("queue", &self.queue)
            .field("dead_letters", &self.dead_letters)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_is_a_power_of_two_that_the_server_takes() {
        for (after, seconds) in [
            (Duration::ZERO, 1),
            (Duration::from_millis(300), 1),
            (Duration::from_secs(1), 1),
            (Duration::from_millis(1001), 2),
            (Duration::from_secs(5), 8),
            (Duration::from_secs(365 * 24 * 3600), LONGEST_SECONDS),
            (Duration::MAX, LONGEST_SECONDS),
        ] {
            assert_eq!(wait_seconds(after), seconds, "{after:?}");
        }
        assert!(LONGEST_SECONDS * 1000 <= u64::from(u32::MAX));
    }
}
