//! The databases: for each one file with its SQL, its error codes and its migrations. Nothing else
//! of this crate knows SQL.
//!
//! The shape is the same in each. `begin` starts a transaction, `claim` takes a key in it or says who
//! has it, `complete` stores the answer as the transaction's last write, and `commit` ends it. All
//! other methods are statements of their own.

use std::fmt::Debug;
use std::future::Future;

use futures_util::future::BoxFuture;
use sqlx::{Connection, Database, Pool};
use sqlx_core::transaction::TransactionManager;

use crate::guard::Breach;
use crate::scope::{RecordId, ScopeKey};

mod errors;
pub(crate) mod inbox;
#[cfg(feature = "mysql")]
mod mysql;
pub(crate) mod operations;
pub(crate) mod outbox;
mod plain;
#[cfg(feature = "postgres")]
mod postgres;
mod schema;
mod settings;
#[cfg(feature = "sqlite")]
mod sqlite;
mod types;

pub(crate) use errors::{
    Fault, asks_to_run_again, fault, is_denied, is_missing, is_outage, is_stale,
};
pub(crate) use inbox::InboxStore;
pub(crate) use operations::OperationStore;
use operations::{Fence, Written};
pub(crate) use outbox::OutboxStore;
pub(crate) use schema::{TABLES, schema};
pub use settings::{Isolation, RoundTrips};
use types::fingerprint;
pub(crate) use types::{
    Answer, Claim, Claimed, Completed, Content, EndFailure, ErasedBatch, Record, Standing, State,
    Stored, TransactionState, millis,
};

/// A database that holds keys, effects and answers: `sqlx::Postgres`, `sqlx::Sqlite` or
/// `sqlx::MySql`, each behind the feature of its name. Sealed.
pub trait Backend: Database + OperationStore + OutboxStore + InboxStore + sealed::Sealed {
    /// Whether one writer at a time is all the engine allows (SQLite).
    const SINGLE_WRITER: bool;

    /// What one transaction must prove of itself at its end: the library's own, and shown since [`Tx`](crate::Tx) holds it.
    type Session: Send + Sync;

    /// What is found out about the server once.
    #[doc(hidden)]
    type Server: Clone + Send + Sync + Debug;

    /// Asks the server what it is. `pooled`: it is reached through a pooler of transactions, if the engine has such. `hints`: it is sent
    /// what only spares work.
    #[doc(hidden)]
    fn detect(
        connection: &mut Self::Connection,
        pooled: bool,
        hints: bool,
    ) -> impl Future<Output = sqlx::Result<Self::Server>> + Send;

    /// Whether an attempt whose claim was won may still find another's record: then it looks once more
    /// before it answers anything but its own.
    #[doc(hidden)]
    fn looks_last(server: &Self::Server) -> bool;

    /// Whether this server takes no writes: it follows another.
    #[doc(hidden)]
    fn is_read_only(
        connection: &mut Self::Connection,
    ) -> impl Future<Output = sqlx::Result<bool>> + Send;

    /// Whether what answers at this address lends its connections to clients by turns, a transaction at a time.
    #[doc(hidden)]
    fn is_pooled(
        _options: &<Self::Connection as Connection>::Options,
    ) -> impl Future<Output = sqlx::Result<bool>> + Send {
        std::future::ready(Ok(false))
    }

    /// Whether statements of their own are run between `open_alone` and `close_alone`.
    #[doc(hidden)]
    fn encloses(_server: &Self::Server) -> bool {
        false
    }

    /// Precedes statements of their own.
    #[doc(hidden)]
    fn open_alone(
        _connection: &mut Self::Connection,
        _server: &Self::Server,
    ) -> impl Future<Output = sqlx::Result<()>> + Send {
        std::future::ready(Ok(()))
    }

    /// Follows them; `done`: they did not fail.
    #[doc(hidden)]
    fn close_alone(
        _connection: &mut Self::Connection,
        _server: &Self::Server,
        _done: bool,
    ) -> impl Future<Output = sqlx::Result<()>> + Send {
        std::future::ready(Ok(()))
    }

    /// Begins, through sqlx, so that its depth is right for a helper's own `begin()`. `claim`: what is claimed next, for an
    /// engine that looks before it begins.
    #[doc(hidden)]
    fn begin(
        connection: &mut Self::Connection,
        server: &Self::Server,
        isolation: Option<Isolation>,
        claim: Option<&Claim<'_>>,
    ) -> impl Future<Output = sqlx::Result<Self::Session>> + Send;

    /// Whether `begin_claimed` is used.
    #[doc(hidden)]
    fn fuses(_server: &Self::Server, _round_trips: RoundTrips) -> bool {
        false
    }

