//! What is counted.

use std::fmt;
use std::sync::Arc;

use futures_util::future::LocalBoxFuture;

use super::violation::{Phase, Violation};

/// Counts the effects that there are, as the test says.
pub(super) struct Count(Box<dyn Fn() -> LocalBoxFuture<'static, Result<u64, String>>>);

impl Count {
    pub(super) fn new<F, E>(count: F) -> Count
    where
        F: AsyncFn() -> Result<u64, E> + 'static,
        E: fmt::Display,
    {
        let count = Arc::new(count);
        Count(Box::new(move || {
            let count = count.clone();
            Box::pin(async move { count().await.map_err(|error| error.to_string()) })
        }))
    }

    pub(super) async fn read(&self, phase: Phase) -> Result<u64, Violation> {
        (self.0)()
            .await
            .map_err(|error| Violation::NotCounted { phase, error })
    }
}
