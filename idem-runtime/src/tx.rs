//! `Tx<DB>`: a transaction that its holder can't end.

#[cfg(any(feature = "postgres", feature = "sqlite", feature = "mysql"))]
mod executor;
mod refused;

use std::fmt;
use std::ops::{AsyncFnOnce, Deref, DerefMut};
use std::sync::Arc;
use std::time::Duration;

use sqlx::pool::PoolConnection;
use sqlx_core::transaction::TransactionManager;
use tokio::time::timeout;
use uuid::Uuid;

use crate::backend::outbox::Staged;
use crate::backend::{Backend, Claim, TransactionState};
use crate::call::Authorized;
use crate::faults;
use crate::guard::Breach;
use crate::idempotency::{Idempotency, Shared};
use crate::outbox::{TraceContext, TraceHook};
use crate::problem::Code;
use crate::telemetry;
use crate::turn::{Turn, waited};

/// How long a rollback may take.
const ROLLBACK: Duration = Duration::from_secs(1);

/// What a handler writes through; it says which database, and how the handler is run. Sealed.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a transaction",
    label = "write `&mut Tx<Postgres>`, `&mut Tx<Sqlite>` or `&mut Tx<MySql>`",
    note = "for effects outside the database, a handler takes `&mut Steps<DB, E>`"
)]
pub trait Handle: sealed::Sealed + Sized + Send + 'static {
    /// The database.
    type Db: Backend;

    /// Whether an operation outlives its attempt.
    #[doc(hidden)]
    const RECOVERS: bool;

    /// Runs an authorized request.
    #[doc(hidden)]
    fn run(request: Authorized<Self>) -> impl Future<Output = axum::response::Response> + Send;
}

impl<DB: Backend> Handle for Tx<DB> {
    type Db = DB;
    const RECOVERS: bool = false;

    async fn run(request: Authorized<Self>) -> axum::response::Response {
        crate::accept::accept(request).await
    }
}

mod sealed {
    pub trait Sealed {}
    impl<DB: crate::backend::Backend> Sealed for super::Tx<DB> {}
    impl<DB: crate::backend::Backend, E> Sealed for crate::steps::Steps<DB, E> {}
}

/// The transaction of one attempt: the key's claim, your writes and the stored answer commit in it
/// together, or not at all.
///
/// It is begun, committed and rolled back by the framework. A handler borrows it, and uses it as an
/// sqlx executor:
///
/// ```
/// # #[cfg(feature = "sqlite")] mod example {
/// use idem_runtime::Tx;
/// use sqlx::{Sqlite, SqliteConnection};
///
/// async fn insert_order(db: &mut SqliteConnection, item: &str) -> sqlx::Result<i64> {
///     sqlx::query_scalar("INSERT INTO orders (item) VALUES (?) RETURNING id")
///         .bind(item)
///         .fetch_one(db)
///         .await
/// }
///
/// async fn body_of_a_handler(tx: &mut Tx<Sqlite>) -> sqlx::Result<i64> {
///     sqlx::query("UPDATE stock SET left = left - 1 WHERE item = 'book' AND left > 0")
///         .execute(&mut *tx)
///         .await?;
///     insert_order(tx, "book").await
/// }
/// # }
/// ```
///
/// Return `Ok` to commit and `Err` to roll back. For a part that may fail, use [`Tx::savepoint`].
pub struct Tx<DB: Backend> {
    connection: PoolConnection<DB>,
    session: DB::Session,
    operation_id: Uuid,
    shared: Arc<Shared<DB>>,
    /// Of the request; for the messages that are staged.
    trace: Option<TraceContext>,
    /// How many messages are staged.
    staged: u64,
    resources: Vec<(String, String)>,
    /// Savepoints that were begun and not ended. One that is left at the end was dropped half way:
    /// nobody knows what the transaction holds.
    savepoints: u32,
    open: bool,
    /// A statement of the framework's failed, and nobody knows what else on this connection would.
    doubtful: bool,
    /// The writer's turn, where the engine has one writer.
    turn: Option<Turn>,
}

impl<DB: Backend> Idempotency<DB> {
    /// A transaction that was just begun.
    pub(crate) fn tx(
        &self,
        connection: PoolConnection<DB>,
        session: DB::Session,
        mut turn: Option<Turn>,
        operation_id: Uuid,
    ) -> Tx<DB> {
        if let Some(turn) = &mut turn {
            turn.begun();
        }
        Tx {
            connection,
            session,
            operation_id,
            shared: self.shared.clone(),
            trace: None,
            staged: 0,
            resources: Vec::new(),
            savepoints: 0,
            open: true,
            doubtful: false,
            turn,
        }
    }
}

