//! Messages whose deliveries ended without a word: it may be they that end the process.
//!
//! A broker counts deliveries, not runs: whatever was taken together with a message that kills its process is counted with it. So a
//! message that was delivered too often is not a dead letter yet. It is run alone, and each run is counted in the database before it
//! begins, until one of them comes back: what is buried then was running itself each time that its process ended.

use tokio::time::Instant;

use super::ConsumerSpec;
use super::errors::InboxError;
use super::identity::Identity;
use super::message::Incoming;
use crate::atomic::new_owner;
use crate::backend::Backend;
use crate::backend::inbox::Entry;
use crate::idempotency::Idempotency;

/// How often a suspect runs whose broker has counted enough deliveries.
const RUNS: u32 = 3;

/// How often a message may be run and not come back, if it has to be watched.
pub(super) fn runs_of(message: &Incoming, max_deliveries: u32) -> Option<u32> {
    if message.delivery() > max_deliveries {
        Some(RUNS)
    } else if message.has_uncounted_deliveries() {
        Some(max_deliveries)
    } else {
        None
    }
}

/// A run that is counted.
pub(super) struct Watched<DB: Backend> {
    idempotency: Idempotency<DB>,
    entry: Entry,
}

impl<DB: Backend> Watched<DB> {
    /// Counts a run. `Err` of a reason: there were enough that did not come back.
    pub(super) async fn enter(
        idempotency: &Idempotency<DB>,
        spec: &ConsumerSpec,
        identity: &Identity,
        most: u32,
    ) -> Result<Result<Self, String>, InboxError> {
        let entry = Entry {
            id: identity.record.of_entries(),
            consumer: identity.consumer.clone(),
            source: identity.source.clone(),
            owner: new_owner(),
            ttl: spec.ttl(),
            lock_namespace: idempotency.shared.settings.lock_namespace(),
        };
        let record = identity.record;
        let limit = limit(idempotency);
        let mut alone = idempotency.alone(limit).await?;
        let enter = async |connection: &mut DB::Connection| {
            let entries = DB::count_entry(&mut *connection, &entry).await?;
            // What is processed does not run again, and is acknowledged.
            let over = entries > most && DB::processed(connection, &record).await?.is_none();
            Ok(over.then_some(entries - 1))
        };
        let over = alone.run(limit, enter).await?;
        Ok(match over {
            None => Ok(Self {
                idempotency: idempotency.clone(),
                entry,
            }),
            Some(runs) => Err(format!(
                "its process ended in each of the {runs} runs that were watched, alone with it, after deliveries that ended the same way"
            )),
        })
    }

    /// The run came back.
    pub(super) async fn leave(self) {
        let limit = limit(&self.idempotency);
        let left = async {
            let mut alone = self.idempotency.alone(limit).await?;
            let leave = async |connection: &mut DB::Connection| {
                DB::forget_entries(connection, &self.entry.id).await
            };
            alone.run(limit, leave).await
        };
        if let Err(error) = left.await {
            tracing::warn!(target: "idem", consumer = self.entry.consumer, %error, "a run that came back is counted as one that did not");
        }
    }
}

fn limit<DB: Backend>(idempotency: &Idempotency<DB>) -> Instant {
    Instant::now() + idempotency.shared.settings.store_timeout
}
