//! Reading: a batch, beside the publishing of the one before it.

use tokio::time::Instant;

use super::{Seen, Session, beside};
use crate::backend::Backend;
use crate::backend::outbox::{Ask, Batch, Fetched};
use crate::faults;
use crate::idempotency::StoreError;
use crate::outbox::MessageState;
use crate::outbox::relay::publishing::Group;

impl<DB: Backend> Session<DB> {
    /// Writes down what became of messages, reads a batch and begins to publish it. Returns whether there was anything.
    pub(super) async fn read(&mut self) -> Result<bool, StoreError> {
        // A batch is written down as a whole, unless a part of it is slow.
        if self.in_flight.is_empty() {
            self.note();
        }
        let lanes = self.lease.lanes();
        let pauses = &self.pauses;
        let is_paused = |route: usize| pauses[route].is_on();
        let batch = self.settings.batch;
        let slow = u32::try_from(self.slow.len()).unwrap_or(u32::MAX);
        self.full = false;
        if lanes.is_empty() || slow >= batch || self.routes.all_paused(is_paused) {
            self.collect().await;
            self.settle().await?;
            return Ok(false);
        }
        let paused = self.routes.paused(is_paused);
        let positions: Vec<i64> = self.positions.iter().copied().collect();
        let begun = Instant::now();
        let floor = self.floor.position(begun);
        let ask = Ask {
            lanes,
            floor,
            ceiling: self.ceiling.position(),
            paused: &paused,
            busy: &positions,
            busy_keys: &self.slow_keys,
            pending: batch - slow,
            due: self.settings.due(),
            plan: self.pace.plan(),
        };
        // Whatever does not come of what is being published is not in the batch, either.
        self.disturbed = false;
        self.held_up.clear();
        let settles = !self.outcome.is_empty();
        if settles {
            faults::point("relay.settle.before");
        }
        faults::point("relay.fetch");
        let (store, outcome) = (&mut self.store, &self.outcome);
        let read = async {
            if settles && DB::SINGLE_WRITER {
                // The writer's turn is for the writing.
                store
                    .write(async |connection: &mut DB::Connection| {
                        DB::settle(connection, outcome).await
                    })
                    .await?;
                let nothing = Default::default();
                return store
                    .read(async |connection: &mut DB::Connection| {
                        DB::fetch(connection, &ask, &nothing).await
                    })
                    .await;
            }
            store
                .read(async |connection: &mut DB::Connection| {
                    DB::fetch(connection, &ask, outcome).await
                })
                .await
        };
        let read = beside(&mut self.in_flight, &mut self.done, read).await;
        self.pace.took(begun.elapsed());
        let Batch { rows, horizon } = read.inspect_err(|error| {
            if !matches!(error, StoreError::TimedOut(_)) {
                self.floor.doubt();
            }
        })?;
        let wanted = ask.pending as usize;
        let pending = rows.iter().filter(|row| row.state == MessageState::Pending);
        let pending: Vec<i64> = pending.map(|row| row.position).collect();
        let (lowest, position) = (pending.first().copied(), pending.last().copied());
        self.full = self.ceiling.read(position, pending.len() >= wanted);
        if !self.floor.read(floor, lowest, horizon, begun) {
            self.seen = None;
            self.seen_done = None;
        }
        if settles {
            self.settled();
        }
        let usual = slow == 0 && paused.is_empty();
        let seen = horizon
            .filter(|horizon| usual && !horizon.blocked)
            .map(|horizon| {
                let believed = self.floor.believed(horizon);
                Seen {
                    position,
                    horizon,
                    // If it is full, there may be more below what is believed.
                    believed: if self.full {
                        believed.min(position.unwrap_or(0))
                    } else {
                        believed
                    },
                }
            });
        let any = self.full || !rows.is_empty();
        // The batch before is to end first, for its keys go before.
        self.collect().await;
        self.begin(rows, seen);
        Ok(any)
    }

    /// Begins to publish what is read, but for what must wait. That is read again.
    fn begin(&mut self, rows: Vec<Fetched>, seen: Option<Seen>) {
        let read = rows.len();
        let room = self.settings.most().saturating_sub(self.slow.len());
        let rows: Vec<_> = rows
            .into_iter()
            .filter(|row| self.is_next(row))
            .take(room)
            .collect();
        let whole = rows.len() == read && self.slow.is_empty() && !self.disturbed;
        self.seen = seen.filter(|_| whole);
        self.lanes = rows
            .iter()
            .map(|row| row.lane)
            .chain(self.lanes.iter())
            .collect();
        for group in Group::of(rows) {
            self.positions.extend(group.positions());
            self.keys.extend(group.ordering_key().map(str::to_owned));
            let (routes, lease) = (self.routes.clone(), self.lease.clone());
            let published = group.publish(routes, lease, self.settings.timeout);
            self.in_flight.push(Box::pin(published));
        }
    }

    /// Whether nothing has come between its reading and now.
    fn is_next(&self, row: &Fetched) -> bool {
        let message = &row.message;
        let paused = self
            .routes
            .of(message.topic())
            .is_some_and(|(route, _)| self.pauses[route].is_on());
        let waits = message
            .ordering_key()
            .is_some_and(|key| self.keys.contains(key) || self.held_up.contains(key));
        !paused && !waits
    }
}
