//! The lease of an attempt, while its handler runs.

use std::time::Duration;

use tokio::time::Instant;

use super::super::core::{self, Progress};
use super::super::stop::Interrupt;
use super::Attempt;
use crate::backend::Backend;
use crate::faults;

/// What a shutdown leaves an attempt to come to a recorded point.
const LAST_CALL: Duration = Duration::from_secs(10);

impl<DB: Backend> Attempt<DB> {
    /// Renews the lease until it is lost, or the worker has waited long enough for its end. A call that can't be repeated is
    /// waited for all the same: what it says, nobody else learns.
    pub(super) async fn keep(&self, progress: &Progress) -> Interrupt {
        let why = tokio::select! {
            why = self.renew_until_lost(progress) => why,
            () = async {
                self.last_call().await;
                // The lease is renewed as long as that takes.
                progress.call_ended().await;
            } => Interrupt::Shutdown,
        };
        progress.call_ended().await;
        why
    }

    /// Ready when a worker that is being stopped waits no longer.
    async fn last_call(&self) {
        match &self.shutdown {
            Some(shutdown) => shutdown.cancelled().await,
            None => std::future::pending().await,
        }
        tokio::time::sleep(LAST_CALL).await;
    }

    async fn renew_until_lost(&self, progress: &Progress) -> Interrupt {
        let lease = self.lease();
        let mut renewed = Instant::now();
        loop {
            tokio::time::sleep(lease / 3).await;
            // A step's transaction and the renewal write the same row: at a higher isolation the step would run again. And
            // where there is one writer, nobody can take anything over meanwhile.
            if progress.is_open() && (DB::SINGLE_WRITER || renewed.elapsed() < lease / 2) {
                continue;
            }
            faults::point("renew");
            match core::renew(&self.idempotency, &self.fence, lease).await {
                Ok(true) => renewed = Instant::now(),
                Ok(false) => return Interrupt::LostLease,
                // The lease may outlast the outage.
                Err(error) if renewed.elapsed() < lease => {
                    tracing::warn!(target: "idem", operation = self.spec.name, %error, "a lease could not be renewed");
                }
                Err(error) => return Interrupt::Store(error),
            }
        }
    }
}
