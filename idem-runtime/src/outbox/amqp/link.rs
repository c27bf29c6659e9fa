//! The connection, and when to try again.

use std::time::{Duration, Instant};

use lapin::options::{ConfirmSelectOptions, ExchangeDeclareOptions};
use lapin::types::FieldTable;
use lapin::uri::AMQPUri;
use lapin::{Channel, Connection, ConnectionProperties, ExchangeKind};
use tokio::sync::mpsc;

use super::confirms;
use super::parcel::Parcel;
use crate::backoff::doubled;
use crate::outbox::{BoxError, PublishError};

const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);
const HEARTBEAT_SECONDS: u16 = 10;
/// Said in AMQP's close of an orderly end.
const REPLY_SUCCESS: u16 = 200;

pub(super) struct Link {
    uri: AMQPUri,
    state: State,
}

enum State {
    Up(Session),
    Down {
        again_at: Instant,
        failures: u32,
        reason: String,
    },
}

struct Session {
    parcels: mpsc::UnboundedSender<Parcel>,
    channel: Channel,
    connection: lapin::ConnectionStatus,
}

impl Link {
    pub(super) fn new(mut uri: AMQPUri) -> Self {
        uri.query.heartbeat.get_or_insert(HEARTBEAT_SECONDS);
        Self {
            uri,
            state: State::Down {
                again_at: Instant::now(),
                failures: 0,
                reason: String::new(),
            },
        }
    }

    /// Where parcels are taken: the channel there is, or one on a new connection, unless the last failure was just now.
    pub(super) async fn parcels(
        &mut self,
        exchange: &str,
        timeout: Duration,
    ) -> Result<mpsc::UnboundedSender<Parcel>, PublishError> {
        let failures = match &self.state {
            State::Up(session) if session.is_up() => {
                if session.connection.blocked() {
                    let reason = "RabbitMQ holds publishers up: an alarm of its memory or disk";
                    return Err(PublishError::Unavailable(reason.into()));
                }
                return Ok(session.parcels.clone());
            }
            State::Up(_) => 0,
            State::Down {
                again_at, reason, ..
            } if *again_at > Instant::now() => {
                return Err(PublishError::Unavailable(reason.as_str().into()));
            }
            State::Down { failures, .. } => *failures,
        };
        let opened = tokio::time::timeout(timeout, open(self.uri.clone(), exchange))
            .await
            .unwrap_or_else(|elapsed| Err(elapsed.into()));
        match opened {
            Ok(session) => {
                let parcels = session.parcels.clone();
                self.state = State::Up(session);
                Ok(parcels)
            }
            Err(error) => {
                self.state = State::Down {
                    again_at: Instant::now() + pause(failures),
                    failures: failures.saturating_add(1),
                    reason: error.to_string(),
                };
                Err(PublishError::Unavailable(error))
            }
        }
    }
}

impl Session {
    fn is_up(&self) -> bool {
        !self.parcels.is_closed()
            && self.channel.status().connected()
            && self.connection.connected()
    }
}

async fn open(uri: AMQPUri, exchange: &str) -> Result<Session, BoxError> {
    let properties = ConnectionProperties::default().with_connection_name("idem outbox".into());
    let connection = Connection::connect_uri(uri, properties).await?;
    let channel = connection.create_channel().await?;
    channel
        .confirm_select(ConfirmSelectOptions::default())
        .await?;
    if !exchange.is_empty() {
        // Publishing to an exchange that isn't there closes the channel, and nobody could tell which message was at fault.
        let only_look = ExchangeDeclareOptions {
            passive: true,
            ..ExchangeDeclareOptions::default()
        };
        let kind = ExchangeKind::default();
        channel
            .exchange_declare(exchange.into(), kind, only_look, FieldTable::default())
            .await?;
    }
    let (parcels, taken) = mpsc::unbounded_channel();
    let session = Session {
        parcels,
        channel: channel.clone(),
        connection: connection.status().clone(),
    };
    let exchange = exchange.into();
    tokio::spawn(async move {
        confirms::run(channel, exchange, taken).await;
        // A broker that is gone answers no farewell.
        let farewell = connection.close(REPLY_SUCCESS, "done".into());
        let _ = tokio::time::timeout(LONGEST_PAUSE, farewell).await;
    });
    Ok(session)
}

/// Doubled with each failure.
fn pause(failures: u32) -> Duration {
    doubled(FIRST_PAUSE, LONGEST_PAUSE, failures)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_up_to_the_longest() {
        for failures in [0, 1, 5, 6, 7, 40, u32::MAX] {
            let most = FIRST_PAUSE
                .saturating_mul(2_u32.saturating_pow(failures))
                .min(LONGEST_PAUSE);
            let pause = pause(failures);
            assert!(pause <= most && pause >= most / 2, "{failures}: {pause:?}");
        }
    }
}
