//! One run of a relay: its lanes, what it is publishing, and what it has not written down yet.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use tokio::time::{Instant, timeout_at};

use super::Relayed;
use super::floor::Floor;
use super::lease::Lease;
use super::publishing::{Done, Group};
use super::routes::Routes;
use super::settings::RelaySettings;
use super::store::Store;
use crate::atomic::new_owner;
use crate::backend::Backend;
use crate::backend::outbox::{Ask, Batch, Horizon, Outcome};
use crate::faults;
use crate::idempotency::{Idempotency, StoreError};
use crate::outbox::MessageState;
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
mod share;

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

/// What a batch says about where to read from next, if all of it is settled.
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
    in_flight: FuturesUnordered<BoxFuture<'static, Vec<Done>>>,
    /// Positions, keys and lanes of what is being published.
    positions: HashSet<i64>,
    keys: HashSet<String>,
    lanes: Vec<u8>,
    done: Vec<Done>,
    /// What is not written down yet.
    outcome: Outcome,
    seen: Option<Seen>,
    share_at: Instant,
    sweep_at: Instant,
    count_at: Instant,
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
            in_flight: FuturesUnordered::new(),
            positions: HashSet::new(),
            keys: HashSet::new(),
            lanes: Vec::new(),
            done: Vec::new(),
            seen: None,
            share_at: now,
            sweep_at: now,
            count_at: now + COUNT.mul_f64(fastrand::f64()),
            relayed: Relayed::default(),
        }
    }

    /// Reads, publishes and writes down. Returns whether there may be more to do at once.
    pub(super) async fn round(&mut self) -> Result<bool, StoreError> {
        // Before a lane is given away: what is not written down there, another relay would publish again.
        self.settle().await?;
        if Instant::now() >= self.share_at {
            self.share().await?;
        }
        let fetched = self.fetch().await?;
        self.collect().await;
        let done = !self.done.is_empty();
        self.settle().await?;
        self.keep_house().await?;
        Ok(fetched || done)
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

    /// Reads a batch and begins to publish it. Returns whether there was anything.
    async fn fetch(&mut self) -> Result<bool, StoreError> {
        self.seen = None;
        let lanes = self.lease.lanes();
        let batch = self.settings.batch;
        let busy = u32::try_from(self.positions.len()).unwrap_or(u32::MAX);
        let pauses = &self.pauses;
        let is_paused = |route: usize| pauses[route].is_on();
        if lanes.is_empty() || busy >= batch || self.routes.all_paused(is_paused) {
            return Ok(false);
        }
        let paused = self.routes.paused(is_paused);
        let positions: Vec<i64> = self.positions.iter().copied().collect();
        let keys: Vec<&str> = self.keys.iter().map(String::as_str).collect();
        let ask = Ask {
            lanes,
            floor: self.floor.position(Instant::now()),
            paused: &paused,
            busy: &positions,
            busy_keys: &keys,
            pending: batch - busy,
            due: (batch / 2).max(1),
        };
        faults::point("relay.fetch");
        let fetched = self
            .store
            .read(async |connection: &mut DB::Connection| DB::fetch(connection, &ask).await);
        let Batch { rows, horizon } = fetched.await?;
        if let Some(horizon) = horizon
            && !horizon.blocked
            && busy == 0
            && paused.is_empty()
        {
            let pending = rows.iter().filter(|row| row.state == MessageState::Pending);
            let position = pending.clone().map(|row| row.position).max();
            let mut believed = self.floor.believed(horizon);
            if pending.count() >= batch as usize {
                // There may be more below it.
                believed = believed.min(position.unwrap_or(0));
            }
            let seen = Seen {
                position,
                horizon,
                believed,
            };
            if rows.is_empty() {
                self.floor.raise(believed);
            } else {
                self.seen = Some(seen);
            }
        }
        let any = !rows.is_empty();
        self.lanes.extend(rows.iter().map(|row| row.lane));
        for group in Group::of(rows) {
            self.positions.extend(group.positions());
            self.keys.extend(group.ordering_key().map(str::to_owned));
            let (routes, lease) = (self.routes.clone(), self.lease.clone());
            let published = group.publish(routes, lease, self.settings.timeout);
            self.in_flight.push(Box::pin(published));
        }
        Ok(any)
    }

    /// Waits for what is published, a little while.
    async fn collect(&mut self) {
        let begun = Instant::now();
        for limit in [begun + KEEP, begun + LINGER] {
            while !self.in_flight.is_empty() {
                match timeout_at(limit, self.in_flight.next()).await {
                    Ok(Some(done)) => self.done.extend(done),
                    _ => break,
                }
            }
            if self.in_flight.is_empty() {
                return;
            }
            self.store.release();
        }
        // What is slow may fail yet.
        self.seen = None;
    }

    /// Writes down what became of messages.
    async fn settle(&mut self) -> Result<(), StoreError> {
        for done in std::mem::take(&mut self.done) {
            self.note(done);
        }
        if self.in_flight.is_empty() {
            self.positions.clear();
            self.keys.clear();
            self.lanes.clear();
        }
        if self.outcome.delivered.is_empty() && self.outcome.failed.is_empty() {
            return Ok(());
        }
        faults::point("relay.settle.before");
        let outcome = &self.outcome;
        let settled = self
            .store
            .write(async |connection: &mut DB::Connection| DB::settle(connection, outcome).await);
        settled.await?;
        faults::point("relay.settle.after");
        self.outcome.delivered.clear();
        self.outcome.failed.clear();
        if let Some(seen) = self.seen.take() {
            self.floor.raise(seen.believed);
            if let Some(position) = seen.position {
                self.floor.settled(position, seen.horizon);
            }
        }
        Ok(())
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
            let more = swept.await? >= u64::from(batch);
            self.sweep_at = Instant::now() + if more { SWEEP_AGAIN } else { every };
        }
        if now >= self.count_at {
            self.count_at = now + COUNT;
            let counted = self
                .store
                .read(async |connection: &mut DB::Connection| DB::count_messages(connection).await);
            telemetry::outbox::counted(&counted.await?);
        }
        Ok(())
    }
}
