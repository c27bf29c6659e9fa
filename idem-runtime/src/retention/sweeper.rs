//! The sweeper: rounds of batches, at an interval, until it is told to stop.

use std::fmt;
use std::pin::pin;
use std::time::{Duration, Instant};

use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::RetentionError;
use crate::backend::Backend;
use crate::idempotency::Idempotency;

/// How often a failing sweeper's interval is doubled.
const MAX_DOUBLINGS: u32 = 4;
/// The shortest interval: an interval of zero would never let the database rest.
const SHORTEST: Duration = Duration::from_millis(10);

impl<DB: Backend> Idempotency<DB> {
    /// A sweeper of the records whose retention is over. Start one in each process: they share the
    /// work, and start at random moments so as not to sweep in step.
    ///
    /// ```
    /// # #[cfg(feature = "sqlite")]
    /// # async fn f(idempotency: idem_runtime::Idempotency<sqlx::Sqlite>) {
    /// let sweeper = idempotency.sweeper().spawn();
    /// // The service serves; when it is told to stop:
    /// sweeper.stop().await;
    /// # }
    /// ```
    pub fn sweeper(&self) -> Sweeper<DB> {
        Sweeper {
            idempotency: self.clone(),
            every: Duration::from_secs(60),
            batch: 200,
            pause: Duration::from_millis(10),
        }
    }
}

/// Erases the stored answers of expired keys that keep a tombstone, then deletes the records, and the messages of the
/// [inbox](crate::inbox), whose retention is over. Made by [`Idempotency::sweeper`].
///
/// Only *completed* records are touched, and only by the database's clock: a record that a request
/// replaces in the same moment is left to it, and one without a known outcome stays for ever. Each batch
/// is a short transaction of its own; on SQLite it waits for the writer's turn like any request. A round
/// ends with the first batch that is not full, and is a `tracing` event with its figures: level `INFO`
/// if there was anything to do, else `DEBUG`, target `idem`.
#[derive(Debug)]
#[must_use = "a sweeper does nothing until it is spawned, run or asked for one sweep"]
pub struct Sweeper<DB: Backend> {
    idempotency: Idempotency<DB>,
    every: Duration,
    batch: u32,
    pause: Duration,
}

/// What one round did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Swept {
    /// Answers that were erased; their keys keep a tombstone.
    pub answers: u64,
    /// Records that were deleted.
    pub records: u64,
    /// Processed messages that consumers need remember no longer.
    pub messages: u64,
    /// Batches that it took.
    pub batches: u64,
}

impl<DB: Backend> Clone for Sweeper<DB> {
    fn clone(&self) -> Self {
        Self {
            idempotency: self.idempotency.clone(),
            ..*self
        }
    }
}

impl<DB: Backend> Sweeper<DB> {
    /// The time from the end of one round to the start of the next: 60 seconds
    /// unless said, 10 milliseconds at least. After failures it is doubled, up to four times.
    pub fn every(mut self, every: Duration) -> Self {
        self.every = every.max(SHORTEST);
        self
    }

    /// How many records one statement takes: 200 unless said, 1 at least. Smaller batches hold locks
    /// for a shorter time, and hold requests up less.
    pub fn batch(mut self, records: u32) -> Self {
        self.batch = records.max(1);
        self
    }

    /// The pause between two batches: 10 milliseconds unless said.
    pub fn pause(mut self, pause: Duration) -> Self {
        self.pause = pause;
        self
    }

    /// Sweeps once, until nothing is left to sweep.
    ///
    /// # Errors
    ///
    /// [`RetentionError`], when a batch failed; those before it are done.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: the batch that runs is finished, and no other is begun.
    pub async fn sweep_once(&self) -> Result<Swept, RetentionError> {
        self.round(&CancellationToken::new()).await
    }

    /// Sweeps at its interval until `shutdown` is ready. Failures are logged and the next round tried
    /// later. It ends by itself only when the pool is closed.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: the batch that runs is finished, and no other is begun.
    pub async fn run_until(self, shutdown: impl Future<Output = ()>) {
        let stop = CancellationToken::new();
        let mut rounds = pin!(self.rounds(&stop));
        tokio::select! {
            () = &mut rounds => return,
            () = shutdown => stop.cancel(),
        }
        rounds.await;
    }

