//! Single flight: of several equal requests with one key in this process, the first runs and the others wait
//! for its answer, without a connection.
//!
//! A flight speaks for its key only once it has claimed it. Before that it may itself be the one that is refused, so
//! that a request with another fingerprint starts a flight of its own beside it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;

use crate::fingerprint::Fingerprint;
use crate::scope::RecordId;

const SHARDS: usize = 16;

/// The keys that are in flight in this process; nothing is kept of a key at rest.
#[derive(Debug)]
pub(crate) struct Flights<T> {
    shards: [Mutex<HashMap<RecordId, Vec<Flight<T>>>>; SHARDS],
}

#[derive(Debug)]
struct Flight<T> {
    fingerprint: Fingerprint,
    progress: watch::Receiver<Progress<T>>,
}

/// How far a flight is.
#[derive(Debug)]
enum Progress<T> {
    /// It asks what the key is.
    Looking,
    /// The key is its own, and the handler runs.
    Claimed,
    Landed(Arc<T>),
}

/// What a request is to its key.
pub(crate) enum Joined<T> {
    /// The first of its kind: it runs.
    Leader(Leader<T>),
    /// An equal request runs.
    Follower(Follower<T>),
    /// Another request has the key.
    Mismatch(Follower<T>),
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
        let mut shard = self.shard(&id);
        let flights = shard.entry(id).or_default();
        let claims = |flight: &Flight<T>| matches!(*flight.progress.borrow(), Progress::Claimed);
        let follow = |flight: &Flight<T>| Follower {
            progress: flight.progress.clone(),
        };
        if let Some(other) = flights.iter().find(|flight| claims(flight))
            && other.fingerprint != fingerprint
        {
            return Joined::Mismatch(follow(other));
        }
        if let Some(same) = flights
            .iter()
            .find(|flight| flight.fingerprint == fingerprint)
        {
            return Joined::Follower(follow(same));
        }
        let (sender, progress) = watch::channel(Progress::Looking);
        flights.push(Flight {
            fingerprint,
            progress,
        });
        Joined::Leader(Leader {
            flights: self.clone(),
            id,
            fingerprint,
            sender,
        })
    }

    fn leave(&self, id: &RecordId, fingerprint: &Fingerprint) {
        let mut shard = self.shard(id);
        if let Some(flights) = shard.get_mut(id) {
            flights.retain(|flight| flight.fingerprint != *fingerprint);
            if flights.is_empty() {
                shard.remove(id);
            }
        }
    }

    fn shard(&self, id: &RecordId) -> MutexGuard<'_, HashMap<RecordId, Vec<Flight<T>>>> {
        self.shards[id.shard(SHARDS)]
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

/// The request that runs. Dropping it without an answer tells the waiters that there is none.
#[derive(Debug)]
pub(crate) struct Leader<T> {
    flights: Arc<Flights<T>>,
    id: RecordId,
    fingerprint: Fingerprint,
    sender: watch::Sender<Progress<T>>,
}

/// Tells a flight that the key is its own.
#[derive(Debug)]
pub(crate) struct Claiming<T>(watch::Sender<Progress<T>>);

impl<T> Claiming<T> {
    /// From here on the flight speaks for its key.
    pub(crate) fn claimed(&self) {
        self.0.send_if_modified(|progress| {
            let first = matches!(progress, Progress::Looking);
            if first {
                *progress = Progress::Claimed;
            }
            first
        });
    }
}

impl<T> Leader<T> {
    /// Where this flight's answer will be.
    pub(crate) fn follow(&self) -> Follower<T> {
        Follower {
            progress: self.sender.subscribe(),
        }
    }

    /// For the attempt that runs.
    pub(crate) fn claiming(&self) -> Claiming<T> {
        Claiming(self.sender.clone())
    }

    /// Gives all waiters the answer. Requests that come later start a flight of their own.
    pub(crate) fn land(self, answer: Arc<T>) {
        self.flights.leave(&self.id, &self.fingerprint);
        self.sender.send_replace(Progress::Landed(answer));
    }
}

impl<T> Drop for Leader<T> {
    fn drop(&mut self) {
        if !matches!(*self.sender.borrow(), Progress::Landed(_)) {
            self.flights.leave(&self.id, &self.fingerprint);
        }
    }
}

/// A request that waits.
#[derive(Debug)]
pub(crate) struct Follower<T> {
    progress: watch::Receiver<Progress<T>>,
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
    pub(crate) async fn answer(self, wait: Option<Duration>) -> Result<Arc<T>, NoAnswer> {
        self.until(wait, |progress| matches!(progress, Progress::Landed(_)))
            .await
    }

    /// Waits, at most for `wait`, until it is known whether the request runs: for its answer if it does not.
    pub(crate) async fn answer_unless_claimed(self, wait: Duration) -> Result<Arc<T>, NoAnswer> {
        self.until(Some(wait), |progress| {
            !matches!(progress, Progress::Looking)
        })
        .await
    }

    async fn until(
        mut self,
        wait: Option<Duration>,
        enough: impl FnMut(&Progress<T>) -> bool,
    ) -> Result<Arc<T>, NoAnswer> {
        let landed = async {
            match self.progress.wait_for(enough).await.as_deref() {
                Ok(Progress::Landed(answer)) => Ok(answer.clone()),
                Ok(_) => Err(NoAnswer::StillInFlight),
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{key::IdempotencyKey, scope::ScopeKey};

    fn key() -> RecordId {
        let key = IdempotencyKey::parse(b"key", true).expect("a key");
        RecordId::new(&ScopeKey::of("alice"), None, &key)
    }

    fn leader(joined: Joined<u8>) -> Leader<u8> {
        match joined {
            Joined::Leader(leader) => leader,
            Joined::Follower(_) | Joined::Mismatch(_) => panic!("not a leader"),
        }
    }

    const FIRST: Fingerprint = Fingerprint::from_stored(1, [1; 32]);
    const OTHER: Fingerprint = Fingerprint::from_stored(1, [2; 32]);

    #[tokio::test]
    async fn what_looks_does_not_speak_for_its_key() {
        let flights = Arc::new(Flights::default());
        let first = leader(flights.join(key(), FIRST));
        let other = leader(flights.join(key(), OTHER));
        let Joined::Follower(follower) = flights.join(key(), OTHER) else {
            panic!("an equal request follows");
        };
        other.land(Arc::new(2));
        assert_eq!(follower.answer(None).await.map(|answer| *answer), Ok(2));
        first.claiming().claimed();
        assert!(matches!(flights.join(key(), OTHER), Joined::Mismatch(_)));
        first.land(Arc::new(1));
        leader(flights.join(key(), OTHER));
        assert!(flights.shard(&key()).is_empty(), "nothing is kept");
    }

    #[tokio::test]
    async fn who_does_not_wait_for_a_handler_waits_for_a_look() {
        let flights = Arc::new(Flights::default());
        let wait = Duration::from_secs(5);
        let looking = leader(flights.join(key(), FIRST));
        let follower = looking.follow();
        let claimed = looking.follow();
        let claiming = looking.claiming();
        let (answer, ()) = tokio::join!(follower.answer_unless_claimed(wait), async {
            looking.land(Arc::new(1));
        });
        assert_eq!(answer.map(|answer| *answer), Ok(1));
        drop(claimed);
        let running = leader(flights.join(key(), FIRST));
        running.claiming().claimed();
        let refused = running.follow().answer_unless_claimed(wait).await;
        assert_eq!(refused, Err(NoAnswer::StillInFlight));
        // Landed stays landed.
        claiming.claimed();
    }
}
