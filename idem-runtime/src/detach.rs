//! A future that outlives whoever polls it.
//!
//! An attempt must run from its begin to its commit whatever becomes of the client: a future that is
//! dropped half way can leave an open transaction in the pool, and one that is dropped inside its commit
//! has committed. A task of its own for each request would do, at the price of two switches of threads a
//! request. So the attempt is polled where it is, and becomes a task only when it is dropped unfinished.

use std::any::Any;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::task::{Context, Poll};

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tokio_util::task::TaskTracker;
use tokio_util::task::task_tracker::TaskTrackerToken;
use tracing::Instrument;

use crate::faults::{self, Plant};

/// A panic, as `catch_unwind` gives it.
pub(crate) type Panic = Box<dyn Any + Send>;

/// See the module.
pub(crate) struct Detached<T: Send + 'static> {
    /// `None` once it has ended.
    future: Option<BoxFuture<'static, Result<T, Panic>>>,
    tasks: TaskTracker,
    /// Counts the attempt among the tasks that a drain waits for.
    _token: TaskTrackerToken,
}

impl<T: Send + 'static> Detached<T> {
    /// Runs `future` to its end, here or in a task of the tracker.
    pub(crate) fn new(
        tasks: &TaskTracker,
        future: impl Future<Output = T> + Send + 'static,
    ) -> Self {
        let future = faults::carried(future);
        let span = tracing::Span::current();
        let future: BoxFuture<'static, _> = if span.is_none() {
            Box::pin(AssertUnwindSafe(future).catch_unwind())
        } else {
            Box::pin(AssertUnwindSafe(future.instrument(span)).catch_unwind())
        };
        Self {
            future: Some(future),
            _token: tasks.token(),
            tasks: tasks.clone(),
        }
    }
}

impl<T: Send + 'static> Future for Detached<T> {
    type Output = Result<T, Panic>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let Some(future) = &mut self.future else {
            return Poll::Pending;
        };
        let ended = future.as_mut().poll(context);
        if ended.is_ready() {
            self.future = None;
        }
        ended
    }
}

impl<T: Send + 'static> Drop for Detached<T> {
    fn drop(&mut self) {
        if faults::planted(Plant::DroppedWithClient) {
            return;
        }
        // Without a runtime the process is on its way out, and the database rolls back.
        if let (Some(future), Ok(runtime)) =
            (self.future.take(), tokio::runtime::Handle::try_current())
        {
            self.tasks.spawn_on(future, &runtime);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::Duration;

    use super::*;

    #[tokio::test]
    async fn what_is_dropped_half_way_goes_on() {
        let tasks = TaskTracker::new();
        let ended = Arc::new(AtomicBool::new(false));
        let mark = ended.clone();
        let mut detached = Detached::new(&tasks, async move {
            tokio::time::sleep(Duration::from_millis(20)).await;
            mark.store(true, Ordering::SeqCst);
        });
        assert!(futures_util::poll!(&mut detached).is_pending());
        drop(detached);
        tasks.close();
        tasks.wait().await;
        assert!(ended.load(Ordering::SeqCst));
    }

    #[tokio::test]
    async fn what_was_never_polled_runs_too() {
        let tasks = TaskTracker::new();
        let ended = Arc::new(AtomicBool::new(false));
        let mark = ended.clone();
        drop(Detached::new(&tasks, async move {
            mark.store(true, Ordering::SeqCst);
        }));
        tasks.close();
        tasks.wait().await;
        assert!(ended.load(Ordering::SeqCst));
    }

    #[tokio::test]
    async fn a_panic_is_an_error_and_a_drain_ends() {
        let tasks = TaskTracker::new();
        let detached = Detached::new(&tasks, async { panic!("on purpose") });
        assert_eq!(tasks.len(), 1);
        assert!(detached.await.is_err());
        assert!(tasks.is_empty());
    }
}