    /// Starts it in a task.
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime.
    pub fn spawn(self) -> SweeperHandle {
        let stop = CancellationToken::new();
        let token = stop.clone();
        let task = tokio::spawn(async move { self.rounds(&token).await });
        SweeperHandle { stop, task }
    }

    async fn rounds(&self, stop: &CancellationToken) {
        let mut delay = self.every.mul_f64(fastrand::f64());
        let mut failures = 0_u32;
        while stop
            .run_until_cancelled(tokio::time::sleep(delay))
            .await
            .is_some()
        {
            match self.round(stop).await {
                Ok(_) => failures = 0,
                Err(error) if error.is_of_closed_pool() => {
                    tracing::debug!(target: "idem", "the pool is closed; the sweeper ends");
                    return;
                }
                Err(error) => {
                    failures = failures.saturating_add(1);
                    tracing::warn!(target: "idem", %error, failures, "a sweep failed; it is tried again later");
                }
            }
            delay = self.delay(failures);
        }
    }

    /// Until the next round.
    fn delay(&self, failures: u32) -> Duration {
        let doubled = self.every.saturating_mul(1 << failures.min(MAX_DOUBLINGS));
        // A float of a huge duration does not fit back into one.
        Duration::try_from_secs_f64(doubled.as_secs_f64() * (0.9 + fastrand::f64() / 5.0))
            .unwrap_or(doubled)
    }

    async fn round(&self, stop: &CancellationToken) -> Result<Swept, RetentionError> {
        let started = Instant::now();
        let mut swept = Swept::default();
        let done = self.sweep(stop, &mut swept).await;
        let Swept {
            answers,
            records,
            messages,
            batches,
        } = swept;
        macro_rules! event {
            ($level:ident) => {
                tracing::$level!(
                    target: "idem",
                    answers,
                    records,
                    messages,
                    batches,
                    elapsed_seconds = started.elapsed().as_secs_f64(),
                    "swept"
                )
            };
        }
        if answers + records + messages > 0 {
            event!(info);
        } else {
            event!(debug);
        }
        done.map(|()| swept)
    }

    /// Answers first: a record whose retention ends meanwhile is then deleted in the same round.
    async fn sweep(
        &self,
        stop: &CancellationToken,
        swept: &mut Swept,
    ) -> Result<(), RetentionError> {
        let batch = self.batch;
        let hints = self.idempotency.shared.settings.hints;
        while !stop.is_cancelled() {
            let answers = self
                .idempotency
                .batch("the erasure of expired answers", move |connection| {
                    Box::pin(DB::erase_answers(connection, batch))
                })
                .await?;
            swept.answers += answers;
            swept.batches += 1;
            if !self.goes_on(answers, stop).await {
                break;
            }
        }
        while !stop.is_cancelled() {
            let records = self
                .idempotency
                .batch("the deletion of expired records", move |connection| {
                    Box::pin(DB::delete_expired(connection, batch, hints))
                })
                .await?;
            swept.records += records;
            swept.batches += 1;
            if !self.goes_on(records, stop).await {
                break;
            }
        }
        while !stop.is_cancelled() {
            let messages = self
                .idempotency
                .batch("the deletion of expired messages", move |connection| {
                    Box::pin(DB::delete_expired_messages(connection, batch))
                })
                .await?;
            swept.messages += messages;
            swept.batches += 1;
            if !self.goes_on(messages, stop).await {
                break;
            }
        }
        Ok(())
    }

    /// Whether there may be more, after the pause.
    async fn goes_on(&self, done: u64, stop: &CancellationToken) -> bool {
        done >= u64::from(self.batch)
            && stop
                .run_until_cancelled(tokio::time::sleep(self.pause))
                .await
                .is_some()
    }
}

/// A sweeper that runs in a task. Dropping the handle does not stop it.
#[must_use = "dropped, it leaves the sweeper running until the runtime ends"]
pub struct SweeperHandle {
    stop: CancellationToken,
    task: JoinHandle<()>,
}

impl SweeperHandle {
    /// Stops it, and waits until the batch that runs is finished.
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

impl fmt::Debug for SweeperHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SweeperHandle")
            .field("running", &!self.task.is_finished())
            .finish_non_exhaustive()
    }
}
