//! The writer's turn, where the engine has one writer at a time.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use sqlx::pool::PoolConnection;
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout_at};

use crate::backend::Backend;

/// Those of this process who want to write, one after the other.
#[derive(Debug)]
pub(crate) struct Turns {
    turn: Arc<Semaphore>,
    seen: Arc<Mutex<Seen>>,
}

/// When the database was last seen to work.
#[derive(Clone, Copy, Debug)]
enum Seen {
    /// A transaction is open in it now.
    Working,
    /// Somebody's turn had come to something by then.
    Worked(Instant),
}

/// One writer's turn; over when it is dropped.
#[derive(Debug)]
pub(crate) struct Turn {
    seen: Arc<Mutex<Seen>>,
    /// How long it was waited for, beyond what the store's own limit allows.
    waited: Duration,
    /// It came to something.
    worked: bool,
    _permit: OwnedSemaphorePermit,
}

impl Turns {
    pub(crate) fn new() -> Self {
        Self {
            turn: Arc::new(Semaphore::new(1)),
            seen: Arc::new(Mutex::new(Seen::Worked(Instant::now()))),
        }
    }

    /// Waits for a turn, however long that takes.
    pub(crate) async fn any(&self) -> Option<Turn> {
        let permit = self.turn.clone().acquire_owned().await.ok()?;
        Some(self.taken(permit, Duration::ZERO))
    }

    /// Waits for a turn, at most until `patience` is over. Whoever waits while others write is not waiting for the database: it is
    /// given up at the `limit` of the store, or when the database has not been seen to work for as long as is `allowed`. `None`: the
    /// turn did not come.
    pub(crate) async fn next(
        &self,
        limit: Instant,
        patience: Duration,
        allowed: Duration,
    ) -> Option<Turn> {
        let came = Instant::now();
        let last = limit.max(came + patience);
        let mut taking = std::pin::pin!(self.turn.clone().acquire_owned());
        let mut until = limit;
        let permit = loop {
            match timeout_at(until, &mut taking).await {
                Ok(permit) => break permit.ok()?,
                Err(_) if Instant::now() >= last => return None,
                Err(_) => {}
            }
            // Work that ends after this look ends later than now: nothing is looked at too late.
            let next = match *lock(&self.seen) {
                Seen::Working => Instant::now() + allowed,
                Seen::Worked(at) => at + allowed,
            };
            if next <= until {
                return None;
            }
            until = next.min(last);
        };
        let waited = match *lock(&self.seen) {
            Seen::Working => came.elapsed(),
            Seen::Worked(at) => at.saturating_duration_since(came),
        };
        Some(self.taken(permit, waited))
    }

    fn taken(&self, permit: OwnedSemaphorePermit, waited: Duration) -> Turn {
        Turn {
            seen: self.seen.clone(),
            waited,
            worked: false,
            _permit: permit,
        }
    }
}

impl Turn {
    /// By how much its owner's limit is put off.
    pub(crate) fn waited(&self) -> Duration {
        self.waited
    }

    /// The transaction that it was for is open.
    pub(crate) fn begun(&mut self) {
        self.worked = true;
        *lock(&self.seen) = Seen::Working;
    }

    /// A statement that it was for is done.
    pub(crate) fn done(&mut self) {
        self.worked = true;
    }
}

/// The same where there may be no turn to wait for.
pub(crate) fn waited(turn: Option<&Turn>) -> Duration {
    turn.map_or(Duration::ZERO, Turn::waited)
}

/// Closes a connection on which something may still run. That one's turn is over when it is closed: what others began meanwhile
/// would wait for the same, each on a connection that is then missing to those who only read.
pub(crate) fn close<DB: Backend>(mut connection: PoolConnection<DB>, turn: Option<Turn>) {
    match (turn, Handle::try_current()) {
        (Some(turn), Ok(runtime)) => {
            runtime.spawn(async move {
                let closed = connection.close().await;
                drop(turn);
                closed
            });
        }
        _ => connection.close_on_drop(),
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        if self.worked {
            *lock(&self.seen) = Seen::Worked(Instant::now());
        }
    }
}

fn lock(seen: &Mutex<Seen>) -> std::sync::MutexGuard<'_, Seen> {
    seen.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_millis(30);
    const LONG: Duration = Duration::from_secs(60);

    async fn next(turns: &Turns, patience: Duration) -> Option<Turn> {
        turns.next(Instant::now() + LIMIT, patience, LIMIT).await
    }

    #[tokio::test]
    async fn who_waits_while_another_works_has_its_whole_limit_left() {
        let turns = Turns::new();
        let mut first = next(&turns, LONG).await.expect("it is free");
        assert_eq!(first.waited(), Duration::ZERO);
        first.begun();
        let work = async {
            tokio::time::sleep(LIMIT * 5).await;
            drop(first);
        };
        let (second, ()) = tokio::join!(next(&turns, LONG), work);
        let waited = second.expect("it came").waited();
        assert!(waited >= LIMIT * 4, "{waited:?}");
    }

    /// However little of its own limit is left, others may take a moment between two turns.
    #[tokio::test]
    async fn who_comes_late_waits_for_its_turn_as_well() {
        let turns = Turns::new();
        let mut first = turns.any().await.expect("it is free");
        first.begun();
        let ends = async {
            tokio::time::sleep(LIMIT).await;
            drop(first);
        };
        let takes_a_moment = async {
            let mut second = turns.any().await.expect("it comes");
            tokio::time::sleep(LIMIT / 2).await;
            second.begun();
        };
        let late = turns.next(Instant::now() + LIMIT / 30, LONG, LIMIT * 10);
        let ((), (), third) = tokio::join!(ends, takes_a_moment, late);
        assert!(third.is_some());
    }

    #[tokio::test]
    async fn patience_has_an_end() {
        let turns = Turns::new();
        let mut first = next(&turns, LONG).await.expect("it is free");
        first.begun();
        let came = Instant::now();
        assert!(next(&turns, LIMIT * 3).await.is_none());
        assert!(came.elapsed() >= LIMIT * 3);
    }

    /// The first one's begin is not answered, so that the others' would not be either.
    #[tokio::test]
    async fn who_waits_while_nothing_works_waits_no_longer_than_the_limit() {
        let turns = Turns::new();
        let first = next(&turns, LONG).await.expect("it is free");
        let fails = async {
            tokio::time::sleep(LIMIT).await;
            drop(first);
        };
        let (second, third, ()) = tokio::join!(next(&turns, LONG), next(&turns, LONG), fails);
        // The second may have had its turn at the last moment; it has no time left then.
        for turn in [second, third].into_iter().flatten() {
            assert_eq!(turn.waited(), Duration::ZERO);
        }
        let came = Instant::now();
        let held = turns.any().await.expect("it is free");
        assert!(next(&turns, LONG).await.is_none());
        assert!(came.elapsed() < LONG);
        drop(held);
    }
}
