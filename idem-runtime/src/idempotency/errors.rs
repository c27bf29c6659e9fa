//! What the store and a start can fail with.

use std::fmt;
use std::time::Duration;

use crate::backend;
use crate::problem::Code;

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
    /// The tables are missing or old. It is logged where it is found out.
    #[error(transparent)]
    Schema(StartupError),
}

impl StoreError {
    /// The application closed the pool: nothing will work again.
    pub(crate) fn is_of_closed_pool(&self) -> bool {
        matches!(self, Self::Database(sqlx::Error::PoolClosed))
    }

    /// As an error of the database.
    pub(crate) fn into_sqlx(self) -> sqlx::Error {
        match self {
            Self::Database(error) => error,
            _ => sqlx::Error::PoolTimedOut,
        }
    }

    /// What a request is answered that met it.
    pub(crate) fn code(&self) -> Code {
        match self {
            Self::Schema(_) => Code::StoreNotMigrated,
            Self::Database(error) if backend::is_missing(error) => Code::StoreNotMigrated,
            _ => Code::StoreUnavailable,
        }
    }

    /// Tells who operates the service that a request met it.
    pub(crate) fn log(&self, operation: &str, what: &'static str) {
        match self {
            Self::Schema(_) => {}
            Self::Database(error) if backend::is_missing(error) => tracing::error!(
                target: "idem",
                operation,
                %error,
                "{what}: a table of idem's, or a column of one, is missing, though `idem_schema` says that the migrations ran; \
                 `Idempotency::check` names a table that is gone, and says what to do; if it names none, compare the columns with \
                 `Idempotency::schema()`; or a handler has changed `search_path`, or the database"
            ),
            _ => tracing::error!(target: "idem", operation, error = %self, "{what}"),
        }
    }
}

/// Why a service can't start.
#[derive(thiserror::Error)]
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
         the SQL of `Idempotency::schema()` with your own migrations; if it is a table that already exists, a row of `idem_schema` is gone: \
         insert it again, `(version, applied_at)`, one for each migration whose tables are there"
    )]
    Migrate(#[source] sqlx::Error),
    /// The migration was interrupted by the runtime's shutdown.
    #[error("the migration of idem's tables was interrupted; start again")]
    Interrupted,
    /// The schema is missing or old.
    #[error(
        "idem's tables are {}, and this version needs version {expected}; call `idempotency.migrate().await`, or \
         run the SQL of `Idempotency::schema()` with your own migrations (`idem schema` prints that SQL)",
        .found.map_or("missing".to_owned(), |found| format!("at version {found}"))
    )]
    Schema {
        /// The version found; `None` where there are no tables.
        found: Option<i64>,
        /// The version needed.
        expected: i64,
    },
    /// Tables are missing that the migrations made.
    #[error(
        "`idem_schema` says that idem's tables are at version {version}, and {} missing: somebody dropped what the migrations \
         made, and they do not run again; restore it from a backup, or create it with its part of `Idempotency::schema()` (`idem \
         schema` prints that SQL): what it held is forgotten then, and a retry of an old request may run again",
        listed(.missing)
    )]
    Incomplete {
        /// The version that the schema is said to have.
        version: i64,
        /// The tables that are not there.
        missing: Vec<&'static str>,
    },
    /// There are tables, and nothing says of which version.
    #[error(
        "{} here, and `idem_schema`, which says at which version they are, is missing or empty; nothing was changed. Restore it from \
         a backup; or, if they are this version's, create it as `Idempotency::schema()` does (`idem schema` prints that SQL) and say \
         so: INSERT INTO idem_schema (version) VALUES ({expected}). Drop the tables only where no key of theirs is sent again",
        listed(.there)
    )]
    Unversioned {
        /// The tables that are there.
        there: Vec<&'static str>,
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
    /// A lease would end while its renewal waits for a connection.
    #[error(
        "`lease` is {lease:?}, shorter than the pool's acquire time-out of {acquire_timeout:?}, and could end while its \
         renewal waits for a connection; raise `lease`, or lower `PoolOptions::acquire_timeout`"
    )]
    LeaseTooShort {
        /// The lease of operations with recovery points.
        lease: Duration,
        /// The pool's.
        acquire_timeout: Duration,
    },
    /// The database is reached through a pooler that lends its connections a transaction at a time.
    #[error(
        "between this service and PostgreSQL is a pooler that lends its connections a transaction at a time (PgBouncer with \
         `pool_mode = transaction`): prepared statements would fail there, or answer with other statements' rows; say \
         `.transaction_pooling(true)` at `Idempotency::builder(..)`, or connect past it, or give this service a pool with \
         `pool_mode = session`"
    )]
    TransactionPooling,
    /// The server takes no writes.
    #[error(
        "this database server takes no writes: it is a standby, or was told so (`default_transaction_read_only`, `read_only`); \
         connect to the primary, or promote this one first"
    )]
    ReadOnly,
    /// A setting makes no sense.
    #[error("{0}")]
    Setting(&'static str),
}

/// Names of tables, with their verb.
fn listed(tables: &[&str]) -> String {
    let names: Vec<String> = tables.iter().map(|table| format!("`{table}`")).collect();
    match &names[..] {
        [name] => format!("{name} is"),
        [first @ .., last] => format!("{} and {last} are", first.join(", ")),
        [] => "none is".to_owned(),
    }
}

/// The message: `main` prints an error that it returns by `Debug`, and this one says what to do.
impl fmt::Debug for StartupError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
