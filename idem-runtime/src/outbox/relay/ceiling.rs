//! How far a relay reads.
//!
//! A planner that takes a backlog for a few messages, as its statistics say that are some minutes old, reads all of it to sort
//! it, and that for each batch. So while there is a backlog the relay asks only for what is just above the last batch.

/// How many times as far as the last batch went.
const FARTHER: i64 = 4;

#[derive(Debug)]
pub(super) struct Ceiling {
    position: i64,
    /// Up to where the last batch went.
    last: Option<i64>,
}

impl Default for Ceiling {
    fn default() -> Self {
        Self {
            position: i64::MAX,
            last: None,
        }
    }
}

impl Ceiling {
    /// Up to where to read now.
    pub(super) fn position(&self) -> i64 {
        self.position
    }

    /// A batch was read: up to a position, and all that was asked for. Returns whether there may be more.
    pub(super) fn read(&mut self, last: Option<i64>, full: bool) -> bool {
        let bounded = self.position < i64::MAX;
        match (last, self.last) {
            (Some(last), Some(before)) if full && last > before => {
                self.position = last.saturating_add((last - before).saturating_mul(FARTHER));
            }
            _ => self.position = i64::MAX,
        }
        self.last = last.filter(|_| full);
        full || bounded
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_backlog_is_read_piece_by_piece() {
        let mut ceiling = Ceiling::default();
        assert!(ceiling.read(Some(100), true));
        assert_eq!(
            ceiling.position(),
            i64::MAX,
            "how far a batch goes is not known"
        );
        assert!(ceiling.read(Some(250), true));
        assert_eq!(ceiling.position(), 850);
        assert!(ceiling.read(Some(350), true));
        assert_eq!(ceiling.position(), 750);
        // There was a gap.
        assert!(ceiling.read(Some(400), false));
        assert_eq!(ceiling.position(), i64::MAX);
        assert!(!ceiling.read(Some(9000), false));
        assert_eq!(ceiling.position(), i64::MAX);
    }

    #[test]
    fn after_a_lower_batch_all_is_read() {
        let mut ceiling = Ceiling::default();
        ceiling.read(Some(100), true);
        ceiling.read(Some(200), true);
        ceiling.read(Some(50), true);
        assert_eq!(ceiling.position(), i64::MAX);
        assert!(!ceiling.read(None, false));
    }
}
