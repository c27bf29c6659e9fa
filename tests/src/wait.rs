//! Waiting by condition, with a deadline.

use std::time::{Duration, Instant};

/// How long a condition of a test may take before the test fails.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// Asks `condition` again and again until it holds.
///
/// # Panics
///
/// When `deadline` passes first; the message names `what`.
pub async fn until<F>(what: &str, deadline: Duration, mut condition: F)
where
    F: AsyncFnMut() -> bool,
{
    let start = Instant::now();
    let mut pause = Duration::from_millis(2);
    while !condition().await {
        assert!(
            start.elapsed() < deadline,
            "{what}: not within {deadline:?}"
        );
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(Duration::from_millis(50));
    }
}

/// How often [`in_time`] tries.
const TRIES: u32 = 5;

/// Runs `act` until it has taken less than `limit`, a few times at most: what a loaded machine adds differs from one run to the
/// next, and what is slow by itself is slow in each. What it gave in that run.
///
/// # Panics
///
/// When no run was as fast; the message names `what`.
pub async fn in_time<T>(what: &str, limit: Duration, mut act: impl AsyncFnMut() -> T) -> T {
    let mut taken = Vec::new();
    for _ in 0..TRIES {
        let start = Instant::now();
        let gave = act().await;
        taken.push(start.elapsed());
        if taken.last().is_some_and(|taken| *taken < limit) {
            return gave;
        }
    }
    panic!("{what}: never within {limit:?}, but in {taken:?}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn one_run_that_is_in_time_is_enough() {
        let mut runs = 0;
        let act = async || {
            runs += 1;
            if runs == 1 {
                tokio::time::sleep(Duration::from_millis(1100)).await;
            }
            runs
        };
        assert_eq!(in_time("it", Duration::from_secs(1), act).await, 2);
    }

    #[tokio::test]
    #[should_panic(expected = "it: never within")]
    async fn what_is_slow_each_time_is_found_out() {
        in_time("it", Duration::ZERO, async || {}).await;
    }
}
