//! What a handler's attempt knows of time, and what the renewal of its lease must know of its steps.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::Notify;
use tokio::time::Instant;

use crate::backend;

/// The database's clock, as this process knows it: what it said, and the time since, which no setting of a clock changes. Never
/// ahead of the database's.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    said: i64,
    at: Instant,
}

impl Clock {
    /// `now` was just read, in milliseconds since 1970.
    pub(crate) fn new(now: i64) -> Self {
        Self {
            said: now,
            at: Instant::now(),
        }
    }

    pub(crate) fn now(&self) -> i64 {
        self.said.saturating_add(backend::millis(self.at.elapsed()))
    }
}

/// What the renewal of the lease must know of the steps, which run beside it.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    /// A step's transaction is open.
    pub(super) open: AtomicBool,
    /// A call is under way that can't be repeated.
    calling: AtomicBool,
    called: Notify,
}

impl Progress {
    pub(crate) fn is_open(&self) -> bool {
        self.open.load(Ordering::SeqCst)
    }

    /// A call is under way until the value is dropped.
    pub(crate) fn calling(self: &Arc<Self>) -> Calling {
        self.calling.store(true, Ordering::SeqCst);
        Calling(self.clone())
    }

    /// Ready when no call is under way.
    pub(crate) async fn call_ended(&self) {
        loop {
            let called = self.called.notified();
            if !self.calling.load(Ordering::SeqCst) {
                return;
            }
            called.await;
        }
    }
}

/// See [`Progress::calling`].
pub(crate) struct Calling(Arc<Progress>);

impl Drop for Calling {
    fn drop(&mut self) {
        self.0.calling.store(false, Ordering::SeqCst);
        self.0.called.notify_waiters();
    }
}
