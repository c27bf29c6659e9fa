//! One run of a relay: its lanes, what it is publishing, and what it has not written down yet.

use std::collections::HashSet;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use tokio::time::{Instant, timeout_at};
use tokio_util::task::AbortOnDropHandle;

use super::Relayed;
use super::ceiling::Ceiling;
use super::floor::Floor;
use super::lease::Lease;
use super::pace::Pace;
use super::publishing::Done;
use super::routes::Routes;
use super::settings::RelaySettings;
use super::store::Store;
use crate::atomic::new_owner;
use crate::backend::Backend;
use crate::backend::outbox::{Horizon, Outcome};
use crate::faults;
use crate::idempotency::{Idempotency, StoreError};
use crate::outbox::Lanes;
use crate::telemetry;

/// How long a batch is waited for, before others are read beside what is slow.
const LINGER: Duration = Duration::from_millis(25);
/// How long a connection is kept while messages are being published.
const KEEP: Duration = Duration::from_millis(10);
/// How soon a relay asks again for lanes that it should have, and others still hold.
const SHARE_AGAIN: Duration = Duration::from_millis(500);
/// How often delivered messages are swept, and how many at once.
const SWEEP: (Duration, u32) = (Duration::from_secs(10), 1000);
/// The pause between two batches of a sweep.
const SWEEP_AGAIN: Duration = Duration::from_millis(50);
/// How often messages are counted.
const COUNT: Duration = Duration::from_secs(60);

mod note;
mod reading;
mod share;

type InFlight = FuturesUnordered<BoxFuture<'static, Vec<Done>>>;

/// A route whose publisher is out of reach.
#[derive(Clone, Copy, Debug, Default)]
struct Pause {
    until: Option<Instant>,
    failures: u32,
}

impl Pause {
    fn is_on(&self) -> bool {
        self.until.is_some_and(|until| Instant::now() < until)
    }
}

/// What a batch says about where to read from next, if all of it is settled, and what was being published when it was read.
#[derive(Clone, Copy, Debug)]
struct Seen {
    /// The last that was read of those that never failed.
    position: Option<i64>,
    horizon: Horizon,
    /// Up to which nothing else is to appear.
    believed: i64,
}

pub(super) struct Session<DB: Backend> {
    store: Store<DB>,
    settings: RelaySettings,
    routes: Arc<Routes>,
    id: [u8; 16],
    lease: Arc<Lease>,
    pauses: Vec<Pause>,
    floor: Floor,
    pace: Pace,
    ceiling: Ceiling,
    in_flight: InFlight,
    /// Positions, keys and lanes of what is being published.
    positions: HashSet<i64>,
    keys: HashSet<String>,
    lanes: Lanes,
    /// What has been published for long, and its keys.
    slow: HashSet<i64>,
    slow_keys: Vec<String>,
    /// A message was not delivered since the database was asked last; and the keys of such messages.
    disturbed: bool,
    held_up: HashSet<String>,
    /// The last batch was full: there may be more.
    full: bool,
    done: Vec<Done>,
    /// What is not written down yet.
    outcome: Outcome,
    /// Of the batch that is being published, and of the one that is to be written down.
    seen: Option<Seen>,
    seen_done: Option<Seen>,
    share_at: Instant,
    sweep_at: Instant,
    count_at: Instant,
    counting: Option<AbortOnDropHandle<()>>,
    pub(super) relayed: Relayed,
}

impl<DB: Backend> Session<DB> {
    pub(super) fn new(
        idempotency: Idempotency<DB>,
        settings: RelaySettings,
        routes: Arc<Routes>,
    ) -> Self {
        let now = Instant::now();
        Self {
            store: Store::new(idempotency),
            pauses: vec![Pause::default(); routes.len()],
            outcome: Outcome {
                keep: !settings.keep_delivered.is_zero(),
                ..Outcome::default()
            },
            settings,
            routes,
            id: new_owner(),
            lease: Arc::new(Lease::new()),
            floor: Floor::new(),
            pace: Pace::default(),
            ceiling: Ceiling::default(),
            in_flight: FuturesUnordered::new(),
            positions: HashSet::new(),
            keys: HashSet::new(),
            lanes: Lanes::default(),
            slow: HashSet::new(),
            slow_keys: Vec::new(),
            disturbed: false,
            held_up: HashSet::new(),
            full: false,
            done: Vec::new(),
            seen: None,
            seen_done: None,
            share_at: now,
            sweep_at: now,
            count_at: now + COUNT.mul_f64(fastrand::f64()),
            counting: None,
            relayed: Relayed::default(),
        }
    }

    /// Writes down what was published, reads a batch, and begins to publish it. While there is more than a batch it is read
    /// beside the publishing of the one before. Returns whether there may be more to do at once.
    pub(super) async fn round(&mut self) -> Result<bool, StoreError> {
        if Instant::now() >= self.share_at {
            // Before a lane is given away: what is not written down there, another relay would publish again.
            self.collect().await;
            self.settle().await?;
            self.share().await?;
        }
        let any = self.read().await?;
        if !self.full {
            self.collect().await;
        }
        self.keep_house().await?;
        Ok(any || !self.outcome.is_empty())
    }

