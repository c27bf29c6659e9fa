//! How long answers took, in a memory that does not grow with their number.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;

/// Each is counted as one of those that are at most so much, as a ratio, apart from it.
const STEP: f64 = 1.02;

/// How often answers took how long.
#[derive(Clone, Debug, Default)]
pub(super) struct Latencies {
    counts: BTreeMap<u32, u64>,
    total: u64,
    longest: Duration,
}

/// What half of the answers, and so on, took at most, in milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Percentiles {
    /// How many answers.
    pub answers: u64,
    /// Of a hundred, fifty.
    pub p50_ms: f64,
    /// Ninety.
    pub p90_ms: f64,
    /// Ninety-nine.
    pub p99_ms: f64,
    /// All.
    pub max_ms: f64,
}

impl Latencies {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "the logarithm of a time in microseconds, which is at least 1"
    )]
    pub(super) fn add(&mut self, taken: Duration) {
        let micros = (taken.as_secs_f64() * 1e6).max(1.0);
        let step = (micros.ln() / STEP.ln()).ceil() as u32;
        *self.counts.entry(step).or_default() += 1;
        self.total += 1;
        self.longest = self.longest.max(taken);
    }

    /// What this part of all, from 0 to 1, took at most.
    pub(super) fn at(&self, part: f64) -> Option<Duration> {
        let mut seen = 0;
        for (step, count) in &self.counts {
            seen += count;
            if seen as f64 >= part * self.total as f64 {
                let micros = STEP.powf(f64::from(*step));
                return Some(Duration::from_secs_f64(micros / 1e6).min(self.longest));
            }
        }
        None
    }

    pub(super) fn percentiles(&self) -> Percentiles {
        let at = |part| milliseconds(self.at(part).unwrap_or_default());
        Percentiles {
            answers: self.total,
            p50_ms: at(0.5),
            p90_ms: at(0.9),
            p99_ms: at(0.99),
            max_ms: milliseconds(self.longest),
        }
    }
}

/// With two decimals.
fn milliseconds(time: Duration) -> f64 {
    (time.as_secs_f64() * 1e5).round() / 100.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_right_within_a_step() {
        let mut latencies = Latencies::default();
        for millis in 1..=1000 {
            latencies.add(Duration::from_millis(millis));
        }
        let seen = latencies.percentiles();
        assert_eq!((seen.answers, seen.max_ms), (1000, 1000.0));
        for (seen, exact) in [
            (seen.p50_ms, 500.0),
            (seen.p90_ms, 900.0),
            (seen.p99_ms, 990.0),
        ] {
            assert!((exact..=exact * STEP).contains(&seen), "{seen} for {exact}");
        }
    }

    #[test]
    fn none_and_the_extremes_are_no_trouble() {
        assert_eq!(Latencies::default().percentiles(), Percentiles::default());
        let mut latencies = Latencies::default();
        for extreme in [Duration::ZERO, Duration::from_secs(86_400 * 365)] {
            latencies.add(extreme);
        }
        assert_eq!(latencies.percentiles().answers, 2);
    }
}
