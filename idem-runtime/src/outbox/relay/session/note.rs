//! What became of a message, until it is written down.

use std::time::Duration;

use tokio::time::Instant;

use super::{Pause, Session};
use crate::backend::Backend;
use crate::backend::outbox::FailedAttempt;
use crate::outbox::relay::publishing::{Done, Fate};
use crate::telemetry;

/// The longest time for which a receiver is left alone because it asks so.
const LONGEST_WISH: Duration = Duration::from_secs(24 * 3600);

impl<DB: Backend> Session<DB> {
    pub(super) fn note(&mut self, Done { row, fate }: Done) {
        let message = &row.message;
        self.positions.remove(&row.position);
        if let Some(key) = message.ordering_key() {
            self.keys.remove(key);
        }
        if !matches!(fate, Fate::Delivered)
            && (message.ordering_key().is_some() || !matches!(fate, Fate::Failed { .. }))
        {
            self.seen = None;
        }
        match fate {
            Fate::Delivered => {
                if let Some((route, _)) = self.routes.of(message.topic()) {
                    self.pauses[route] = Pause::default();
                }
                self.relayed.delivered += 1;
                telemetry::outbox::delivered();
                self.outcome.delivered.push((row.position, message.id()));
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