impl<DB: Backend> Tx<DB> {
    /// The same UUID (version 8) for every attempt of this scope, operation and key, for a `UNIQUE`
    /// column of your own table: it still prevents the duplicate when the key's record is long gone. A
    /// request without a key (`key = "optional"`) gets a random one.
    #[must_use]
    pub fn operation_id(&self) -> Uuid {
        self.operation_id
    }

    /// Puts a reference on the key's record: `tx.resource("order", order.id)`. Operators see it, and
    /// `replay_with` is given it. It is stored in clear text, as JSON: all of a key's references together
    /// may be 65,535 bytes long; a longer list rolls the handler back, and is answered 500
    /// `response-not-storable`.
    pub fn resource(&mut self, kind: impl Into<String>, id: impl fmt::Display) {
        self.resources.push((kind.into(), id.to_string()));
    }

    /// Runs a part of the handler that may fail: on `Err` what it wrote is rolled back, and the rest of
    /// the transaction goes on.
    ///
    /// # Errors
    ///
    /// What the part returns, or a database error of the savepoint itself.
    ///
    /// # Cancel safety
    ///
    /// Not cancel safe: when the future is dropped half way, the whole transaction is rolled back at its
    /// end and the request answered 500.
    pub async fn savepoint<T, E, F>(&mut self, part: F) -> Result<T, E>
    where
        E: From<sqlx::Error>,
        F: AsyncFnOnce(&mut Tx<DB>) -> Result<T, E>,
    {
        DB::TransactionManager::begin(&mut self.connection, None).await?;
        self.savepoints += 1;
        let outcome = part(self).await;
        let ended = match &outcome {
            Ok(_) => DB::TransactionManager::commit(&mut self.connection).await,
            Err(_) => DB::TransactionManager::rollback(&mut self.connection).await,
        };
        match ended {
            Ok(()) => self.savepoints -= 1,
            Err(error) if outcome.is_ok() => return Err(error.into()),
            // A deadlock takes the savepoint with it (MariaDB): what the part says is what happened.
            Err(_) => {}
        }
        outcome
    }

    /// What it was begun by.
    pub(crate) fn idempotency(&self) -> Idempotency<DB> {
        Idempotency {
            shared: self.shared.clone(),
        }
    }

    /// The trace of the request that the transaction serves.
    pub(crate) fn belong_to(&mut self, trace: Option<TraceContext>) {
        self.trace = trace;
    }

    /// The trace of a message that is staged now.
    pub(crate) fn trace(&self) -> Option<TraceContext> {
        match &self.shared.settings.trace {
            Some(TraceHook(hook)) => hook(),
            None => self.trace.clone(),
        }
    }

    /// How large a message may be, in bytes.
    pub(crate) fn max_message(&self) -> usize {
        self.shared.settings.max_message
    }

    /// Stages a message.
    pub(crate) async fn stage(&mut self, message: &Staged<'_>) -> sqlx::Result<()> {
        let notify = self.shared.settings.notifies();
        // Counted before it is known: whoever is woken for nothing finds nothing.
        self.staged += 1;
        DB::stage(&mut self.connection, message, notify).await
    }

    /// Wakes the relays of this process, where something was staged.
    fn committed(&mut self) {
        if self.staged > 0 {
            telemetry::outbox::staged(self.staged);
            self.shared.staged.send_replace(());
        }
    }

    pub(crate) fn parts(&mut self) -> (&mut DB::Connection, &mut DB::Session) {
        (&mut self.connection, &mut self.session)
    }

    /// By how much its attempt's limit is put off: it waited for its turn to write.
    pub(crate) fn waited(&self) -> Duration {
        waited(self.turn.as_ref())
    }

    /// The writer's turn, for what is written right after this transaction.
    pub(crate) fn take_turn(&mut self) -> Option<Turn> {
        self.turn.take()
    }

    /// What the transaction's last statement checks of it by itself.
    pub(crate) fn mark(&self) -> Option<String> {
        DB::mark(&self.session).map(str::to_owned)
    }

    pub(crate) fn session(&self) -> &DB::Session {
        &self.session
    }

    /// What the handler did, where it is answered `code`.
    pub(crate) fn breach(&self, code: Code) -> Breach {
        match code {
            Code::EffectOutsideTransaction => Breach::BesideTransaction,
            _ => DB::breach(&self.session).unwrap_or(Breach::Ended),
        }
    }

    pub(crate) fn resources(&self) -> &[(String, String)] {
        &self.resources
    }

