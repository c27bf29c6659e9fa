//! A broker in memory, which delivers again what is not acknowledged, and says what it was told.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use idem_runtime::inbox::{
    Consumers, ConsumersHandle, Delivery, Horizon, Incoming, Redelivery, Source, SourceError,
};
use idem_tests::servers::TestDatabase;
use tokio::sync::Notify;

use super::setup::{AppState, Tested};

#[derive(Clone)]
pub(crate) struct Broker {
    shared: Arc<Shared>,
}

struct Shared {
    redelivery: Redelivery,
    timeout: Duration,
    queue: Mutex<VecDeque<Incoming>>,
    arrived: Notify,
    told: Mutex<Told>,
    lost_acknowledgements: AtomicUsize,
    lost_dead_letters: AtomicUsize,
    /// Where effects are counted at each acknowledgement.
    effects: Option<Arc<TestDatabase>>,
}

const HORIZON: Horizon = Horizon::Within(Duration::from_secs(3600));

/// What a broker was told.
#[derive(Clone, Debug, Default)]
pub(crate) struct Told {
    pub(crate) acknowledged: Vec<String>,
    /// How many effects there were at each of these.
    pub(crate) effects: Vec<i64>,
    pub(crate) retried: Vec<(String, Duration)>,
    pub(crate) dead: Vec<(Incoming, String)>,
    pub(crate) extended: usize,
    /// Messages that were silent for longer than the time-out.
    pub(crate) late: usize,
}

impl Broker {
    pub(crate) fn new() -> Self {
        Self::after_silence(Duration::from_secs(30))
    }

    /// A message is delivered to somebody else after so long a silence.
    pub(crate) fn after_silence(timeout: Duration) -> Self {
        Self::of(
            Redelivery::after_silence(timeout).horizon(HORIZON),
            timeout,
            None,
        )
    }

    /// A message is delivered to somebody else after so long, whatever is said of it.
    pub(crate) fn after(timeout: Duration) -> Self {
        Self::of(Redelivery::after(timeout).horizon(HORIZON), timeout, None)
    }

    /// What it says at the start is all that matters.
    pub(crate) fn with(redelivery: Redelivery) -> Self {
        Self::of(redelivery, Duration::MAX, None)
    }

    /// Counts effects at each acknowledgement.
    pub(crate) fn counting(database: Arc<TestDatabase>) -> Self {
        let timeout = Duration::from_secs(30);
        let redelivery = Redelivery::after_silence(timeout).horizon(HORIZON);
        Self::of(redelivery, timeout, Some(database))
    }

    fn of(redelivery: Redelivery, timeout: Duration, effects: Option<Arc<TestDatabase>>) -> Self {
        Self {
            shared: Arc::new(Shared {
                redelivery,
                timeout,
                queue: Mutex::default(),
                arrived: Notify::new(),
                told: Mutex::default(),
                lost_acknowledgements: AtomicUsize::new(0),
                lost_dead_letters: AtomicUsize::new(0),
                effects,
            }),
        }
    }

    /// Starts consumers of its messages.
    pub(crate) async fn feed<DB: Tested>(
        &self,
        consumers: Consumers<DB, AppState>,
    ) -> ConsumersHandle {
        let consumers = consumers.source("orders", self.clone());
        consumers.spawn().await.unwrap()
    }

    /// Publishes messages, which are delivered in one batch if there are places.
    pub(crate) fn publish(&self, messages: impl IntoIterator<Item = Incoming>) {
        self.shared.queue.lock().unwrap().extend(messages);
        self.shared.arrived.notify_one();
    }

    pub(crate) fn lose_acknowledgements(&self, number: usize) {
        self.shared
            .lost_acknowledgements
            .store(number, Ordering::SeqCst);
    }

    /// How many acknowledgements are still to be lost.
    pub(crate) fn acknowledgements_to_lose(&self) -> usize {
        self.shared.lost_acknowledgements.load(Ordering::SeqCst)
    }

    pub(crate) fn lose_dead_letters(&self, number: usize) {
        self.shared
            .lost_dead_letters
            .store(number, Ordering::SeqCst);
    }

    pub(crate) fn told(&self) -> Told {
        self.shared.told.lock().unwrap().clone()
    }

    pub(crate) fn waiting(&self) -> usize {
        self.shared.queue.lock().unwrap().len()
    }
}

impl Source for Broker {
    type Delivery = FakeDelivery;

    async fn start(&mut self) -> Result<Redelivery, SourceError> {
        Ok(self.shared.redelivery)
    }

    async fn receive(&mut self, most: usize) -> Result<Vec<FakeDelivery>, SourceError> {
        loop {
            let arrived = self.shared.arrived.notified();
            let messages: Vec<Incoming> = {
                let mut queue = self.shared.queue.lock().unwrap();
                let number = most.min(queue.len());
                queue.drain(..number).collect()
            };
            if messages.is_empty() {
                arrived.await;
                continue;
            }
            let deliver = |message| FakeDelivery {
                message,
                broker: self.clone(),
                heard: Instant::now(),
            };
            return Ok(messages.into_iter().map(deliver).collect());
        }
    }
}

pub(crate) struct FakeDelivery {
    message: Incoming,
    broker: Broker,
    heard: Instant,
}

impl FakeDelivery {
    fn id(&self) -> String {
        self.message.message_id().unwrap_or_default().to_owned()
    }

    fn again(&self, after: Duration) {
        let next = self.message.delivery() + 1;
        let message = self.message.clone().with_delivery(next);
        let broker = self.broker.clone();
        tokio::spawn(async move {
            tokio::time::sleep(after).await;
            broker.publish([message]);
        });
    }

    /// Notes whether the broker would have delivered it to somebody else by now.
    fn hear(&mut self) {
        if self.heard.elapsed() > self.broker.shared.timeout {
            self.broker.shared.told.lock().unwrap().late += 1;
        }
        self.heard = Instant::now();
    }
}

impl Delivery for FakeDelivery {
    fn message(&self) -> &Incoming {
        &self.message
    }

    async fn acknowledge(&mut self) -> Result<(), SourceError> {
        self.hear();
        let shared = self.broker.shared.clone();
        if let Some(database) = &shared.effects {
            let effects = database.number("SELECT COUNT(*) FROM effects").await;
            shared.told.lock().unwrap().effects.push(effects);
        }
        let lost = &shared.lost_acknowledgements;
        let is_lost = lost.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| {
            left.checked_sub(1)
        });
        if is_lost.is_ok() {
            return Err(SourceError::unavailable("lost on purpose"));
        }
        shared.told.lock().unwrap().acknowledged.push(self.id());
        Ok(())
    }

    async fn extend(&mut self) -> Result<(), SourceError> {
        self.hear();
        self.broker.shared.told.lock().unwrap().extended += 1;
        Ok(())
    }

    async fn retry(&mut self, after: Duration) -> Result<(), SourceError> {
        self.hear();
        let told = (self.id(), after);
        self.broker.shared.told.lock().unwrap().retried.push(told);
        self.again(after);
        Ok(())
    }

    async fn dead_letter(&mut self, reason: &str) -> Result<(), SourceError> {
        let lost = &self.broker.shared.lost_dead_letters;
        let is_lost = lost.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| {
            left.checked_sub(1)
        });
        if is_lost.is_ok() {
            return Err(SourceError::unavailable("lost on purpose"));
        }
        let told = (self.message.clone(), reason.to_owned());
        self.broker.shared.told.lock().unwrap().dead.push(told);
        Ok(())
    }
}