    /// `begin` and `claim` in one round trip. `None`: the key is not free, and no transaction is open.
    #[doc(hidden)]
    fn begin_claimed(
        _connection: &mut Self::Connection,
        _server: &Self::Server,
        _isolation: Option<Isolation>,
        _claim: &Claim<'_>,
    ) -> impl Future<Output = sqlx::Result<Option<Self::Session>>> + Send {
        std::future::ready(Ok(None))
    }

    /// Whether `complete_and_commit` can end this session with this answer.
    #[doc(hidden)]
    fn fuses_commit(_session: &Self::Session, _answer: &Answer<'_>) -> bool {
        false
    }

    /// `complete` and `commit` in one round trip.
    #[doc(hidden)]
    fn complete_and_commit(
        _connection: &mut Self::Connection,
        _session: &Self::Session,
        _claim: &Claim<'_>,
        _answer: &Answer<'_>,
    ) -> impl Future<Output = Result<Completed, EndFailure>> + Send {
        std::future::ready(Err(EndFailure::Storing(sqlx::Error::BeginFailed)))
    }

    /// Notes what tells this transaction from another, where no claim does.
    #[doc(hidden)]
    fn identify(
        _connection: &mut Self::Connection,
        _session: &mut Self::Session,
    ) -> impl Future<Output = sqlx::Result<()>> + Send {
        std::future::ready(Ok(()))
    }

    /// `begin` and `identify`, in as few messages as the engine lets. `mark` is this transaction's alone: hexadecimal digits.
    #[doc(hidden)]
    fn begin_marked(
        connection: &mut Self::Connection,
        server: &Self::Server,
        isolation: Option<Isolation>,
        _round_trips: RoundTrips,
        _mark: &str,
    ) -> impl Future<Output = sqlx::Result<Self::Session>> + Send {
        async move {
            let mut session = Self::begin(&mut *connection, server, isolation, None).await?;
            Self::identify(connection, &mut session).await?;
            Ok(session)
        }
    }

    /// What the last statement of a transaction checks of it by itself, so that nobody has to ask before.
    #[doc(hidden)]
    fn mark(_session: &Self::Session) -> Option<&str> {
        None
    }

    /// Whether what records a step, of so many bytes, can ride with this session's commit.
    #[doc(hidden)]
    fn records_with_commit(_session: &Self::Session, _length: usize) -> bool {
        false
    }

    /// `record` and `commit` in one round trip; false: the fence does not hold, or this is not the session's transaction.
    #[doc(hidden)]
    fn record_and_commit(
        _connection: &mut Self::Connection,
        _session: &Self::Session,
        _fence: &Fence,
        _written: &Written<'_>,
    ) -> impl Future<Output = Result<bool, EndFailure>> + Send {
        std::future::ready(Err(EndFailure::Open(None)))
    }

    /// `complete_operation` and `commit` in one round trip; `None` as above.
    #[doc(hidden)]
    fn complete_operation_and_commit(
        _connection: &mut Self::Connection,
        _session: &Self::Session,
        _fence: &Fence,
        _answer: &Answer<'_>,
    ) -> impl Future<Output = Result<Option<Stored>, EndFailure>> + Send {
        std::future::ready(Err(EndFailure::Open(None)))
    }

    /// Whether a claim may be stopped by a lock on the gap between two keys.
    #[doc(hidden)]
    const LOCKS_GAPS: bool = false;

    /// Takes the key, or says what has it. Whatever the answer, the transaction is still open.
    #[doc(hidden)]
    fn claim(
        connection: &mut Self::Connection,
        session: &mut Self::Session,
        claim: &Claim<'_>,
    ) -> impl Future<Output = sqlx::Result<Claimed>> + Send;

    /// Stores the answer under the claimed key, as the last write before the commit.
    #[doc(hidden)]
    fn complete(
        connection: &mut Self::Connection,
        session: &mut Self::Session,
        claim: &Claim<'_>,
        answer: &Answer<'_>,
    ) -> impl Future<Output = sqlx::Result<Completed>> + Send;

    /// Whether the transaction that `begin` started still runs on this connection. Asked at most once,
    /// and not after `complete`, unless that failed since the transaction was aborted.
    #[doc(hidden)]
    fn state(
        connection: &mut Self::Connection,
        session: &mut Self::Session,
        claim: Option<&Claim<'_>>,
    ) -> impl Future<Output = sqlx::Result<TransactionState>> + Send;

    /// How the handler ended the transaction, where a look at its state found out.
    #[doc(hidden)]
    fn breach(session: &Self::Session) -> Option<Breach>;

    /// Commits.
    #[doc(hidden)]
    fn commit(
        connection: &mut Self::Connection,
        session: &mut Self::Session,
    ) -> impl Future<Output = sqlx::Result<()>> + Send;

    /// Takes away what outlives a transaction on its connection, before it is rolled back.
    #[doc(hidden)]
    fn clear(
        _connection: &mut Self::Connection,
        _session: &Self::Session,
    ) -> impl Future<Output = sqlx::Result<()>> + Send {
        std::future::ready(Ok(()))
    }