    pub(crate) fn is_poisoned(&self) -> bool {
        self.savepoints > 0
    }

    /// Whether a transaction of sqlx that was begun inside this one was leaked: a commit would release its
    /// savepoint, and commit nothing. On SQLite true for a while of one that was dropped: ask after a statement.
    pub(crate) fn is_nested(&self) -> bool {
        DB::TransactionManager::get_transaction_depth(&self.connection) > 1
    }

    /// Whether no transaction is open any more: PostgreSQL aborts one at an error, and the look at its state rolls it back. A
    /// commit would then succeed, and commit nothing.
    pub(crate) fn is_over(&self) -> bool {
        DB::TransactionManager::get_transaction_depth(&self.connection) == 0
    }

    pub(crate) async fn state(
        &mut self,
        claim: Option<&Claim<'_>>,
    ) -> sqlx::Result<TransactionState> {
        DB::state(&mut self.connection, &mut self.session, claim).await
    }

    /// Commits, within `limit`. On an error nobody knows what the database decided, unless it says so.
    pub(crate) async fn commit_within(mut self, limit: Duration) -> sqlx::Result<()> {
        let committed = timeout(limit, DB::commit(&mut self.connection, &mut self.session))
            .await
            .unwrap_or(Err(sqlx::Error::PoolTimedOut));
        self.open = false;
        if committed.is_err() {
            self.connection.close_on_drop();
        }
        // After an error it may have been committed all the same.
        self.committed();
        committed
    }

    /// Gives the connection back: its transaction is committed.
    pub(crate) fn release(mut self) {
        self.open = false;
        self.committed();
    }

    /// The connection is closed at the transaction's end: a handler that drops prepared statements leaves one behind on
    /// which the next request fails.
    pub(crate) fn doubt(&mut self) {
        self.doubtful = true;
    }

    /// Rolls back. What can't be rolled back in time is, by closing the connection.
    pub(crate) async fn roll_back(mut self) {
        DB::release_session(&mut self.session);
        let whole = async {
            DB::clear(&mut self.connection, &self.session).await?;
            // One at a time: what was begun inside and never ended is rolled back first.
            while self.is_nested() {
                DB::TransactionManager::rollback(&mut self.connection).await?;
            }
            DB::roll_back(&mut self.connection).await
        };
        let rolled_back = timeout(ROLLBACK, whole).await;
        self.open = false;
        let sound = matches!(rolled_back, Ok(Ok(()))) && !self.doubtful;
        if !sound || DB::is_spoiled(&self.session) {
            self.connection.close_on_drop();
        }
    }

    /// Gives the connection up: it is in no known state.
    pub(crate) fn abandon(mut self) {
        DB::release_session(&mut self.session);
        self.open = false;
        self.connection.close_on_drop();
    }
}

impl<DB: Backend> Drop for Tx<DB> {
    fn drop(&mut self) {
        if self.open {
            // The statement that a dropped future left running holds its locks until it ends.
            if self.shared.settings.hints
                && let Some(cancelled) = DB::cancel_dropped(&self.shared.pool, &self.session)
                && let Ok(runtime) = tokio::runtime::Handle::try_current()
            {
                runtime.spawn(timeout(ROLLBACK, cancelled));
            }
            DB::release_session(&mut self.session);
            if DB::must_clear(&self.session) {
                self.connection.close_on_drop();
                return;
            }
            if self.is_nested() || DB::CHANGES_SETTINGS {
                // That would roll back the innermost alone, and restore nothing.
                self.connection.close_on_drop();
            }
            DB::TransactionManager::start_rollback(&mut self.connection);
        }
    }
}

impl<DB: Backend> fmt::Debug for Tx<DB> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tx")
            .field("operation_id", &self.operation_id)
            .finish_non_exhaustive()
    }
}

impl<DB: Backend> Deref for Tx<DB> {
    type Target = DB::Connection;
    fn deref(&self) -> &DB::Connection {
        &self.connection
    }
}

impl<DB: Backend> DerefMut for Tx<DB> {
    fn deref_mut(&mut self) -> &mut DB::Connection {
        faults::point("handler.statement");
        &mut self.connection
    }
}

/// Tells whoever operates the database what it said of a commit that may have taken place or not.
pub(crate) fn tell_unacknowledged(operation: Option<&str>, error: Option<&sqlx::Error>) {
    let error = error.map_or_else(|| "no answer in time".to_owned(), ToString::to_string);
    tracing::warn!(target: "idem", operation, error, "a commit was not acknowledged; what is recorded tells");
}
