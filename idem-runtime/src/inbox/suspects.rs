//! Messages whose deliveries ended without a word: poison messages, which end the process, and what was taken together with one.
//!
//! A broker counts deliveries, not runs: whatever was taken together with a message that kills its process is counted with it. So a
//! message that was delivered too often is no dead letter yet. It is run while no other message runs in the process, and each run is
//! counted in the database before it begins, and forgotten when it comes back: what is buried then was the only one that ran, each
//! time that its process ended.

use std::time::Duration;

use tokio::runtime::Handle;
use tokio::time::Instant;

use super::ConsumerSpec;
use super::errors::InboxError;
use super::identity::Identity;
use super::message::Incoming;
use crate::atomic::new_owner;
use crate::backend::Backend;
use crate::backend::inbox::Entry;
use crate::backoff::Backoff;
use crate::idempotency::{Idempotency, StoreError};
use crate::scope::RecordId;

/// How often a suspect runs whose broker has counted enough deliveries.
const RUNS: u32 = 3;
/// How often it is tried to forget a run that came back.
const FORGETS: u32 = 20;
/// The first and the longest pause between two of these.
const PAUSES: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(30));

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

/// Whether a message that fails at this delivery has had enough of them. Those that a suspect had may be another's fault, so
/// that it is given as many again.
pub(super) fn is_last(message: &Incoming, max_deliveries: u32) -> bool {
    let delivery = message.delivery();
    delivery == max_deliveries || delivery >= max_deliveries.saturating_mul(2)
}

/// A run that is counted, from the moment at which it is entered. Dropped, it is forgotten: only a process that has ended does
/// not do that.
pub(super) struct Watched<DB: Backend> {
    idempotency: Idempotency<DB>,
    entry: Entry,
    /// It may be counted.
    entered: bool,
}

impl<DB: Backend> Watched<DB> {
    pub(super) fn new(
        idempotency: &Idempotency<DB>,
        spec: &ConsumerSpec,
        identity: &Identity,
    ) -> Self {
        Self {
            idempotency: idempotency.clone(),
            entry: Entry {
                id: identity.record.of_entries(),
                consumer: identity.consumer.clone(),
                source: identity.source.clone(),
                owner: new_owner(),
                ttl: spec.ttl(),
                lock_namespace: idempotency.shared.settings.lock_namespace(),
            },
            entered: false,
        }
    }

    /// Counts the run of a message; again, it does not count twice. `Err` of a reason: there were enough that did not come back.
    pub(super) async fn enter(
        &mut self,
        record: RecordId,
        most: u32,
    ) -> Result<Result<(), String>, InboxError> {
        let entry = self.entry.clone();
        let limit = limit(&self.idempotency);
        let mut alone = self.idempotency.alone(limit).await?;
        self.entered = true;
        let enter = async |connection: &mut DB::Connection| {
            let entries = DB::count_entry(&mut *connection, &entry).await?;
            // What is processed does not run again, and is acknowledged.
            Ok(entries > most && DB::processed(connection, &record).await?.is_none())
        };
        if !alone.run(limit, enter).await? {
            return Ok(Ok(()));
        }
        // The runs before it stay counted until the dead letter is stored.
        self.entered = false;
        Ok(Err(format!(
            "a poison message: its process ended in each of {most} runs, in which no other message ran"
        )))
    }

    /// The run came back.
    pub(super) async fn leave(mut self) {
        let (id, owner) = (self.entry.id, self.entry.owner);
        if forget(&self.idempotency, id, Some(owner)).await.is_ok() {
            self.entered = false;
        }
    }
}

impl<DB: Backend> Drop for Watched<DB> {
    fn drop(&mut self) {
        let Ok(runtime) = Handle::try_current() else {
            return;
        };
        if !self.entered {
            return;
        }
        let (idempotency, entry) = (self.idempotency.clone(), self.entry.clone());
        runtime.spawn(async move {
            let mut pauses = Backoff::new(PAUSES);
            for _ in 0..FORGETS {
                let forgotten = forget(&idempotency, entry.id, Some(entry.owner)).await;
                let Err(error) = forgotten else { return };
                tracing::warn!(target: "idem", consumer = entry.consumer, %error, "a run that came back is still counted as one that did not");
                tokio::time::sleep(pauses.next()).await;
            }
        });
    }
}

/// Forgets the runs of a message that is buried: put back, it begins anew.
pub(super) async fn forget_all<DB: Backend>(idempotency: &Idempotency<DB>, identity: &Identity) {
    let forgotten = forget(idempotency, identity.record.of_entries(), None).await;
    if let Err(error) = forgotten {
        tracing::warn!(target: "idem", consumer = identity.consumer, %error, "the runs of a message that is buried are still counted");
    }
}

async fn forget<DB: Backend>(
    idempotency: &Idempotency<DB>,
    id: RecordId,
    owner: Option<[u8; 16]>,
) -> Result<(), StoreError> {
    let limit = limit(idempotency);
    let mut alone = idempotency.alone(limit).await?;
    let forget = async |connection: &mut DB::Connection| {
        DB::forget_entries(connection, &id, owner.as_ref()).await
    };
    alone.run(limit, forget).await
}

fn limit<DB: Backend>(idempotency: &Idempotency<DB>) -> Instant {
    Instant::now() + idempotency.shared.settings.store_timeout
}

#[cfg(test)]
mod tests {
    use super::*;

    fn delivered(number: u32) -> Incoming {
        Incoming::new("orders", "").with_delivery(number)
    }

    #[test]
    fn a_message_is_watched_once_its_deliveries_are_used_up_or_not_counted() {
        assert_eq!(runs_of(&delivered(20), 20), None);
        assert_eq!(runs_of(&delivered(21), 20), Some(RUNS));
        let uncounted = delivered(1).with_uncounted_deliveries();
        assert_eq!(runs_of(&uncounted, 20), Some(20));
    }

    #[test]
    fn a_suspect_that_fails_is_given_as_many_deliveries_again() {
        let last = |number| is_last(&delivered(number), 5);
        assert_eq!(
            [1, 4, 5, 6, 9, 10, 11].map(last),
            [false, false, true, false, false, true, true]
        );
        assert!(is_last(&delivered(1), 1) && is_last(&delivered(2), 1));
    }
}
