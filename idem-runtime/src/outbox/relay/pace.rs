//! Whether reading is as fast as it could be.
//!
//! A database that keeps a statement's plan may keep one that was made when there were few messages, and that reads all of them:
//! it costs nothing then, and seconds for each batch when there are many.

use std::time::Duration;

/// What a read takes beside the way to the database and back, if it has the right plan, and is not slow for another reason. Then
/// to plan it again costs little of its time.
const BRISK: Duration = Duration::from_millis(10);

#[derive(Debug, Default)]
pub(super) struct Pace {
    /// The shortest time that a read has taken.
    least: Option<Duration>,
    plan: u32,
}

impl Pace {
    /// The number of the plan that the next read is to use.
    pub(super) fn plan(&self) -> u32 {
        self.plan
    }

    /// A read took so long, whether it came to its end or not.
    pub(super) fn took(&mut self, time: Duration) {
        let least = self.least.map_or(time, |least| least.min(time));
        self.least = Some(least);
        if time > BRISK + least * 4 {
            self.plan = self.plan.wrapping_add(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slow_read_is_planned_again() {
        let mut pace = Pace::default();
        pace.took(Duration::from_millis(30));
        pace.took(Duration::from_millis(60));
        assert_eq!(pace.plan(), 0, "the database is far away");
        pace.took(Duration::from_millis(1));
        pace.took(Duration::from_millis(14));
        assert_eq!(pace.plan(), 0);
        pace.took(Duration::from_millis(15));
        assert_eq!(pace.plan(), 1);
        pace.took(Duration::from_millis(1));
        assert_eq!(pace.plan(), 1);
    }
}
