//! A run's traffic, and what follows it.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use futures_util::stream::{self, StreamExt};
use tokio::task::JoinSet;

use super::journey::Journey;
use super::{End, Hammer, Unusable};

/// How far a run is.
#[derive(Clone, Debug)]
pub struct Progress {
    elapsed: Duration,
    ended: [usize; 4],
    pending: usize,
    sent: u64,
    replays: u64,
    faults: u64,
    p99: Option<Duration>,
}

impl std::fmt::Display for Progress {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let [succeeded, refused, unknown, open] = self.ended;
        let seconds = self.elapsed.as_secs();
        write!(
            formatter,
            "{seconds:>4} s: {succeeded} keys succeeded, {refused} refused, {unknown} unknown, {open} given up, {} under way; \
             {} requests, {} replays",
            self.pending, self.sent, self.replays,
        )?;
        if let Some(p99) = self.p99 {
            write!(formatter, "; p99 {:.1} ms", p99.as_secs_f64() * 1e3)?;
        }
        if self.faults > 0 {
            write!(formatter, "; FAULTS: {}", self.faults)?;
        }
        Ok(())
    }
}

impl Hammer {
    /// Uses keys until there are enough, the time is over, or it is [stopped](Hammer::stop); returns when the last one has
    /// ended or was given up.
    ///
    /// # Errors
    ///
    /// When a key's request can't be made: its number or key does not fit in somewhere.
    ///
    /// # Cancel safety
    ///
    /// Dropped before it is done, it closes all connections; keys that were under way stay pending.
    pub async fn traffic(self: &Arc<Self>) -> Result<(), Unusable> {
        let start = Instant::now();
        let mut lanes = JoinSet::new();
        for _ in 0..self.settings.concurrency {
            let hammer = Arc::clone(self);
            lanes.spawn(async move { hammer.lane(start).await });
        }
        while let Some(lane) = lanes.join_next().await {
            lane.map_err(|error| Unusable(format!("a task failed: {error}")))??;
        }
        Ok(())
    }

    /// One key after the other.
    async fn lane(&self, start: Instant) -> Result<(), Unusable> {
        while let Some(number) = self.begin(start) {
            if let Some(rate) = self.settings.rate {
                let due = start + Duration::from_secs_f64(number as f64 / rate);
                tokio::time::sleep_until(due.into()).await;
            }
            let journey = Journey::new(self, number)?;
            self.tally().begun(number);
            journey.run().await;
        }
        Ok(())
    }

    /// Tries again each key that was given up, as a client does at its next start. How many are left.
    ///
    /// # Errors
    ///
    /// As [`traffic`](Hammer::traffic).
    ///
    /// # Cancel safety
    ///
    /// As [`traffic`](Hammer::traffic).
    pub async fn resolve(&self) -> Result<usize, Unusable> {
        let open: Vec<u64> = self.tally().ended(End::Open).collect();
        let journeys: Result<Vec<Journey<'_>>, Unusable> = open
            .into_iter()
            .map(|number| Journey::new(self, number))
            .collect();
        stream::iter(journeys?)
            .for_each_concurrent(self.settings.concurrency, Journey::resolve)
            .await;
        Ok(self.tally().ended(End::Open).count())
    }

    /// How far it is.
    pub fn progress(&self) -> Progress {
        let tally = self.tally();
        let count = |end| tally.ended(end).count();
        Progress {
            elapsed: self.start.elapsed(),
            ended: [End::Succeeded, End::Refused, End::Unknown, End::Open].map(count),
            pending: count(End::Pending),
            sent: tally.requests.sent,
            replays: tally.requests.replays,
            faults: tally.fault_count,
            p99: tally.executions.at(0.99),
        }
    }

    /// How many keys were begun.
    pub fn begun(&self) -> u64 {
        self.next.load(Ordering::Relaxed).min(self.settings.keys)
    }
}
