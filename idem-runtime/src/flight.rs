//! Single flight: of several requests with one key in this process, the first runs and the others wait
//! for its answer, without a connection.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;

use crate::fingerprint::Fingerprint;
use crate::scope::RecordId;

const SHARDS: usize = 16;

/// The keys that are in flight in this process; nothing is kept of a key at rest.
#[derive(Debug)]
pub(crate) struct Flights<T> {
    shards: [Mutex<HashMap<RecordId, Flight<T>>>; SHARDS],
}

#[derive(Debug)]
struct Flight<T> {
    fingerprint: Fingerprint,
    answer: watch::Receiver<Option<Arc<T>>>,
}

/// What a request is to its key.
pub(crate) enum Joined<T> {
    /// The first: it runs.
    Leader(Leader<T>),
    /// Another request with this key runs.
    Follower(Follower<T>),
}

impl<T> Default for Flights<T> {
    fn default() -> Self {
        Self {
            shards: std::array::from_fn(|_| Mutex::default()),
        }
    }
}

impl<T> Flights<T> {
    /// Joins the key's flight, or starts one.
    pub(crate) fn join(self: &Arc<Self>, id: RecordId, fingerprint: Fingerprint) -> Joined<T> {
        match self.shard(&id).entry(id) {
            Entry::Occupied(flight) => Joined::Follower(Follower {
                same_request: flight.get().fingerprint == fingerprint,
                answer: flight.get().answer.clone(),
            }),
            Entry::Vacant(vacant) => {
                let (sender, answer) = watch::channel(None);
                vacant.insert(Flight {
                    fingerprint,
                    answer,
                });
                Joined::Leader(Leader {
                    flights: self.clone(),
                    id,
                    sender,
                })
            }
        }
    }

    fn shard(&self, id: &RecordId) -> MutexGuard<'_, HashMap<RecordId, Flight<T>>> {
        self.shards[usize::from(id.as_bytes()[0]) % SHARDS]
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

/// The request that runs. Dropping it without an answer tells the waiters that there is none.
#[derive(Debug)]
pub(crate) struct Leader<T> {
    flights: Arc<Flights<T>>,
    id: RecordId,
    sender: watch::Sender<Option<Arc<T>>>,
}

impl<T> Leader<T> {
    /// Where this flight's answer will be.
    pub(crate) fn follow(&self) -> Follower<T> {
        Follower {
            same_request: true,
            answer: self.sender.subscribe(),
        }
    }

    /// Gives all waiters the answer. Requests that come later start a flight of their own.
    pub(crate) fn land(self, answer: Arc<T>) {
        self.flights.shard(&self.id).remove(&self.id);
        self.sender.send_replace(Some(answer));
    }
}

impl<T> Drop for Leader<T> {
    fn drop(&mut self) {
        if self.sender.borrow().is_none() {
            self.flights.shard(&self.id).remove(&self.id);
        }
    }
}

/// A request that waits.
#[derive(Debug)]
pub(crate) struct Follower<T> {
    /// Whether its fingerprint is that of the request that runs.
    pub(crate) same_request: bool,
    answer: watch::Receiver<Option<Arc<T>>>,
}

/// Why a follower has no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoAnswer {
    /// The request still runs.
    StillInFlight,
    /// It ended without one: it panicked, or the process shuts down.
    Gone,
}

impl<T> Follower<T> {
    /// Waits for the answer, at most for `wait`, or for as long as it takes.
    pub(crate) async fn answer(mut self, wait: Option<Duration>) -> Result<Arc<T>, NoAnswer> {
        let landed = async {
            match self.answer.wait_for(Option::is_some).await {
                Ok(answer) => answer.clone().ok_or(NoAnswer::Gone),
                Err(_) => Err(NoAnswer::Gone),
            }
        };
        match wait {
            None => landed.await,
            Some(wait) => tokio::time::timeout(wait, landed)
                .await
                .unwrap_or(Err(NoAnswer::StillInFlight)),
        }
    }
}
