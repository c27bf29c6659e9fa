//! `Idempotency<DB>`: the pool, the defaults, and what this process has in flight.

mod builder;
mod errors;
mod schema;
mod settings;

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use sqlx::Pool;
use sqlx::pool::PoolConnection;
use tokio::sync::{OnceCell, RwLock, Semaphore, watch};
use tokio_util::task::TaskTracker;
use uuid::Uuid;

pub use self::builder::IdempotencyBuilder;
pub use self::errors::StartupError;
pub(crate) use self::errors::StoreError;
use self::schema::Schema;
pub(crate) use self::settings::{Rules, Settings};
use crate::accept::Landed;
use crate::atomic::CLEAN_UP;
use crate::backend::{Backend, Claim};
use crate::beginning::Beginning;
use crate::filter::RecentKeys;
use crate::flight::Flights;
use crate::lookups::Lookups;
use crate::operation::Spec;
use crate::turn::{Turn, Turns, waited};
use crate::tx::Tx;

/// What the handlers of one database share: its pool, the defaults of their attributes, and what is in
/// flight. Keep one in the router's state, where the handlers find it through
/// [`FromRef`](axum::extract::FromRef); clones are cheap and are the same thing.
///
/// ```
/// # #[cfg(feature = "sqlite")] {
/// use axum::extract::FromRef;
/// use idem_runtime::Idempotency;
/// use sqlx::Sqlite;
///
/// #[derive(Clone)]
/// struct AppState {
///     idempotency: Idempotency<Sqlite>,
/// }
///
/// impl FromRef<AppState> for Idempotency<Sqlite> {
///     fn from_ref(state: &AppState) -> Self {
///         state.idempotency.clone()
///     }
/// }
/// # }
/// ```
pub struct Idempotency<DB: Backend> {
    pub(crate) shared: Arc<Shared<DB>>,
}

/// See [`Idempotency`].
pub(crate) struct Shared<DB: Backend> {
    pub(crate) pool: Pool<DB>,
    pub(crate) settings: Settings,
    pub(crate) flights: Arc<Flights<Landed>>,
    pub(crate) recent: RecentKeys,
    pub(crate) lookups: Lookups,
    pub(crate) tasks: TaskTracker,
    pub(crate) in_flight: Arc<Semaphore>,
    pub(crate) waiting: Arc<Semaphore>,
    /// The turns of those who write, where the engine has one writer.
    pub(crate) turns: Option<Turns>,
    /// Says to the relays of this process that messages were staged.
    pub(crate) staged: watch::Sender<()>,
    /// Held by each run of a consumer, and by none beside one of a message that may be what ends the process.
    pub(crate) consuming: RwLock<()>,
    server: OnceCell<DB::Server>,
    schema: Schema,
    /// Operation name to function, to find two functions with one name.
    operations: Mutex<HashMap<&'static str, &'static str>>,
}

impl<DB: Backend> Idempotency<DB> {
    /// With every default as documented at [`IdempotencyBuilder`].
    #[must_use]
    pub fn new(pool: Pool<DB>) -> Self {
        Self::with(pool, Settings::default())
    }

    /// With defaults of your own.
    #[must_use]
    pub fn builder(pool: Pool<DB>) -> IdempotencyBuilder<DB> {
        IdempotencyBuilder::new(pool)
    }

    fn with(pool: Pool<DB>, settings: Settings) -> Self {
        Self {
            shared: Arc::new(Shared {
                pool,
                flights: Arc::default(),
                consuming: RwLock::new(()),
                recent: RecentKeys::new(),
                lookups: Lookups::default(),
                tasks: TaskTracker::new(),
                in_flight: Arc::new(Semaphore::new(settings.max_in_flight)),
                waiting: Arc::new(Semaphore::new(settings.max_waiting)),
                turns: DB::SINGLE_WRITER.then(Turns::new),
                staged: watch::Sender::new(()),
                server: OnceCell::new(),
                schema: Schema::default(),
                operations: Mutex::default(),
                settings,
            }),
        }
    }

    /// The pool.
    #[must_use]
    pub fn pool(&self) -> &Pool<DB> {
        &self.shared.pool
    }

    /// Takes no more requests (they are answered 503) and waits until those in flight are answered.
    /// Call it when the server has stopped accepting connections.
    ///
    /// Returns whether all of them ended within `limit`; those that did not go on until the runtime stops,
    /// and their transactions are then rolled back.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe; the refusal of new requests stays.
    pub async fn drain(&self, limit: Duration) -> bool {
        self.shared.tasks.close();
        tokio::time::timeout(limit, self.shared.tasks.wait())
            .await
            .is_ok()
    }

