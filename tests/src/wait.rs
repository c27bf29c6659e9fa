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
