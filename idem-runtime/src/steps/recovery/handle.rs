//! A worker that was started.

use std::fmt;

use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// A recovery worker that runs in a task. Dropping the handle does not stop it.
#[must_use = "dropped, it leaves the worker running until the runtime ends"]
pub struct RecoveryHandle {
    pub(super) stop: CancellationToken,
    pub(super) task: JoinHandle<()>,
}

impl RecoveryHandle {
    /// Stops it: what runs is given ten seconds to end, and a call that can't be repeated as long as its time limit. What does
    /// not end is handed over.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: it stops all the same.
    pub async fn stop(self) {
        self.stop.cancel();
        // It fails only with the runtime, and then it has stopped.
        let _ = self.task.await;
    }
}

impl fmt::Debug for RecoveryHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RecoveryHandle")
            .field("running", &!self.task.is_finished())
            .finish_non_exhaustive()
    }
}
