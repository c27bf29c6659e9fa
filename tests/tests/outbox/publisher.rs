//! A broker in memory: it remembers all that it was given, and confirms, or does not, as a test plans.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use idem_runtime::outbox::{OutboxMessage, PublishError, Publisher};
use serde_json::Value;

use crate::checker::Received;

/// What it does with a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Say {
    /// It has it, and says so.
    Confirm,
    /// It has it, and the confirmation is lost.
    LoseConfirmation,
    /// It does not take it.
    Fail,
    /// The same, for so long.
    FailFor(Duration),
    /// The same, with a remote answer that is long and no text.
    Quote,
    /// It never will.
    Reject,
    /// Nobody is there.
    Unavailable,
    /// It says nothing.
    Hang,
    /// Its client has a bug.
    Panic,
}

/// What it was given.
#[derive(Clone, Debug)]
pub(crate) struct Delivery {
    pub(crate) id: String,
    pub(crate) topic: String,
    pub(crate) key: Option<String>,
    pub(crate) payload: Value,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) attempt: u32,
    pub(crate) at: Instant,
}

type Plan = Box<dyn Fn(&OutboxMessage) -> Say + Send + Sync>;

#[derive(Clone)]
pub(crate) struct Broker(Arc<Inner>);

struct Inner {
    has: Mutex<Vec<Delivery>>,
    asked: Mutex<Vec<String>>,
    plan: Plan,
    latency: Duration,
}

impl Broker {
    pub(crate) fn new(plan: impl Fn(&OutboxMessage) -> Say + Send + Sync + 'static) -> Self {
        Self::slow(Duration::ZERO, plan)
    }

    pub(crate) fn slow(
        latency: Duration,
        plan: impl Fn(&OutboxMessage) -> Say + Send + Sync + 'static,
    ) -> Self {
        Self(Arc::new(Inner {
            has: Mutex::default(),
            asked: Mutex::default(),
            plan: Box::new(plan),
            latency,
        }))
    }

    pub(crate) fn that_confirms() -> Self {
        Self::new(|_| Say::Confirm)
    }

    /// What it has, in the order in which it came.
    pub(crate) fn has(&self) -> Vec<Delivery> {
        self.0.has.lock().expect("no holder panics").clone()
    }

    pub(crate) fn ids(&self) -> Vec<String> {
        self.has().into_iter().map(|delivery| delivery.id).collect()
    }

    /// The same, as it is judged.
    pub(crate) fn received(&self) -> Vec<Received> {
        let received = self.has().into_iter().map(|has| Received {
            n: has.payload["n"].as_u64().expect("a letter has a number"),
            key: has.key.unwrap_or_default(),
            id: has.id,
        });
        received.collect()
    }

    /// The topics of all attempts, successful or not.
    pub(crate) fn asked(&self) -> Vec<String> {
        self.0.asked.lock().expect("no holder panics").clone()
    }
}

impl Publisher for Broker {
    async fn publish(&self, message: &OutboxMessage) -> Result<(), PublishError> {
        let asked = message.topic().to_owned();
        self.0.asked.lock().expect("no holder panics").push(asked);
        if !self.0.latency.is_zero() {
            tokio::time::sleep(self.0.latency).await;
        }
        let say = (self.0.plan)(message);
        if matches!(say, Say::Confirm | Say::LoseConfirmation) {
            let delivery = Delivery {
                id: message.id().to_string(),
                topic: message.topic().to_owned(),
                key: message.ordering_key().map(str::to_owned),
                payload: serde_json::from_slice(message.payload()).expect("JSON was staged"),
                headers: message
                    .headers()
                    .map(|(name, value)| (name.to_owned(), value.to_owned()))
                    .collect(),
                attempt: message.attempt(),
                at: Instant::now(),
            };
            self.0.has.lock().expect("no holder panics").push(delivery);
        }
        match say {
            Say::Confirm => Ok(()),
            Say::LoseConfirmation => Err(PublishError::Unconfirmed("it got lost".into())),
            Say::Fail => Err(PublishError::Failed("the queue is full".into())),
            Say::FailFor(time) => Err(PublishError::failed_until("come again later", time)),
            Say::Quote => Err(PublishError::Failed("it says a\0b ".repeat(10_000).into())),
            Say::Reject => Err(PublishError::Rejected("no such exchange".into())),
            Say::Unavailable => Err(PublishError::Unavailable("connection refused".into())),
            Say::Hang => std::future::pending().await,
            Say::Panic => panic!("a bug of the publisher's, as planned"),
        }
    }
}
