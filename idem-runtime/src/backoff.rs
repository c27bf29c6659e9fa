//! Pauses between tries. They double, and no two processes come back together.

use std::time::Duration;

use crate::backend::Backend;

/// No pause is longer, whatever it is set to: a database can add it to its time.
const LONGEST: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// The pause after so many doublings of the first, up to the longest; between the half of it and the whole.
pub(crate) fn doubled(first: Duration, longest: Duration, doublings: u32) -> Duration {
    let factor = 1_u32.checked_shl(doublings).unwrap_or(u32::MAX);
    jitter(first.saturating_mul(factor).min(longest))
}

/// Between half of a pause and the whole of it.
pub(crate) fn jitter(pause: Duration) -> Duration {
    pause.min(LONGEST).mul_f64(0.5 + fastrand::f64() / 2.0)
}

/// Pauses of one task that tries again and again.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Backoff {
    first: Duration,
    longest: Duration,
    doublings: u32,
}

impl Backoff {
    pub(crate) const fn new((first, longest): (Duration, Duration)) -> Self {
        Self {
            first,
            longest,
            doublings: 0,
        }
    }

    /// The next pause.
    pub(crate) fn next(&mut self) -> Duration {
        let pause = doubled(self.first, self.longest, self.doublings);
        self.doublings = self.doublings.saturating_add(1);
        pause
    }

    /// It went well: the next pause is a first one again.
    pub(crate) fn reset(&mut self) {
        self.doublings = 0;
    }
}

/// Whether a key that can't be claimed is another's. A lock on the gap between two keys, such as InnoDB leaves behind where a
/// claim beside it is rolled back, looks the same and is gone in a moment.
pub(crate) struct Doubt {
    looks: u32,
}

impl Doubt {
    const PAUSE: Duration = Duration::from_millis(3);

    pub(crate) fn of<DB: Backend>() -> Self {
        Self {
            looks: if DB::LOCKS_GAPS { 4 } else { 0 },
        }
    }

    pub(crate) fn is_over(&self) -> bool {
        self.looks == 0
    }

    pub(crate) async fn pause(&mut self) {
        self.looks = self.looks.saturating_sub(1);
        tokio::time::sleep(jitter(Self::PAUSE)).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_the_longest() {
        let seconds = Duration::from_secs;
        for (doublings, most) in [
            (0, 1),
            (1, 2),
            (4, 16),
            (8, 256),
            (9, 300),
            (31, 300),
            (u32::MAX, 300),
        ] {
            let pause = doubled(seconds(1), seconds(300), doublings);
            let most = seconds(most);
            assert!((most / 2..=most).contains(&pause), "{doublings}: {pause:?}");
        }
    }

    #[test]
    fn any_setting_gives_a_pause() {
        for doublings in [0, 1, 31, u32::MAX] {
            let pause = doubled(Duration::MAX, Duration::MAX, doublings);
            assert!((LONGEST / 2..=LONGEST).contains(&pause), "{pause:?}");
        }
        assert_eq!(doubled(Duration::ZERO, Duration::MAX, 7), Duration::ZERO);
    }

    #[test]
    fn a_success_begins_anew() {
        let mut backoff = Backoff::new((Duration::from_secs(1), Duration::from_secs(60)));
        let pauses: Vec<Duration> = (0..3).map(|_| backoff.next()).collect();
        assert!(pauses[2] >= Duration::from_secs(2), "{pauses:?}");
        backoff.reset();
        assert!(backoff.next() <= Duration::from_secs(1));
    }
}
