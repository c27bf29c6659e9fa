//! The framework's tables: who makes them, and whether they are there.

use std::sync::atomic::{AtomicBool, Ordering};

use sqlx::pool::PoolConnection;
use tokio::time::Instant;

use super::{Idempotency, StartupError, StoreError};
use crate::backend::{self, Backend, TABLES};
use crate::beginning::Beginning;
use crate::guard;

/// What is known of the schema in the database. It is read once: by `migrate`, by `check`, or before the first use.
#[derive(Debug, Default)]
pub(super) struct Schema {
    /// This version can work with it.
    fits: AtomicBool,
    /// That it can't has been said.
    told: AtomicBool,
}

impl Schema {
    fn fits(&self) {
        self.fits.store(true, Ordering::Relaxed);
    }
}

impl<DB: Backend> Idempotency<DB> {
    /// Creates or upgrades the framework's tables (`idem_keys`, `idem_operations`, `idem_audit`, `idem_schema`,
    /// `idem_inbox`, and `idem_outbox` with its lanes and relays). Several processes may do it at once; each migration is
    /// applied once.
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
        let idempotency = self.clone();
        let migrated = tokio::spawn(async move {
            let mut connection = idempotency.shared.pool.acquire().await?;
            let migrate = async |connection: &mut DB::Connection| DB::migrate(connection).await;
            match idempotency.apart(&mut connection, migrate).await {
                Ok(_) => Ok(()),
                Err(error) => {
                    connection.close_on_drop();
                    Err(error)
                }
            }
        });
        let migrated = migrated.await.map_err(|_| StartupError::Interrupted)?;
        let found = self.found().await;
        if let Err(error) = migrated {
            // What is there says it better than a statement that failed.
            return Err(match found.map(|found| found.expect::<DB>()) {
                Ok(Err(unversioned @ StartupError::Unversioned { .. })) => unversioned,
                _ => StartupError::Migrate(error),
            });
        }
        found.map_err(StartupError::Migrate)?.expect::<DB>()?;
        self.shared.schema.fits();
        Ok(())
    }

    /// What there is in the database.
    async fn found(&self) -> sqlx::Result<Found> {
        let connection = self.shared.pool.acquire().await?;
        let acquire_timeout = self.shared.pool.options().get_acquire_timeout();
        let mut alone = self.alone_on(connection);
        let found = alone.run(
            Instant::now() + acquire_timeout,
            async |connection: &mut DB::Connection| Found::read::<DB>(connection).await,
        );
        found.await.map_err(StoreError::into_sqlx)
    }

    /// The framework's schema as SQL, for teams that run their own migrations.
    #[must_use]
    pub fn schema() -> String {
        backend::schema::<DB>()
    }

    /// Checks, before the service serves, what would fail later: the database, the schema, the time limits, a server that
    /// takes no writes, and a pooler that lends connections a transaction at a time. Warns, as a `tracing` event, about a pool
    /// without the run-time [`guard`](crate::guard).
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
        if settings.lease < acquire_timeout {
            return Err(StartupError::LeaseTooShort {
                lease: settings.lease,
                acquire_timeout,
            });
        }
        let connection = self
            .shared
            .pool
            .acquire()
            .await
            .map_err(StartupError::Connect)?;
        if !settings.transaction_pooling {
            let options = self.shared.pool.connect_options();
            // A server without a connection to spare is no reason not to start.
            if DB::is_pooled(&options).await.unwrap_or(false) {
                return Err(StartupError::TransactionPooling);
            }
        }
        let limit = tokio::time::Instant::now() + acquire_timeout;
        let look = async |connection: &mut DB::Connection| {
            Ok((
                DB::is_read_only(connection).await?,
                Found::read::<DB>(connection).await?,
            ))
        };
        let mut alone = self.alone_on(connection);
        let looked = alone.run(limit, look).await;
        drop(alone);
        let (read_only, found) =
            looked.map_err(|error| StartupError::Connect(error.into_sqlx()))?;
        if read_only {
            return Err(StartupError::ReadOnly);
        }
        found.expect::<DB>()?;
        self.shared.schema.fits();
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

    /// Finds out before the first use whether the tables are there, and gives the connection back. Each use asks again until
    /// they are: somebody may be creating them.
    pub(super) async fn expect_schema(
        &self,
        connection: PoolConnection<DB>,
        limit: Instant,
    ) -> Result<PoolConnection<DB>, StoreError> {
        let schema = &self.shared.schema;
        if schema.fits.load(Ordering::Relaxed) {
            return Ok(connection);
        }
        let mut looking = Beginning::on(connection);
        let look = async |connection: &mut DB::Connection| DB::schema_version(connection).await;
        let looked = looking.run(limit, async |connection: &mut DB::Connection| {
            self.apart(connection, look).await
        });
        let version = match looked.await {
            Ok(version) => version,
            // Who may use the tables need not be let read their version.
            Err(StoreError::Database(error)) if backend::is_denied(&error) => {
                schema.fits();
                return Ok(looking.end());
            }
            Err(error) => return Err(error),
        };
        let connection = looking.end();
        if let Err(error) = expect_version::<DB>(version) {
            if !schema.told.swap(true, Ordering::Relaxed) {
                tracing::error!(target: "idem", %error, "nothing can be done before the schema is there");
            }
            return Err(StoreError::Schema(error));
        }
        schema.fits();
        Ok(connection)
    }
}

/// What there is of the schema.
struct Found {
    version: Option<i64>,
    missing: Vec<&'static str>,
}

impl Found {
    async fn read<DB: Backend>(connection: &mut DB::Connection) -> sqlx::Result<Self> {
        let found = Self::look::<DB>(&mut *connection).await?;
        if found.version.is_none() && found.missing.len() < TABLES.len() {
            // Somebody may have migrated in the middle of it. The version is looked at first: what it says is there.
            return Self::look::<DB>(connection).await;
        }
        Ok(found)
    }

    async fn look<DB: Backend>(connection: &mut DB::Connection) -> sqlx::Result<Self> {
        Ok(Self {
            version: DB::schema_version(&mut *connection).await?,
            missing: DB::missing_tables(connection).await?,
        })
    }

    fn expect<DB: Backend>(self) -> Result<(), StartupError> {
        let some = self.missing.len() < TABLES.len();
        if self.version.is_none() && some && !DB::REPEATS_MIGRATIONS {
            let there = |table: &&str| !self.missing.contains(table);
            return Err(StartupError::Unversioned {
                there: TABLES.into_iter().filter(there).collect(),
                expected: expected::<DB>(),
            });
        }
        expect_version::<DB>(self.version)?;
        match self.version {
            // A later version may have dropped some.
            Some(version) if version == expected::<DB>() && !self.missing.is_empty() => {
                Err(StartupError::Incomplete {
                    version,
                    missing: self.missing,
                })
            }
            _ => Ok(()),
        }
    }
}

fn expected<DB: Backend>() -> i64 {
    i64::try_from(DB::MIGRATIONS.len()).unwrap_or(i64::MAX)
}

/// A newer schema serves as well: during a deploy old processes work beside new ones.
fn expect_version<DB: Backend>(found: Option<i64>) -> Result<(), StartupError> {
    let expected = expected::<DB>();
    match found {
        Some(found) if found >= expected => Ok(()),
        found => Err(StartupError::Schema { found, expected }),
    }
}