    /// Whether a transaction that nobody waits for ends with its connection: `clear` must not be left out.
    #[doc(hidden)]
    fn must_clear(_session: &Self::Session) -> bool {
        false
    }

    /// Rolls back.
    #[doc(hidden)]
    fn roll_back(
        connection: &mut Self::Connection,
    ) -> impl Future<Output = sqlx::Result<()>> + Send {
        Self::TransactionManager::rollback(connection)
    }

    /// Whether a transaction changes settings of its session, which `commit` and `roll_back` restore.
    #[doc(hidden)]
    const CHANGES_SETTINGS: bool = false;

    /// Says that the transaction may be rolled back, before it is.
    #[doc(hidden)]
    fn release_session(_session: &mut Self::Session) {}

    /// Whether the connection can't be used again, though the transaction is over.
    #[doc(hidden)]
    fn is_spoiled(_session: &Self::Session) -> bool {
        false
    }

    /// Stops the statement that a dropped future left running, from another connection.
    #[doc(hidden)]
    fn cancel(
        pool: &Pool<Self>,
        session: &Self::Session,
    ) -> impl Future<Output = sqlx::Result<()>> + Send;

    /// The same where the transaction itself was dropped. `None`: another statement could be met by it, or none can be left.
    #[doc(hidden)]
    fn cancel_dropped(
        _pool: &Pool<Self>,
        _session: &Self::Session,
    ) -> Option<BoxFuture<'static, sqlx::Result<()>>> {
        None
    }

    /// Reads a record, outside any transaction.
    #[doc(hidden)]
    fn look(
        connection: &mut Self::Connection,
        id: &RecordId,
    ) -> impl Future<Output = sqlx::Result<Option<Record>>> + Send;

    /// Whether records are read by `look_together`.
    #[doc(hidden)]
    const LOOKS_TOGETHER: bool = false;

    /// Reads several records, outside any transaction; those that there are, in any order. No key comes twice.
    #[doc(hidden)]
    fn look_together(
        _connection: &mut Self::Connection,
        _ids: &[&RecordId],
    ) -> impl Future<Output = sqlx::Result<Vec<(RecordId, Record)>>> + Send {
        std::future::ready(Ok(Vec::new()))
    }

    /// Stores an answer, or the state `unknown`, by a statement of its own. `None`: another record was
    /// there first.
    #[doc(hidden)]
    fn settle_alone(
        connection: &mut Self::Connection,
        claim: &Claim<'_>,
        state: State,
        answer: &Answer<'_>,
    ) -> impl Future<Output = sqlx::Result<Option<Stored>>> + Send;

    /// The migrations, oldest first; their number is their version.
    #[doc(hidden)]
    const MIGRATIONS: &'static [&'static str];

    /// Applies the migrations that are missing, one process at a time.
    #[doc(hidden)]
    fn migrate(connection: &mut Self::Connection)
    -> impl Future<Output = sqlx::Result<i64>> + Send;

    /// The version of the schema in the database; `None` where there is none.
    #[doc(hidden)]
    fn schema_version(
        connection: &mut Self::Connection,
    ) -> impl Future<Output = sqlx::Result<Option<i64>>> + Send;

    /// Whether a migration does nothing where it was applied already.
    #[doc(hidden)]
    const REPEATS_MIGRATIONS: bool = false;

    /// Those of [`TABLES`] that are not there. One that the user may not see counts as there, where the engine tells.
    #[doc(hidden)]
    fn missing_tables(
        connection: &mut Self::Connection,
    ) -> impl Future<Output = sqlx::Result<Vec<&'static str>>> + Send;

    /// Erases the stored answers of expired keys that keep a tombstone. Returns how many.
    #[doc(hidden)]
    fn erase_answers(
        connection: &mut Self::Connection,
        batch: u32,
    ) -> impl Future<Output = sqlx::Result<u64>> + Send;

    /// Deletes records whose retention is over. Returns how many. `hints`: what makes the next sweep faster may be done besides.
    #[doc(hidden)]
    fn delete_expired(
        connection: &mut Self::Connection,
        batch: u32,
        hints: bool,
    ) -> impl Future<Output = sqlx::Result<u64>> + Send;

    /// Deletes the completed records of one scope among the `batch` records that follow `after`.
    #[doc(hidden)]
    fn erase_scope(
        connection: &mut Self::Connection,
        scope: &ScopeKey,
        after: Option<&RecordId>,
        batch: u32,
    ) -> impl Future<Output = sqlx::Result<ErasedBatch>> + Send;
}

mod sealed {
    pub trait Sealed {}
    #[cfg(feature = "mysql")]
    impl Sealed for sqlx::MySql {}
    #[cfg(feature = "postgres")]
    impl Sealed for sqlx::Postgres {}
    #[cfg(feature = "sqlite")]
    impl Sealed for sqlx::Sqlite {}
}
