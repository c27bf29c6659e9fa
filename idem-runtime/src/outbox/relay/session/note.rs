//! What became of a message, until it is written down.

use std::time::Duration;

use tokio::time::Instant;

use super::{Pause, Session};
use crate::backend::Backend;
use crate::backend::outbox::FailedAttempt;
use crate::outbox::relay::publishing::{Done, Fate};
use crate::outbox::{Lanes, MessageState};
use crate::telemetry;

/// The longest time for which a receiver is left alone because it asks so.
const LONGEST_WISH: Duration = Duration::from_secs(24 * 3600);

impl<DB: Backend> Session<DB> {
    /// Takes note of what has ended.
    pub(super) fn note(&mut self) {
        for done in std::mem::take(&mut self.done) {
            self.note_one(done);
        }
        if self.in_flight.is_empty() {
            self.lanes = Lanes::default();
            if let Some(seen) = self.seen.take() {
                self.seen_done = Some(seen);
            }
        }
    }

    fn note_one(&mut self, Done { row, fate }: Done) {
        let message = &row.message;
        self.positions.remove(&row.position);
        self.slow.remove(&row.position);
        if let Some(key) = message.ordering_key() {
            self.keys.remove(key);
        }
        if !matches!(fate, Fate::Delivered) {
            if let Some(key) = message.ordering_key() {
                self.held_up.insert(key.to_owned());
            }
            if message.ordering_key().is_some() || !matches!(fate, Fate::Failed { .. }) {
                self.seen = None;
                self.disturbed = true;
            }
        }
        match fate {
            Fate::Delivered => {
                if let Some((route, _)) = self.routes.of(message.topic()) {
                    self.pauses[route] = Pause::default();
                }
                self.relayed.delivered += 1;
                telemetry::outbox::delivered();
                self.outcome.delivered.push((row.position, message.id()));
                self.outcome.unblocks |= row.state == MessageState::Failed;
            }
            Fate::Failed {
                reason,
                for_ever,
                after,
            } => {
                let attempt = message.attempt();
                let dead = for_ever || attempt >= self.settings.max_attempts;
                let delay = (!dead).then(|| {
                    let asked = after.unwrap_or_default().min(LONGEST_WISH);
                    self.settings.pause(attempt).max(asked)
                });
                telemetry::outbox::failed(message, &reason, delay);
                if dead {
                    self.relayed.dead += 1;
                } else {
                    self.relayed.failed += 1;
                }
                self.outcome.failed.push(FailedAttempt {
                    position: row.position,
                    id: message.id(),
                    attempts: attempt - 1,
                    delay,
                    reason,
                });
            }
            Fate::Unavailable { route, reason } => self.pause(route, &reason),
            Fate::Untried => {}
        }
    }

    fn pause(&mut self, route: usize, reason: &str) {
        let pause = self.pauses[route];
        // Of many that fail at once, one counts.
        if pause.is_on() {
            return;
        }
        let failures = pause.failures.saturating_add(1);
        let length = self.settings.pause(failures).min(Duration::from_secs(30));
        let prefix = self.routes.prefixes().nth(route).unwrap_or_default();
        telemetry::outbox::paused(prefix, reason, length);
        self.pauses[route] = Pause {
            until: Some(Instant::now() + length),
            failures,
        };
    }
}