    /// How many attempts run in this process.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.shared.tasks.len()
    }

    pub(crate) async fn server(&self, connection: &mut DB::Connection) -> sqlx::Result<DB::Server> {
        self.shared
            .server
            .get_or_try_init(|| {
                let settings = &self.shared.settings;
                DB::detect(connection, settings.transaction_pooling, settings.hints)
            })
            .await
            .cloned()
    }

    /// Begins a transaction, in which this key is claimed next. A begin that is cut off, by its time limit or with its future, closes its connection.
    /// `patience`: how long the writer's turn is waited for, where the engine has one writer.
    pub(crate) async fn begin(
        &self,
        operation_id: Uuid,
        claim: Option<&Claim<'_>>,
        limit: tokio::time::Instant,
        patience: Duration,
    ) -> Result<Tx<DB>, StoreError> {
        let shared = &self.shared;
        let turn = self.turn(limit, patience).await?;
        let limit = limit + waited(turn.as_ref());
        let mut beginning = Beginning::in_turn(self.connection(limit).await?, turn);
        let begun = beginning.run(limit, async |connection: &mut DB::Connection| {
            let server = self.server(connection).await?;
            DB::begin(connection, &server, shared.settings.isolation, claim).await
        });
        let session = begun.await?;
        let (connection, turn) = beginning.end_in_turn();
        Ok(self.tx(connection, session, turn, operation_id))
    }

    /// Begins the transaction of a step. As [`Self::begin`].
    pub(crate) async fn begin_step(
        &self,
        operation_id: Uuid,
        limit: tokio::time::Instant,
    ) -> Result<Tx<DB>, StoreError> {
        let turn = self
            .turn(limit, self.shared.settings.writer_timeout)
            .await?;
        let limit = limit + waited(turn.as_ref());
        let mut beginning = Beginning::in_turn(self.connection(limit).await?, turn);
        let mark = crate::digest::hex(&crate::atomic::new_owner());
        let settings = &self.shared.settings;
        let (isolation, round_trips) = (settings.isolation, settings.round_trips);
        let begun = beginning.run(limit, async |connection: &mut DB::Connection| {
            let server = self.server(connection).await?;
            DB::begin_marked(connection, &server, isolation, round_trips, &mark).await
        });
        let session = begun.await?;
        let (connection, turn) = beginning.end_in_turn();
        Ok(self.tx(connection, session, turn, operation_id))
    }

    /// The writer's turn, where the engine has one writer.
    pub(crate) async fn turn(
        &self,
        limit: tokio::time::Instant,
        patience: Duration,
    ) -> Result<Option<Turn>, StoreError> {
        let Some(turns) = &self.shared.turns else {
            return Ok(None);
        };
        let allowed = self.shared.settings.store_timeout;
        match turns.next(limit, patience, allowed).await {
            Some(turn) => Ok(Some(turn)),
            None => Err(StoreError::TimedOut("the writer's turn")),
        }
    }

    /// Stops the statement that a handler left running when it was dropped, and which holds its locks until it ends.
    pub(crate) async fn cancel(&self, session: &DB::Session) {
        if self.shared.settings.hints {
            let cancelled = DB::cancel(&self.shared.pool, session);
            let _ = tokio::time::timeout(CLEAN_UP, cancelled).await;
        }
    }

    /// Whether `begin_claimed` is used. The first attempt finds out.
    pub(crate) fn fuses(&self) -> bool {
        let round_trips = self.shared.settings.round_trips;
        let server = self.shared.server.get();
        server.is_some_and(|server| DB::fuses(server, round_trips))
    }

    /// Whether an attempt looks at its key's record once more before it answers anything but its own.
    pub(crate) fn looks_last(&self) -> bool {
        self.shared.server.get().is_none_or(DB::looks_last)
    }

    /// Begins a transaction and claims a key in one round trip; `None` when the key is not free. As [`Self::begin`].
    pub(crate) async fn begin_claimed(
        &self,
        operation_id: Uuid,
        claim: &Claim<'_>,
        limit: tokio::time::Instant,
    ) -> Result<Option<Tx<DB>>, StoreError> {
        let mut beginning = Beginning::on(self.connection(limit).await?);
        let isolation = self.shared.settings.isolation;
        let begun = beginning.run(limit, async |connection: &mut DB::Connection| {
            let server = self.server(connection).await?;
            DB::begin_claimed(connection, &server, isolation, claim).await
        });
        let session = begun.await?;
        let connection = beginning.end();
        Ok(session.map(|session| self.tx(connection, session, None, operation_id)))
    }

    /// A connection outside any transaction.
    pub(crate) async fn connection(
        &self,
        limit: tokio::time::Instant,
    ) -> Result<PoolConnection<DB>, StoreError> {
        let connection = tokio::time::timeout_at(limit, self.shared.pool.acquire())
            .await
            .map_err(|_| StoreError::TimedOut("a connection"))?
            .map_err(StoreError::Database)?;
        self.expect_schema(connection, limit).await
    }

    /// Notes that an operation is in use, and warns about two functions with one name.
    pub(crate) fn register(&self, spec: &'static Spec) {
        let mut operations = self
            .shared
            .operations
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let known = *operations.entry(spec.name).or_insert(spec.function);
        if known != spec.function {
            tracing::warn!(
                target: "idem",
                operation = spec.name,
                first = known,
                second = spec.function,
                "two handlers are the same operation; give one another name: `operation = \"..\"`"
            );
        }
    }
}

impl<DB: Backend> Clone for Idempotency<DB> {
    fn clone(&self) -> Self {
        Self {
            shared: self.shared.clone(),
        }
    }
}

impl<DB: Backend> fmt::Debug for Idempotency<DB> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Idempotency")
            .field("database", &DB::NAME)
            .field("settings", &self.shared.settings)
            .finish_non_exhaustive()
    }
}
