//! The recovery worker: takes over operations whose attempts did not end them, and runs their handlers again.

mod handle;
mod recovered;
mod run;

use std::collections::HashMap;
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;

use super::Steps;
use super::inputs::Arguments;
use crate::atomic::new_owner;
use crate::backend::Backend;
use crate::backend::operations::OperationRow;
use crate::backoff::jitter;
use crate::call::IdempotentHandler;
use crate::faults;
use crate::idempotency::{Idempotency, StoreError};
use crate::operation::{Operation, Spec};
use crate::telemetry;

pub use self::handle::RecoveryHandle;
pub use self::recovered::Recovered;
use self::run::recover;

/// How often operations that no handler is registered for are looked for.
const ORPHANS_EVERY: Duration = Duration::from_secs(60);

/// The attempts that run. Dropped, it leaves them running: a call that was begun is not dropped half way.
#[derive(Default)]
struct Running(JoinSet<Recovered>);

impl Deref for Running {
    type Target = JoinSet<Recovered>;

    fn deref(&self) -> &JoinSet<Recovered> {
        &self.0
    }
}

impl DerefMut for Running {
    fn deref_mut(&mut self) -> &mut JoinSet<Recovered> {
        &mut self.0
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.0.detach_all();
    }
}

/// Runs one operation that was taken over.
type Run<DB> = Arc<
    dyn Fn(Idempotency<DB>, OperationRow, CancellationToken) -> BoxFuture<'static, Recovered>
        + Send
        + Sync,
>;

/// Takes over operations whose leases are over, and runs their handlers again without a request. Made by
/// [`Idempotency::recovery`].
///
/// Start one in each process: they share the work. Each operation is taken by one worker at a time; a lease that is renewed
/// while its handler runs is never stolen.
#[must_use = "a recovery worker does nothing until it is spawned or run"]
pub struct Recovery<DB: Backend, S> {
    idempotency: Idempotency<DB>,
    state: S,
    handlers: HashMap<&'static str, (&'static Spec, Run<DB>)>,
    every: Duration,
    concurrency: usize,
}

impl<DB: Backend> Idempotency<DB> {
    /// A recovery worker. `state` is the router's: handlers take their clients from it again.
    pub fn recovery<S: Clone + Send + Sync + 'static>(&self, state: S) -> Recovery<DB, S> {
        Recovery {
            idempotency: self.clone(),
            state,
            handlers: HashMap::new(),
            every: Duration::from_secs(1),
            concurrency: 16,
        }
    }
}

