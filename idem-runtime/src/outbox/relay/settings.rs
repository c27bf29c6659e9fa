//! What a relay is told.

use std::time::Duration;

use crate::backoff::doubled;

#[derive(Clone, Debug)]
pub(super) struct RelaySettings {
    pub(super) batch: u32,
    pub(super) poll: Duration,
    pub(super) max_attempts: u32,
    pub(super) backoff: (Duration, Duration),
    pub(super) lease: Duration,
    pub(super) timeout: Duration,
    pub(super) keep_delivered: Duration,
    pub(super) notify: bool,
}

impl RelaySettings {
    pub(super) fn new(notify: bool) -> Self {
        Self {
            batch: 100,
            poll: Duration::from_millis(500),
            max_attempts: 20,
            backoff: (Duration::from_secs(1), Duration::from_secs(5 * 60)),
            lease: Duration::from_secs(10),
            timeout: Duration::from_secs(10),
            keep_delivered: Duration::ZERO,
            notify,
        }
    }

    /// How many messages whose time has come are read with a batch.
    pub(super) fn due(&self) -> u32 {
        (self.batch / 2).max(1)
    }

    /// How many messages are published at once, at most.
    pub(super) fn most(&self) -> usize {
        self.batch.saturating_add(self.due()) as usize
    }

    /// The pause after so many failures: it doubles, up to the longest; each is 50 to 100 % of it.
    pub(super) fn pause(&self, failures: u32) -> Duration {
        let (first, longest) = self.backoff;
        doubled(first, longest, failures.saturating_sub(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_the_longest() {
        let settings = RelaySettings::new(true);
        for (failures, longest) in [
            (1, 1),
            (2, 2),
            (5, 16),
            (9, 256),
            (10, 300),
            (4_000_000, 300),
        ] {
            let longest = Duration::from_secs(longest);
            let pause = settings.pause(failures);
            assert!(
                pause <= longest && pause >= longest / 2,
                "{failures}: {pause:?}"
            );
        }
    }
}
