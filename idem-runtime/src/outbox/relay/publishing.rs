//! Publishing: keys beside each other, the messages of a key one after the other.

use std::collections::HashMap;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use tokio::time::timeout;

use super::lease::Lease;
use super::routes::Routes;
use crate::backend::outbox::Fetched;
use crate::faults;
use crate::outbox::{OutboxMessage, PublishError};

/// A receiver is left alone for no longer, whatever it asks for: nobody waits for more than that.
const LONGEST_PAUSE: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// What became of one message.
#[derive(Debug)]
pub(super) enum Fate {
    Delivered,
    /// An attempt that failed, and why; whether another would, too, and how long the receiver asks to be left alone.
    Failed {
        reason: String,
        for_ever: bool,
        after: Option<Duration>,
    },
    /// The publisher of this route takes nothing now.
    Unavailable {
        route: usize,
        reason: String,
    },
    /// It was not begun: a message of its key before it was not delivered, or the lease is over.
    Untried,
}

/// A message and what became of it.
#[derive(Debug)]
pub(super) struct Done {
    pub(super) row: Fetched,
    pub(super) fate: Fate,
}

/// Messages that are published one after the other.
#[derive(Debug)]
pub(super) struct Group(Vec<Fetched>);

impl Group {
    /// The messages of a batch, by their keys. Those of a key keep their order.
    pub(super) fn of(rows: Vec<Fetched>) -> Vec<Group> {
        let mut groups: Vec<Group> = Vec::with_capacity(rows.len());
        let mut keys: HashMap<String, usize> = HashMap::new();
        for row in rows {
            let known = match &row.message.ordering_key {
                None => None,
                Some(key) => match keys.get(key) {
                    Some(group) => Some(*group),
                    None => {
                        keys.insert(key.clone(), groups.len());
                        None
                    }
                },
            };
            match known {
                Some(group) => groups[group].0.push(row),
                None => groups.push(Group(vec![row])),
            }
        }
        groups
    }

    pub(super) fn ordering_key(&self) -> Option<&str> {
        let first = self.0.first()?;
        first.message.ordering_key.as_deref()
    }

    pub(super) fn positions(&self) -> impl Iterator<Item = i64> {
        self.0.iter().map(|row| row.position)
    }

    /// Publishes them. Stops at the first that is not delivered.
    pub(super) async fn publish(
        self,
        routes: Arc<Routes>,
        lease: Arc<Lease>,
        limit: Duration,
    ) -> Vec<Done> {
        let mut done = Vec::with_capacity(self.0.len());
        let mut stopped = false;
        for row in self.0 {
            let fate = if stopped || !lease.allows(row.lane) {
                Fate::Untried
            } else {
                publish(&routes, &row.message, limit).await
            };
            stopped |= !matches!(fate, Fate::Delivered);
            done.push(Done { row, fate });
        }
        done
    }
}

async fn publish(routes: &Routes, message: &OutboxMessage, limit: Duration) -> Fate {
    let Some((route, publisher)) = routes.of(message.topic()) else {
        let reason = format!("no publisher is given for the topic `{}`", message.topic());
        return Fate::Failed {
            reason,
            for_ever: false,
            after: None,
        };
    };
    faults::point("relay.publish.before");
    // Made in the guarded part: a publisher may panic before it answers a future.
    let publishing = async { publisher.publish(message).await };
    let published = timeout(limit, AssertUnwindSafe(publishing).catch_unwind()).await;
    faults::point("relay.publish.after");
    let (reason, for_ever, after) = match published {
        Ok(Ok(Ok(()))) => return Fate::Delivered,
        Ok(Ok(Err(PublishError::Unavailable(error)))) => {
            let reason = PublishError::Unavailable(error).to_string();
            return Fate::Unavailable { route, reason };
        }
        Ok(Ok(Err(error))) => {
            let for_ever = matches!(error, PublishError::Rejected(_));
            let after = error.retry_after().map(|after| after.min(LONGEST_PAUSE));
            (error.to_string(), for_ever, after)
        }
        Ok(Err(panic)) => {
            faults::let_through(panic);
            ("the publisher panicked".to_owned(), false, None)
        }
        Err(_) => (
            format!("no confirmation came within {limit:?}"),
            false,
            None,
        ),
    };
    Fate::Failed {
        reason,
        for_ever,
        after,
    }
}