impl<DB: Backend, S: Clone + Send + Sync + 'static> Recovery<DB, S> {
    /// Registers a handler: the annotated function itself, as a route takes it.
    ///
    /// # Panics
    ///
    /// When another handler with its operation's name is registered already.
    pub fn register<F, T, E, M, O>(mut self, _: F) -> Self
    where
        F: IdempotentHandler<T, Operation = O>,
        O: Operation<Handle = Steps<DB, E>, Args: Arguments<S, M> + Send>,
        E: 'static,
        M: 'static,
    {
        let state = self.state.clone();
        let run: Run<DB> = Arc::new(move |idempotency, row, stop| {
            recover::<DB, S, O, E, M>(idempotency, state.clone(), row, stop).boxed()
        });
        let spec = &O::SPEC;
        let other = self.handlers.insert(spec.name, (spec, run));
        assert!(
            other.is_none_or(|(other, _)| other.function == spec.function),
            "two handlers are the operation `{}`; give one another name: `operation = \"..\"`",
            spec.name
        );
        self
    }

    /// The time between two looks for operations that are due: 1 second unless said. Each is 50 to 100 % of it, so that
    /// workers do not look at once.
    pub fn every(mut self, every: Duration) -> Self {
        self.every = every.max(Duration::from_millis(1));
        self
    }

    /// How many operations it runs at once: 16 unless said, 1 at least.
    pub fn concurrency(mut self, operations: usize) -> Self {
        self.concurrency = operations.max(1);
        self
    }

    /// Takes over and runs what is due now, until nothing is. Returns what became of each.
    ///
    /// # Errors
    ///
    /// [`RecoveryError`], when the store can't be reached; what was taken over by then is run to its end first.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: what runs goes on in tasks of its own.
    pub async fn run_once(&self) -> Result<Vec<Recovered>, RecoveryError> {
        let stop = CancellationToken::new();
        let mut running = Running::default();
        let mut all = Vec::new();
        loop {
            let free = self.concurrency - running.len();
            let taken = if free > 0 {
                self.take_over(free, &mut running, &stop).await
            } else {
                Ok(0)
            };
            if let Err(error) = taken {
                while let Some(done) = running.join_next().await {
                    all.extend(done.ok());
                }
                return Err(RecoveryError(error));
            }
            match running.join_next().await {
                Some(done) => all.extend(done.ok()),
                None => return Ok(all),
            }
            let more = self.places(&mut running, |recovered| all.push(recovered));
            // One that takes long keeps nobody from the other places.
            let _ = timeout(self.every, more).await;
        }
    }

    /// Works until `shutdown` is ready. What runs then is given ten seconds to end, and a call that can't be repeated as long as
    /// its time limit; what does not end is handed over, and does not count as an attempt.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: what runs goes on in tasks of its own.
    pub async fn run_until(self, shutdown: impl Future<Output = ()>) {
        let stop = CancellationToken::new();
        let mut work = pin!(self.work(&stop));
        tokio::select! {
            () = &mut work => return,
            () = shutdown => stop.cancel(),
        }
        work.await;
    }

    /// Works until the future is dropped.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: what runs goes on in tasks of its own.
    pub async fn run(self) {
        self.run_until(std::future::pending()).await;
    }

    /// Starts it in a task.
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime.
    pub fn spawn(self) -> RecoveryHandle {
        let stop = CancellationToken::new();
        let token = stop.clone();
        let task = tokio::spawn(async move { self.work(&token).await });
        RecoveryHandle { stop, task }
    }

    async fn work(&self, stop: &CancellationToken) {
        let mut running = Running::default();
        let mut pause = self.every.mul_f64(fastrand::f64());
        let mut orphans_at = Instant::now();
        let mut failures = 0_u32;
        while stop
            .run_until_cancelled(tokio::time::sleep(pause))
            .await
            .is_some()
        {
            while running.try_join_next().is_some() {}
            let free = self.concurrency - running.len();
            let taken = if free > 0 {
                self.take_over(free, &mut running, stop).await
            } else {
                Ok(0)
            };
            pause = jitter(self.every);
            match taken {
                // There may be more: as soon as there are places.
                Ok(taken) if taken > 0 && taken == free => {
                    let places = timeout(self.every, self.places(&mut running, drop));
                    let _ = stop.run_until_cancelled(places).await;
                    pause = Duration::ZERO;
                    failures = 0;
                }
                Ok(_) => failures = 0,
                Err(error) if error.is_of_closed_pool() => break,
                Err(error) => {
                    failures = failures.saturating_add(1);
                    pause = pause.saturating_mul(1 << failures.min(4));
                    tracing::warn!(target: "idem", %error, failures, "recovery can't reach the store; it tries again later");
                }
            }
            if Instant::now() >= orphans_at {
                orphans_at = Instant::now() + ORPHANS_EVERY;
                self.watch().await;
            }
        }
        while running.join_next().await.is_some() {}
    }

    /// Waits until half of the places are free: each take-over is a commit, and a batch costs no more than one operation.
    async fn places(&self, running: &mut Running, mut ended: impl FnMut(Recovered)) {
        while running.len() > self.concurrency / 2 {
            if let Some(Ok(recovered)) = running.join_next().await {
                ended(recovered);
            }
        }
    }

    /// Takes over up to so many operations, and runs each in a task.
    async fn take_over(
        &self,
        free: usize,
        running: &mut Running,
        stop: &CancellationToken,
    ) -> Result<usize, StoreError> {
        let names: Vec<&str> = self.handlers.keys().copied().collect();
        let batch = u32::try_from(free).unwrap_or(u32::MAX);
        let idempotency = self.idempotency.clone();
        let settings = &idempotency.shared.settings;
        let (lease, owner) = (settings.lease, new_owner());
        let limit = Instant::now() + settings.store_timeout;
        faults::point("take_over.before");
        let mut alone = idempotency.alone(limit).await?;
        let rows = alone.run(limit, async |connection: &mut DB::Connection| {
            DB::take_over(connection, &names, owner, lease, batch).await
        });
        let rows = rows.await?;
        drop(alone);
        faults::point("take_over.after");
        let taken = rows.len();
        for row in rows {
            let Some((_, run)) = self.handlers.get(row.operation.as_str()) else {
                continue;
            };
            running.spawn(run(self.idempotency.clone(), row, stop.clone()));
        }
        Ok(taken)
    }

    /// Reports what waits for somebody: operations without a handler here, and those that are unknown.
    async fn watch(&self) {
        let names: Vec<&str> = self.handlers.keys().copied().collect();
        let limit = Instant::now() + self.idempotency.shared.settings.store_timeout;
        let counted = async {
            let mut alone = self.idempotency.reading(limit).await?;
            let counted = alone.run(limit, async |connection: &mut DB::Connection| {
                let orphans = DB::orphans(connection, &names).await?;
                Ok((orphans, DB::unresolved(connection).await?))
            });
            counted.await
        };
        let (orphans, unresolved) = match counted.await {
            Ok(counted) => counted,
            Err(error) => {
                tracing::debug!(target: "idem", %error, "unresolved operations could not be counted");
                return;
            }
        };
        for (operation, number) in orphans {
            tracing::warn!(
                target: "idem",
                operation,
                number,
                "operations are due that no handler is registered for: call `.register(..)` with it, or resolve them"
            );
        }
        telemetry::unresolved(&unresolved);
    }
}

impl<DB: Backend, S> fmt::Debug for Recovery<DB, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recovery")
            .field("operations", &self.handlers.keys())
            .finish_non_exhaustive()
    }
}

/// Why operations could not be recovered now.
#[derive(Debug, thiserror::Error)]
#[error("operations can't be recovered now: {0}")]
pub struct RecoveryError(#[source] StoreError);
