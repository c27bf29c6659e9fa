//! One task publishes on a channel and waits for its confirms.
//!
//! lapin numbers a message and queues its frames in two steps, which must not be mixed with another message's; and only who looks at all
//! confirms together can tell which message came back.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::{Context, Poll};

use lapin::options::BasicPublishOptions;
use lapin::types::ShortString;
use lapin::{Channel, Confirmation};
use tokio::sync::mpsc;

use super::parcel::{Answer, Parcel};
use super::returns::{Returned, Returns};
use crate::outbox::{BoxError, PublishError};

/// With more confirms outstanding that nobody waits for any more, the channel is given up.
const MOST_ABANDONED: usize = 1000;

/// Publishes until the channel is closed, or nobody can send parcels any more.
pub(super) async fn run(
    channel: Channel,
    exchange: ShortString,
    parcels: mpsc::UnboundedReceiver<Parcel>,
) {
    let mut confirms = Confirms {
        channel,
        exchange,
        parcels,
        in_flight: Vec::new(),
        returns: Returns::default(),
        broken: false,
    };
    poll_fn(|context| confirms.poll(context)).await;
    // What's in flight or waits for a proof is answered by being dropped, as unconfirmed; the rest was never sent.
    confirms.parcels.close();
    while let Ok(parcel) = confirms.parcels.try_recv() {
        let _ = parcel.answer.send(Err(not_sent()));
    }
}

struct Confirms {
    channel: Channel,
    exchange: ShortString,
    parcels: mpsc::UnboundedReceiver<Parcel>,
    in_flight: Vec<InFlight>,
    returns: Returns<Answer>,
    /// A confirm will never come.
    broken: bool,
}

struct InFlight {
    id: String,
    answer: Answer,
    confirm: Pin<Box<dyn Future<Output = Result<Confirmation, PublishError>> + Send>>,
}

impl Confirms {
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<()> {
        loop {
            while let Poll::Ready(parcel) = self.parcels.poll_recv(context) {
                match parcel {
                    Some(parcel) => self.publish(parcel),
                    None => return Poll::Ready(()),
                }
            }
            // Until a look finds nothing new: what came before the last confirm that is known of is known then, too.
            if !self.look(context) {
                break;
            }
        }
        let none_outstanding = self.in_flight.is_empty() && !self.broken;
        for (answer, returned) in self.returns.settle(none_outstanding) {
            let _ = answer.send(match returned {
                None => Ok(()),
                Some(returned) => Err(PublishError::Failed(returned.into())),
            });
        }
        if !self.broken && self.channel.status().connected() && !self.has_too_many_abandoned() {
            Poll::Pending
        } else {
            Poll::Ready(())
        }
    }

    fn publish(&mut self, parcel: Parcel) {
        let (channel, exchange) = (self.channel.clone(), self.exchange.clone());
        let Parcel {
            id,
            routing_key,
            properties,
            payload,
            answer,
        } = parcel;
        let confirm = Box::pin(async move {
            if !channel.status().connected() {
                return Err(not_sent());
            }
            let options = BasicPublishOptions {
                mandatory: true,
                ..BasicPublishOptions::default()
            };
            let published =
                channel.basic_publish(exchange, routing_key, options, &payload, properties);
            let confirm = published.await.map_err(unconfirmed)?;
            drop(payload);
            confirm.await.map_err(unconfirmed)
        });
        self.in_flight.push(InFlight {
            id,
            answer,
            confirm,
        });
    }

    /// Looks at every confirm once; whether one has come.
    fn look(&mut self, context: &mut Context<'_>) -> bool {
        self.returns.next_look();
        let before = self.in_flight.len();
        // In the order in which they were taken, in which the first poll sends them.
        let mut waiting = Vec::with_capacity(before);
        for mut one in self.in_flight.drain(..) {
            let Poll::Ready(confirmation) = one.confirm.as_mut().poll(context) else {
                waiting.push(one);
                continue;
            };
            match confirmation {
                Ok(Confirmation::Ack(carried)) => {
                    let carried = carried.as_ref().map(Returned::from);
                    self.returns.confirmed(one.id, carried, one.answer);
                }
                Ok(Confirmation::Nack(carried)) => {
                    self.returns.refused(carried.as_ref().map(Returned::from));
                    let _ = one.answer.send(Err(PublishError::Failed(
                        "RabbitMQ refused it (nack)".into(),
                    )));
                }
                Ok(Confirmation::NotRequested) => {
                    let _ = one.answer.send(Err(PublishError::Unconfirmed(
                        "the channel confirms nothing".into(),
                    )));
                }
                Err(error) => {
                    self.broken = true;
                    let _ = one.answer.send(Err(error));
                }
            }
        }
        self.in_flight = waiting;
        self.in_flight.len() < before
    }

    fn has_too_many_abandoned(&self) -> bool {
        self.in_flight.len() > MOST_ABANDONED
            && self
                .in_flight
                .iter()
                .filter(|one| one.answer.is_closed())
                .count()
                > MOST_ABANDONED
    }
}

fn not_sent() -> PublishError {
    PublishError::Unavailable("the channel was closed".into())
}

fn unconfirmed(error: lapin::Error) -> PublishError {
    PublishError::Unconfirmed(BoxError::from(error))
}
