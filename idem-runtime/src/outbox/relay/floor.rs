//! Where a relay begins to read.
//!
//! Rows that are deleted stay in an index until a vacuum may take them, which it may not while an old snapshot is open: who
//! always reads from the first position passes them all again for each batch. So a relay remembers a position up to which
//! nothing is left, and reads from there.
//!
//! That is not the last position that it saw: positions are drawn before transactions commit, and a lower one may appear
//! later. It is one that was seen when no transaction was still running that had begun by then. Where the database does not
//! tell of its transactions, the floor stays at the bottom; and once a minute, or seldom enough to cost little, everything is
//! read from the bottom all the same.

use std::collections::VecDeque;
use std::time::Duration;

use tokio::time::Instant;

use crate::backend::outbox::Horizon;

/// How often all is read, at most.
const WHOLE: Duration = Duration::from_secs(60);
/// How many times as long as it takes passes between two such readings, at least.
const SELDOM: u32 = 50;
/// How many positions may wait until they are believed.
const CANDIDATES: usize = 256;

#[derive(Debug)]
pub(super) struct Floor {
    position: i64,
    /// Positions up to which nothing was left to see, and the first transaction that had not begun then.
    candidates: VecDeque<(i64, i64)>,
    /// The first transaction that had not begun when something was read last.
    next: i64,
    whole_at: Instant,
}

impl Floor {
    pub(super) fn new() -> Self {
        Self {
            position: 0,
            candidates: VecDeque::new(),
            next: 0,
            whole_at: Instant::now() + WHOLE,
        }
    }

    /// There may be anything below: other lanes were taken.
    pub(super) fn reset(&mut self) {
        *self = Self::new();
    }

    /// Where to read from now.
    pub(super) fn position(&mut self, now: Instant) -> i64 {
        if now >= self.whole_at {
            self.whole_at = now + WHOLE;
            return 0;
        }
        self.position
    }

    /// The database may not be what it was: all is read next.
    pub(super) fn doubt(&mut self) {
        self.whole_at = Instant::now();
    }

    /// What was read from a position: the lowest message that never failed. Returns whether it agrees with what is believed;
    /// all belief ends if not.
    pub(super) fn read(
        &mut self,
        from: i64,
        lowest: Option<i64>,
        horizon: Option<Horizon>,
        begun: Instant,
    ) -> bool {
        let next = horizon.map_or(self.next, |horizon| horizon.next);
        // It was restored, or is another one: numbers are given again.
        let another = next < self.next;
        let disagrees = another || lowest.is_some_and(|lowest| lowest <= self.position);
        if disagrees {
            self.reset();
        } else if from < self.position {
            let now = Instant::now();
            let seldom = now + now.duration_since(begun) * SELDOM;
            self.whole_at = self.whole_at.max(seldom);
        }
        self.next = next;
        !disagrees
    }

    /// The position up to which nothing is still to appear, by what the database said of its transactions when a batch was read.
    /// What did appear meanwhile is in that batch, or was left out of it.
    pub(super) fn believed(&self, horizon: Horizon) -> i64 {
        let believed = self
            .candidates
            .iter()
            .take_while(|(_, next)| *next <= horizon.oldest);
        believed
            .map(|(position, _)| *position)
            .fold(self.position, i64::max)
    }

    /// Nothing is left up to this position.
    pub(super) fn raise(&mut self, position: i64) {
        self.position = self.position.max(position);
        self.candidates
            .retain(|(candidate, _)| *candidate > self.position);
    }

    /// All messages up to a position that could be seen are settled.
    pub(super) fn settled(&mut self, position: i64, seen: Horizon) {
        if self.candidates.len() == CANDIDATES {
            // The newest says more once it is believed; the oldest is believed first.
            self.candidates.pop_back();
        }
        self.candidates.push_back((position, seen.next));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn horizon(oldest: i64, next: i64) -> Horizon {
        Horizon {
            oldest,
            next,
            blocked: false,
        }
    }

    #[test]
    fn a_position_is_believed_once_what_ran_when_it_was_seen_has_ended() {
        let mut floor = Floor::new();
        // Transaction 5 runs, and may have drawn a lower position.
        floor.settled(100, horizon(5, 9));
        assert_eq!(floor.believed(horizon(5, 12)), 0);
        // 8 had begun, too.
        assert_eq!(floor.believed(horizon(8, 12)), 0);
        assert_eq!(floor.believed(horizon(9, 12)), 100);
        // What the batch of that moment held may be left over.
        assert_eq!(floor.position(Instant::now()), 0);
        floor.raise(60);
        assert_eq!(floor.position(Instant::now()), 60);
        assert_eq!(floor.believed(horizon(9, 12)), 100);
    }

    #[test]
    fn other_lanes_are_read_from_the_bottom() {
        let mut floor = Floor::new();
        floor.settled(100, horizon(9, 9));
        floor.reset();
        assert_eq!(floor.believed(horizon(10, 10)), 0);
        assert_eq!(floor.position(Instant::now()), 0);
    }

    #[test]
    fn once_a_minute_all_is_read() {
        let mut floor = Floor::new();
        floor.settled(100, horizon(9, 9));
        floor.raise(floor.believed(horizon(9, 9)));
        let now = Instant::now();
        assert_eq!(floor.position(now), 100);
        assert_eq!(floor.position(now + WHOLE), 0);
        // What was proved stays so.
        assert_eq!(floor.position(now + WHOLE), 100);
        assert_eq!(floor.position(now + WHOLE * 2), 0);
    }

    #[test]
    fn reading_all_costs_little_of_the_time() {
        let mut floor = Floor::new();
        floor.raise(100);
        let begun = Instant::now() - Duration::from_secs(3);
        assert!(floor.read(0, Some(101), None, begun));
        assert_eq!(floor.position(begun + 2 * WHOLE), 100);
        assert_eq!(floor.position(begun + 3 * WHOLE), 0);
    }

    #[test]
    fn what_should_not_be_there_ends_all_belief() {
        let proved = || {
            let mut floor = Floor::new();
            floor.settled(200, horizon(9, 9));
            floor.raise(100);
            assert!(floor.read(0, Some(101), Some(horizon(9, 9)), Instant::now()));
            assert_eq!(floor.position(Instant::now()), 100);
            floor
        };
        // A message that was not there.
        let mut floor = proved();
        assert!(!floor.read(0, Some(100), Some(horizon(9, 9)), Instant::now()));
        assert_eq!(floor.position(Instant::now()), 0);
        assert_eq!(floor.believed(horizon(9, 9)), 0);
        // Transactions that were over have not begun.
        let mut floor = proved();
        assert!(!floor.read(100, None, Some(horizon(7, 8)), Instant::now()));
        assert_eq!(floor.position(Instant::now()), 0);
        assert_eq!(floor.believed(horizon(9, 9)), 0);
        // Neither, but the connection was lost.
        let mut floor = proved();
        floor.doubt();
        assert_eq!(floor.position(Instant::now()), 0);
        assert_eq!(floor.position(Instant::now()), 100);
    }
}
