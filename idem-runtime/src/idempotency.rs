//! `Idempotency<DB>`: the pool, the defaults, and what this process has in flight.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use sqlx::Pool;
use sqlx::pool::PoolConnection;
use tokio::sync::{OnceCell, Semaphore};
use tokio_util::task::TaskTracker;
use uuid::Uuid;

use crate::accept::Landed;
use crate::backend::{self, Backend, Claim, Isolation, RoundTrips};
use crate::cipher::PayloadCipher;
use crate::faults::{self, Plant};
use crate::filter::RecentKeys;
use crate::flight::Flights;
use crate::guard;
use crate::lookups::Lookups;
use crate::operation::{Errors, Expired, InFlight, Spec};
use crate::problem::{ProblemStyle, UriReference};
use crate::response::HeaderPolicy;
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
    /// The writer's permit, where the engine has one writer.
    pub(crate) writer: Option<Arc<Semaphore>>,
    server: OnceCell<DB::Server>,
    /// Operation name to function, to find two functions with one name.
    operations: Mutex<HashMap<&'static str, &'static str>>,
}

/// The defaults, and what no attribute can say.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    ttl: Duration,
    wait: Duration,
    tombstone: Duration,
    timeout: Duration,
    errors: Errors,
    in_flight: InFlight,
    expired: Expired,
    max_body: usize,
    max_response: usize,
    pub(crate) store_timeout: Duration,
    pub(crate) bare_keys: bool,
    pub(crate) isolation: Option<Isolation>,
    round_trips: RoundTrips,
    pub(crate) lock_namespace: i32,
    pub(crate) problems: ProblemStyle,
    pub(crate) headers: HeaderPolicy,
    pub(crate) cipher: Option<Arc<dyn PayloadCipher>>,
    pub(crate) status_link: Option<UriReference>,
    max_in_flight: usize,
    max_waiting: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            ttl: Duration::from_secs(24 * 60 * 60),
            wait: Duration::from_secs(5),
            tombstone: Duration::from_secs(30 * 24 * 60 * 60),
            timeout: Duration::from_secs(30),
            errors: Errors::Release,
            in_flight: InFlight::Wait,
            expired: Expired::Execute,
            max_body: 2 * 1024 * 1024,
            max_response: 1024 * 1024,
            store_timeout: Duration::from_millis(1500),
            bare_keys: true,
            isolation: None,
            round_trips: RoundTrips::Auto,
            // "idem" in ASCII.
            lock_namespace: 0x6964_656d,
            problems: ProblemStyle::default(),
            headers: HeaderPolicy::default(),
            cipher: None,
            status_link: None,
            max_in_flight: 1024,
            max_waiting: 4096,
        }
    }
}

/// What holds for one operation: its attribute over the defaults.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rules {
    pub(crate) ttl: Duration,
    pub(crate) wait: Duration,
    /// Zero unless expired keys are refused.
    pub(crate) tombstone: Duration,
    pub(crate) timeout: Duration,
    pub(crate) errors: Errors,
    pub(crate) in_flight: InFlight,
    pub(crate) max_body: usize,
    pub(crate) max_response: usize,
}

