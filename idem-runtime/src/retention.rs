//! How long records stay: the sweeper, and the erasure of all that one owner left.
//!
//! Nothing here is needed for a key to expire. A record past its lifetime is replaced by the next
//! request with its key, swept or not; the sweeper gives the space back, and erases answers that are
//! kept for nobody.

use std::time::{Duration, Instant};

use futures_util::future::BoxFuture;
use tokio::time::timeout;

use crate::backend::{self, Backend};
use crate::idempotency::{Idempotency, StartupError, StoreError};
use crate::scope::{Scope, ScopeKey};

mod sweeper;

pub use sweeper::{Sweeper, SweeperHandle, Swept};

/// How long one batch may take before its connection is closed.
const BATCH_LIMIT: Duration = Duration::from_secs(30);
/// How often a batch is run when the database asks for it.
const MAX_RUNS: u32 = 3;
/// The pause before such a run, times the runs before it.
const RUN_AGAIN: Duration = Duration::from_millis(20);
/// Records that an erasure looks at in one statement.
const PAGE: u32 = 1000;

/// What an erasure did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Erased {
    /// Records that are gone.
    pub erased: u64,
    /// Records of the owner that stay: those without a known outcome, which must be resolved first, and
    /// those that a running request was replacing.
    pub kept: u64,
}

/// Why records could not be swept or erased.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RetentionError {
    /// The database refused, or is out of reach.
    #[error("{doing} failed: {error}")]
    Database {
        /// What was being done.
        doing: &'static str,
        /// What the database said.
        #[source]
        error: sqlx::Error,
    },
    /// The database, or a connection to it, was waited for too long.
    #[error("{doing} waited too long for {waited_for}")]
    TimedOut {
        /// What was being done.
        doing: &'static str,
        /// What did not come.
        waited_for: &'static str,
    },
    /// The tables are missing, or older than this version needs.
    #[error(transparent)]
    Schema(StartupError),
    /// The runtime shut down under it.
    #[error("{0} was interrupted by the runtime's shutdown")]
    Interrupted(&'static str),
}

impl RetentionError {
    fn is_of_closed_pool(&self) -> bool {
        matches!(
            self,
            Self::Database {
                error: sqlx::Error::PoolClosed,
                ..
            }
        )
    }
}

impl<DB: Backend> Idempotency<DB> {
    /// Deletes the completed records of one owner: the stored answers, and with them the memory that
    /// their requests were served. A retry that comes later **runs its handler again**, so stop the
    /// owner's requests first. What the handlers wrote in your own tables is not touched.
    ///
    /// Records without a known outcome stay and are counted in [`Erased::kept`], as are those that a
    /// running request is replacing. Resolve them, or let the requests end, and call it again.
    ///
    /// It walks the whole table by its primary key, a thousand records a statement: no request pays for
    /// an index that only erasures would use. Each page is a `tracing` event of level `DEBUG`, the end
    /// one of level `INFO`, with the target `idem`.
    ///
    /// # Errors
    ///
    /// [`RetentionError`], when a page failed; those before it are erased. Call it again.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: the page that runs is finished, and no other is begun.
    pub async fn erase<S: Scope + ?Sized>(&self, scope: &S) -> Result<Erased, RetentionError> {
        let scope = ScopeKey::of(scope);
        let started = Instant::now();
        let mut total = Erased::default();
        let mut after = None;
        for pages in 1_u64.. {
            let scope = scope.clone();
            let page = self
                .batch("the erasure of an owner's records", move |connection| {
                    let scope = scope.clone();
                    Box::pin(async move {
                        DB::erase_scope(connection, &scope, after.as_ref(), PAGE).await
                    })
                })
                .await?;
            total.erased += page.erased;
            total.kept += page.kept;
            let Erased { erased, kept } = total;
            tracing::debug!(target: "idem", pages, erased, kept, "erasing an owner's records");
            match page.last {
                Some(last) => after = Some(last),
                None => break,
            }
        }
        tracing::info!(
            target: "idem",
            erased = total.erased,
            kept = total.kept,
            elapsed_seconds = started.elapsed().as_secs_f64(),
            "erased an owner's records"
        );
        Ok(total)
    }

    /// Runs one batch, again where the database asks for it. In a task of its own: a statement or a
    /// transaction that is dropped half way would leave its connection in no known state.
    async fn batch<T, F>(&self, doing: &'static str, statement: F) -> Result<T, RetentionError>
    where
        T: Send + 'static,
        F: for<'c> Fn(&'c mut DB::Connection) -> BoxFuture<'c, sqlx::Result<T>>
            + Send
            + Sync
            + 'static,
    {
        let idempotency = self.clone();
        let task = tokio::spawn(async move {
            let mut runs = 1;
            loop {
                match idempotency.batch_once(doing, &statement).await {
                    Err(RetentionError::Database { error, .. })
                        if runs < MAX_RUNS && backend::asks_to_run_again(&error) =>
                    {
                        tokio::time::sleep(RUN_AGAIN * runs).await;
                        runs += 1;
                    }
                    done => return done,
                }
            }
        });
        task.await
            .unwrap_or(Err(RetentionError::Interrupted(doing)))
    }

    async fn batch_once<T, F>(
        &self,
        doing: &'static str,
        statement: &F,
    ) -> Result<T, RetentionError>
    where
        F: for<'c> Fn(&'c mut DB::Connection) -> BoxFuture<'c, sqlx::Result<T>>,
    {
        let shared = &self.shared;
        // The writer's turn comes in the order of asking, so that a sweep never fights the handlers for
        // the engine's own lock. Then the connection, as an attempt takes them.
        let mut turn = match &shared.turns {
            None => None,
            Some(turns) => Some(
                turns
                    .any()
                    .await
                    .ok_or(RetentionError::Interrupted(doing))?,
            ),
        };
        let limit = tokio::time::Instant::now() + shared.settings.store_timeout;
        let mut connection = self.connection(limit).await.map_err(|error| match error {
            StoreError::Database(error) => RetentionError::Database { doing, error },
            StoreError::Schema(error) => RetentionError::Schema(error),
            _ => RetentionError::TimedOut {
                doing,
                waited_for: "a connection",
            },
        })?;
        let batch = async |connection: &mut DB::Connection| statement(connection).await;
        match timeout(BATCH_LIMIT, self.apart(&mut connection, batch)).await {
            Ok(Ok(done)) => {
                if let Some(turn) = &mut turn {
                    turn.done();
                }
                Ok(done)
            }
            Ok(Err(error)) => {
                // It may have failed inside a transaction.
                connection.close_on_drop();
                Err(RetentionError::Database { doing, error })
            }
            Err(_) => {
                connection.close_on_drop();
                Err(RetentionError::TimedOut {
                    doing,
                    waited_for: "the database",
                })
            }
        }
    }
}