    /// Ready when something that is being published has ended; never while nothing is.
    pub(super) async fn next_done(&mut self) {
        self.store.release();
        match self.in_flight.next().await {
            Some(done) => self.done.extend(done),
            None => std::future::pending().await,
        }
    }

    pub(super) fn is_publishing(&self) -> bool {
        !self.in_flight.is_empty()
    }

    /// Until when nothing is to be done unless something happens.
    pub(super) fn idle_until(&self) -> Instant {
        let poll = Instant::now() + self.settings.poll;
        let paused = self.pauses.iter().filter_map(|pause| pause.until);
        let paused = paused.filter(|until| *until > Instant::now());
        [self.share_at, self.sweep_at, self.count_at]
            .into_iter()
            .chain(paused)
            .fold(poll, Instant::min)
    }

    /// Publishes what is begun to its end, writes it down, and gives the lanes back.
    pub(super) async fn close(&mut self) {
        self.lease.close();
        let until = Instant::now() + self.settings.timeout + self.settings.lease;
        let mut pause = Duration::from_millis(50);
        loop {
            while let Ok(Some(done)) = timeout_at(until, self.in_flight.next()).await {
                self.done.extend(done);
            }
            let left = match self.settle().await {
                Ok(()) => self.leave().await,
                error => error,
            };
            match left {
                Ok(()) => return,
                Err(error) if error.is_of_closed_pool() || Instant::now() + pause >= until => {
                    tracing::warn!(target: "idem", %error, "a relay could not end in order: what it published last may be published again");
                    return;
                }
                Err(_) => tokio::time::sleep(pause).await,
            }
            pause = (pause * 2).min(Duration::from_secs(1));
        }
    }

    /// Waits for what is being published, a little while, but not for what has been waited for already.
    async fn collect(&mut self) {
        self.note();
        let mut awaited = self.positions.len() - self.slow.len();
        let begun = Instant::now();
        for limit in [begun + KEEP, begun + LINGER] {
            while awaited > 0
                && let Ok(Some(ended)) = timeout_at(limit, self.in_flight.next()).await
            {
                let ended_now = ended
                    .iter()
                    .filter(|done| !self.slow.contains(&done.row.position));
                awaited -= ended_now.count();
                self.done.extend(ended);
            }
            if awaited == 0 {
                break;
            }
            self.store.release();
        }
        self.note();
        if !self.positions.is_empty() {
            // It may fail yet.
            self.seen = None;
        }
        self.slow.clone_from(&self.positions);
        self.slow_keys.clear();
        self.slow_keys.extend(self.keys.iter().cloned());
    }

    /// Writes down what became of messages.
    async fn settle(&mut self) -> Result<(), StoreError> {
        self.note();
        if self.outcome.is_empty() {
            return Ok(());
        }
        faults::point("relay.settle.before");
        let Self { store, outcome, .. } = self;
        let settling = store
            .write(async |connection: &mut DB::Connection| DB::settle(connection, outcome).await);
        beside(&mut self.in_flight, &mut self.done, settling).await?;
        self.settled();
        Ok(())
    }

    /// The outcome is written down.
    fn settled(&mut self) {
        faults::point("relay.settle.after");
        self.outcome.clear();
        if let Some(seen) = self.seen_done.take() {
            self.floor.raise(seen.believed);
            if let Some(position) = seen.position {
                self.floor.settled(position, seen.horizon);
            }
        }
    }

    /// Sweeps what is delivered and kept long enough, and counts what is there.
    async fn keep_house(&mut self) -> Result<(), StoreError> {
        let now = Instant::now();
        if now >= self.sweep_at {
            let (every, batch) = SWEEP;
            let keep = self.settings.keep_delivered;
            let swept = self.store.write(async |connection: &mut DB::Connection| {
                DB::sweep_delivered(connection, keep, batch).await
            });
            let swept = beside(&mut self.in_flight, &mut self.done, swept).await?;
            let more = swept >= u64::from(batch);
            self.sweep_at = Instant::now() + if more { SWEEP_AGAIN } else { every };
        }
        if now >= self.count_at {
            self.count_at = now + COUNT;
            if cfg!(feature = "metrics") {
                let counting = tokio::spawn(count(self.store.idempotency.clone()));
                self.counting = Some(AbortOnDropHandle::new(counting));
            }
        }
        Ok(())
    }
}

/// Counts the messages, which takes long where many are: beside the relay's work.
async fn count<DB: Backend>(idempotency: Idempotency<DB>) {
    let limit = Instant::now() + COUNT;
    let counted = async {
        let mut alone = idempotency.reading(limit).await?;
        alone
            .run(limit, async |connection: &mut DB::Connection| {
                DB::count_messages(connection).await
            })
            .await
    };
    match counted.await {
        Ok(counted) => telemetry::outbox::counted(&counted),
        Err(error) => {
            tracing::debug!(target: "idem", %error, "the messages of the outbox could not be counted")
        }
    }
}

/// Waits for a statement. What is being published goes on meanwhile.
async fn beside<T>(
    in_flight: &mut InFlight,
    done: &mut Vec<Done>,
    statement: impl Future<Output = T>,
) -> T {
    let mut statement = pin!(statement);
    loop {
        tokio::select! {
            biased;
            result = &mut statement => return result,
            Some(ended) = in_flight.next() => done.extend(ended),
        }
    }
}