impl Settings {
    pub(crate) fn rules(&self, spec: &Spec) -> Rules {
        let expired = spec.expired.unwrap_or(self.expired);
        Rules {
            ttl: if faults::planted(Plant::NoTtl) {
                Duration::from_secs(100 * 365 * 24 * 60 * 60)
            } else {
                spec.ttl.unwrap_or(self.ttl)
            },
            wait: spec.wait.unwrap_or(self.wait),
            tombstone: match expired {
                Expired::Execute => Duration::ZERO,
                Expired::Reject => spec.tombstone.unwrap_or(self.tombstone),
            },
            timeout: spec.timeout.unwrap_or(self.timeout),
            errors: spec.errors.unwrap_or(self.errors),
            in_flight: spec.in_flight.unwrap_or(self.in_flight),
            max_body: spec.max_body.unwrap_or(self.max_body),
            max_response: spec.max_response.unwrap_or(self.max_response),
        }
    }
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
        IdempotencyBuilder {
            pool,
            settings: Settings::default(),
        }
    }

    fn with(pool: Pool<DB>, settings: Settings) -> Self {
        Self {
            shared: Arc::new(Shared {
                pool,
                flights: Arc::default(),
                recent: RecentKeys::new(),
                lookups: Lookups::default(),
                tasks: TaskTracker::new(),
                in_flight: Arc::new(Semaphore::new(settings.max_in_flight)),
                waiting: Arc::new(Semaphore::new(settings.max_waiting)),
                writer: DB::SINGLE_WRITER.then(|| Arc::new(Semaphore::new(1))),
                server: OnceCell::new(),
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

    /// Creates or upgrades the framework's tables (`idem_keys`, `idem_schema`). Several processes may do
    /// it at once; each migration is applied once.
    ///
    /// It needs the right to create tables. A team that runs its own migrations prints them with
    /// [`Idempotency::schema`] and calls only [`Idempotency::check`].
    ///
    /// # Errors
    ///
    /// [`StartupError`], when the database can't be reached or refuses.
    ///
    /// # Cancel safety
    ///
    /// A cancelled migration is rolled back (PostgreSQL, SQLite) or goes on at the next call (MySQL,
    /// MariaDB).
    pub async fn migrate(&self) -> Result<(), StartupError> {
        // In a task of its own: a begin that is dropped half way would leave an open transaction behind.
        let pool = self.shared.pool.clone();
        let migrated = tokio::spawn(async move {
            let mut connection = pool.acquire().await?;
            match DB::migrate(&mut connection).await {
                Ok(version) => Ok(version),
                Err(error) => {
                    connection.close_on_drop();
                    Err(error)
                }
            }
        });
        let version = migrated
            .await
            .map_err(|_| StartupError::Interrupted)?
            .map_err(StartupError::Migrate)?;
        expect_version::<DB>(Some(version))
    }

    /// The framework's schema as SQL, for teams that run their own migrations.
    #[must_use]
    pub fn schema() -> String {
        backend::schema::<DB>()
    }

    /// Checks, before the service serves, what would fail later: the database, the schema, and the time
    /// limits. Warns, as a `tracing` event, about a pool without the run-time [`guard`](crate::guard).
    ///
    /// # Errors
    ///
    /// [`StartupError`], which says what to do.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub async fn check(&self) -> Result<(), StartupError> {
        let settings = &self.shared.settings;
        let acquire_timeout = self.shared.pool.options().get_acquire_timeout();
        if settings.wait > acquire_timeout {
            return Err(StartupError::WaitTooLong {
                wait: settings.wait,
                acquire_timeout,
            });
        }
        let mut connection = self
            .shared
            .pool
            .acquire()
            .await
            .map_err(StartupError::Connect)?;
        let version = DB::schema_version(&mut connection)
            .await
            .map_err(StartupError::Connect)?;
        expect_version::<DB>(version)?;
        self.server(&mut connection)
            .await
            .map_err(StartupError::Connect)?;
        drop(connection);
        // A server without a connection to spare is no reason not to start.
        if !guard::is_guarded(&self.shared.pool).await.unwrap_or(true) {
            tracing::warn!(
                target: "idem",
                "this pool has no run-time guard, or only a part: a handler that takes a connection beside its `tx` is \
                 not found; build the pool from `idem_runtime::guard(PoolOptions::new())`, and call \
                 `idem_runtime::record_acquire()` in `before_acquire` and `after_connect` hooks of your own"
            );
        }
        Ok(())
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
            .get_or_try_init(|| DB::detect(connection))
            .await
            .cloned()
    }

    /// Begins a transaction. Not cancel safe, so that its callers run in tasks of their own: a begin that
    /// its time limit cuts off closes its connection.
    pub(crate) async fn begin(
        &self,
        operation_id: Uuid,
        limit: tokio::time::Instant,
    ) -> Result<Tx<DB>, StoreError> {
        let shared = &self.shared;
        let writer = match &shared.writer {
            None => None,
            Some(writer) => Some(
                tokio::time::timeout_at(limit, writer.clone().acquire_owned())
                    .await
                    .map_err(|_| StoreError::TimedOut("the writer's turn"))?
                    .map_err(|_| StoreError::TimedOut("the writer's turn"))?,
            ),
        };
        let mut connection = self.connection(limit).await?;
        let begun = tokio::time::timeout_at(limit, async {
            let server = self.server(&mut connection).await?;
            DB::begin(&mut connection, &server, shared.settings.isolation).await
        })
        .await;
        match begun {
            Ok(Ok(session)) => Ok(Tx::new(connection, session, writer, operation_id)),
            Ok(Err(error)) => {
                connection.close_on_drop();
                Err(StoreError::Database(error))
            }
            Err(_) => {
                if !faults::planted(Plant::BeginCancelled) {
                    connection.close_on_drop();
                }
                Err(StoreError::TimedOut("the begin of a transaction"))
            }
        }
    }

    /// Whether `begin_claimed` is used. The first attempt finds out.
    pub(crate) fn fuses(&self) -> bool {
        let round_trips = self.shared.settings.round_trips;
        let server = self.shared.server.get();
        server.is_some_and(|server| DB::fuses(server, round_trips))
    }

    /// Begins a transaction and claims a key in one round trip; `None` when the key is not free. As [`Self::begin`].
    pub(crate) async fn begin_claimed(
        &self,
        operation_id: Uuid,
        claim: &Claim<'_>,
        limit: tokio::time::Instant,
    ) -> Result<Option<Tx<DB>>, StoreError> {
        let mut connection = self.connection(limit).await?;
        let isolation = self.shared.settings.isolation;
        let begun = tokio::time::timeout_at(limit, async {
            let server = self.server(&mut connection).await?;
            DB::begin_claimed(&mut connection, &server, isolation, claim).await
        })
        .await;
        match begun {
            Ok(Ok(Some(session))) => Ok(Some(Tx::new(connection, session, None, operation_id))),
            Ok(Ok(None)) => Ok(None),
            Ok(Err(error)) => {
                connection.close_on_drop();
                Err(StoreError::Database(error))
            }
            Err(_) => {
                if !faults::planted(Plant::BeginCancelled) {
                    connection.close_on_drop();
                }
                Err(StoreError::TimedOut("the begin of a transaction"))
            }
        }
    }

    /// A connection outside any transaction.
    pub(crate) async fn connection(
        &self,
        limit: tokio::time::Instant,
    ) -> Result<PoolConnection<DB>, StoreError> {
        tokio::time::timeout_at(limit, self.shared.pool.acquire())
            .await
            .map_err(|_| StoreError::TimedOut("a connection"))?
            .map_err(StoreError::Database)
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

fn expect_version<DB: Backend>(found: Option<i64>) -> Result<(), StartupError> {
    let expected = i64::try_from(DB::MIGRATIONS.len()).unwrap_or(i64::MAX);
    match found {
        Some(found) if found >= expected => Ok(()),
        found => Err(StartupError::Schema { found, expected }),
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

/// Why the store did not answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StoreError {
    #[error("{0}")]
    Database(#[source] sqlx::Error),
    #[error("waited too long for {0}")]
    TimedOut(&'static str),
    #[error("the payload cipher failed: {0}")]
    Cipher(#[source] crate::cipher::CipherError),
    #[error("a stored record can't be read: {0}")]
    Corrupt(String),
}

/// Why a service can't start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartupError {
    /// The database is out of reach.
    #[error(
        "the idempotency store can't be reached ({0}); check the database URL and that the server runs"
    )]
    Connect(#[source] sqlx::Error),
    /// The migration failed.
    #[error(
        "idem's tables can't be created or upgraded ({0}); give the user the right to create tables, or run \
         the SQL of `Idempotency::schema()` with your own migrations"
    )]
    Migrate(#[source] sqlx::Error),
    /// The migration was interrupted by the runtime's shutdown.
    #[error("the migration of idem's tables was interrupted; start again")]
    Interrupted,
    /// The schema is missing or old.
    #[error(
        "idem's tables are {}, and this version needs version {expected}; call `idempotency.migrate().await`, or \
         run the SQL of `Idempotency::schema()` with your own migrations",
        .found.map_or("missing".to_owned(), |found| format!("at version {found}"))
    )]
    Schema {
        /// The version found; `None` where there are no tables.
        found: Option<i64>,
        /// The version needed.
        expected: i64,
    },
    /// A duplicate would wait longer than a request for a connection does.
    #[error(
        "`wait` is {wait:?}, longer than the pool's acquire time-out of {acquire_timeout:?}; lower `wait`, or raise \
         `PoolOptions::acquire_timeout`"
    )]
    WaitTooLong {
        /// The default of `wait`.
        wait: Duration,
        /// The pool's.
        acquire_timeout: Duration,
    },
    /// A setting makes no sense.
    #[error("{0}")]
    Setting(&'static str),
}

/// The defaults of all handlers of one database, and what no attribute can say.
///
/// | setting | default |
/// |---|---|
/// | [`ttl`](Self::ttl) | 24 hours |
/// | [`wait`](Self::wait) | 5 seconds |
/// | [`errors`](Self::errors) | release |
/// | [`in_flight`](Self::in_flight) | wait |
/// | [`expired`](Self::expired) | execute |
/// | [`tombstone`](Self::tombstone) | 30 days, only with `expired` = reject |
/// | [`timeout`](Self::timeout) | 30 seconds |
/// | [`max_body`](Self::max_body) | 2 MiB |
/// | [`max_response`](Self::max_response) | 1 MiB |
/// | [`max_in_flight`](Self::max_in_flight) | 1024 |
/// | [`max_waiting`](Self::max_waiting) | 4096 |
/// | [`store_timeout`](Self::store_timeout) | 1.5 seconds |
/// | [`bare_keys`](Self::bare_keys) | accepted |
/// | [`isolation`](Self::isolation) | the database's own default |
/// | [`round_trips`](Self::round_trips) | as the network asks for |
#[derive(Debug)]
pub struct IdempotencyBuilder<DB: Backend> {
    pool: Pool<DB>,
    settings: Settings,
}

macro_rules! settings {
    ($($(#[$docs:meta])* $name:ident: $type:ty),* $(,)?) => {
        $(
            $(#[$docs])*
            #[must_use]
            pub fn $name(mut self, $name: $type) -> Self {
                self.settings.$name = $name;
                self
            }
        )*
    };
}

impl<DB: Backend> IdempotencyBuilder<DB> {
    settings! {
        /// How long a stored answer is replayed, from its storing.
        ttl: Duration,
        /// How long a duplicate waits for the first request's answer before it is told 409.
        wait: Duration,
        /// How long after its `ttl` a key stays refused, where expired keys are.
        tombstone: Duration,
        /// How long a handler may run, its answer's body included.
        timeout: Duration,
        /// What becomes of a key whose handler answered `Err`.
        errors: Errors,
        /// What a duplicate of a running request is told.
        in_flight: InFlight,
        /// What a key does past its `ttl`.
        expired: Expired,
        /// The largest request body, in bytes.
        max_body: usize,
        /// The largest answer that is stored, in bytes.
        max_response: usize,
        /// How many attempts may run in this process; more are answered 503.
        max_in_flight: usize,
        /// How many duplicates may wait in this process; more are answered 503.
        max_waiting: usize,
        /// How long the store may take to begin a transaction and to take a key, before the request is
        /// answered 503. The handler's own statements are not meant.
        store_timeout: Duration,
        /// Whether keys without quotes are accepted, as nearly every client sends them.
        bare_keys: bool,
        /// The first integer of PostgreSQL's two-integer advisory locks: change it where an application's
        /// own locks use the same.
        lock_namespace: i32,
        /// In how many messages the framework's own statements are sent to PostgreSQL.
        round_trips: RoundTrips,
        /// How the framework's error answers look.
        problems: ProblemStyle,
        /// Which of an answer's header fields are stored.
        headers: HeaderPolicy,
    }

    /// The isolation level of the handlers' transactions.
    #[must_use]
    pub fn isolation(mut self, isolation: Isolation) -> Self {
        self.settings.isolation = Some(isolation);
        self
    }

    /// Encrypts stored answers.
    #[must_use]
    pub fn cipher(mut self, cipher: impl PayloadCipher) -> Self {
        self.settings.cipher = Some(Arc::new(cipher));
        self
    }

    /// Where a client learns of an operation whose outcome is unknown; sent as `Link: <..>; rel="status"`.
    #[must_use]
    pub fn status_link(mut self, link: UriReference) -> Self {
        self.settings.status_link = Some(link);
        self
    }

    /// Checks the settings.
    ///
    /// # Errors
    ///
    /// [`StartupError::Setting`], for a limit of zero or a `ttl` that is not longer than `wait`.
    pub fn build(self) -> Result<Idempotency<DB>, StartupError> {
        let settings = &self.settings;
        let wrong = if settings.ttl <= settings.wait {
            Some(
                "`ttl` must be longer than `wait`: a duplicate that waited would find its answer expired",
            )
        } else if settings.timeout.is_zero() || settings.store_timeout.is_zero() {
            Some("`timeout` and `store_timeout` must be longer than zero")
        } else if settings.max_in_flight == 0 {
            Some("`max_in_flight` must be at least 1: with 0 every request is refused")
        } else {
            None
        };
        match wrong {
            Some(wrong) => Err(StartupError::Setting(wrong)),
            None => Ok(Idempotency::with(self.pool, self.settings)),
        }
    }
}
