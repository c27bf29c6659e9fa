//! An attempt that does not end its operation: who goes on with it, and when.

use std::time::Duration;

use tokio::time::{Instant, timeout};

use super::super::stop::Interrupt;
use super::{Attempt, Ended};
use crate::atomic::CLEAN_UP;
use crate::backend::Backend;
use crate::backend::operations::Fence;
use crate::backoff::doubled;
use crate::faults;
use crate::guard;
use crate::idempotency::{Idempotency, StoreError};
use crate::operations::OperationId;
use crate::problem::Problem;
use crate::telemetry;

/// How long the pauses between attempts are at most.
const LONGEST_PAUSE: Duration = Duration::from_secs(300);

impl<DB: Backend> Attempt<DB> {
    /// Ends an attempt that can't begin.
    pub(crate) async fn stopped(self, why: Interrupt) -> Ended {
        self.interrupted(why).await
    }

    /// Leaves the operation to whoever comes after `delay`, as if it had not been taken.
    pub(crate) async fn put_back(self, delay: Duration) -> Ended {
        match self.hand_over(delay, true).await {
            Ok(true) => Ended::Later,
            Ok(false) => Ended::Elsewhere,
            Err(error) => Ended::Store(error),
        }
    }

    pub(super) async fn interrupted(self, why: Interrupt) -> Ended {
        match why {
            Interrupt::LostLease | Interrupt::Again => Ended::Elsewhere,
            // As if it had not been taken. Where it fails the lease ends by itself.
            Interrupt::Shutdown => {
                let _ = timeout(CLEAN_UP, self.hand_over(Duration::ZERO, true)).await;
                Ended::Elsewhere
            }
            // Who has to look learns what it was, and not only that many attempts did not end it.
            Interrupt::Store(error @ StoreError::Cipher(_)) => {
                self.later(Duration::ZERO, &error.to_string()).await
            }
            Interrupt::Store(error) => {
                // The lease ends by itself; where the store is back already, sooner.
                match self.hand_over(Duration::from_secs(1), false).await {
                    Ok(false) => Ended::Elsewhere,
                    Ok(true) | Err(_) => Ended::Store(error),
                }
            }
            Interrupt::Unknown(reason) => self.park(&reason).await,
            Interrupt::Later(delay, reason) => self.later(delay, &reason).await,
            Interrupt::Fault(code, reason) => {
                tracing::error!(target: "idem", operation = self.spec.name, key = self.digest, reason, "a step failed by its handler's fault");
                match self.release(Ended::Refused(Problem::new(code))).await {
                    Ok(Ended::Refused(problem)) => Ended::Refused(problem),
                    // Something is recorded: another run would meet the same fault, but nothing is lost.
                    _ => self.later(Duration::ZERO, &reason).await,
                }
            }
        }
    }

    /// Leaves the operation to whoever comes later, or gives it up after too many attempts.
    pub(super) async fn later(self, delay: Duration, reason: &str) -> Ended {
        let settings = &self.idempotency.shared.settings;
        let most = settings.max_attempts;
        if i64::from(self.tries) >= i64::from(most) {
            let reason = format!("{most} attempts did not end it; the last: {reason}");
            return self.park(&reason).await;
        }
        tracing::warn!(target: "idem", operation = self.spec.name, key = self.digest, attempt = self.fence.attempt, reason, "an attempt did not end its operation");
        let doublings = u32::try_from(self.tries.max(1) - 1).unwrap_or(0);
        let pause = doubled(settings.retry_pause, LONGEST_PAUSE, doublings).max(delay);
        match self.hand_over(pause, false).await {
            Ok(true) => Ended::Later,
            Ok(false) => Ended::Elsewhere,
            Err(error) => Ended::Store(error),
        }
    }

    async fn hand_over(&self, delay: Duration, in_order: bool) -> Result<bool, StoreError> {
        hand_over(&self.idempotency, &self.fence, delay, in_order).await
    }

    async fn park(self, reason: &str) -> Ended {
        faults::point("park.before");
        let limit = self.limit();
        let parked = async {
            let mut alone = self.idempotency.alone(limit).await?;
            let parked = alone.run(limit, async |connection: &mut DB::Connection| {
                DB::park(connection, &self.fence, reason).await
            });
            parked.await
        };
        match parked.await {
            Ok(true) => {
                telemetry::parked(self.spec.name, OperationId::of(self.fence.id), reason);
                Ended::Unknown
            }
            Ok(false) => Ended::Elsewhere,
            Err(error) => Ended::Store(error),
        }
    }

    /// Nothing is recorded: the key is free again.
    pub(super) async fn release(&self, ended: Ended) -> Result<Ended, Interrupt> {
        faults::point("release.before");
        let limit = self.limit();
        let released = async {
            let mut alone = self.idempotency.alone(limit).await?;
            let released = alone.run(limit, async |connection: &mut DB::Connection| {
                DB::release(connection, &self.fence).await
            });
            released.await
        };
        match guard::unwatched(released).await {
            Ok(true) => Ok(ended),
            Ok(false) => Err(Interrupt::LostLease),
            Err(error) => Err(Interrupt::Store(error)),
        }
    }
}

async fn hand_over<DB: Backend>(
    idempotency: &Idempotency<DB>,
    fence: &Fence,
    delay: Duration,
    in_order: bool,
) -> Result<bool, StoreError> {
    faults::point("hand_over.before");
    let limit = Instant::now() + idempotency.shared.settings.store_timeout;
    let mut alone = idempotency.alone(limit).await?;
    let handed = alone.run(limit, async |connection: &mut DB::Connection| {
        DB::hand_over(connection, fence, delay, in_order).await
    });
    handed.await
}
