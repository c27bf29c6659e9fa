//! The transaction that a handler has.
//!
//! InnoDB answers a deadlock by rolling the whole transaction back, and whatever the handler sends after that would commit by
//! itself. So the session does not commit by itself while a handler has it, and begins read-only transactions but for the
//! framework's own: what follows a deadlock is rolled back with the rest, and what follows a statement that ends the
//! transaction is refused. Which of both it was can be told by that, too.

use sqlx::mysql::MySqlConnection;
use sqlx::{AssertSqlSafe, Executor, Row, SqlSafeStr};
use sqlx_core::transaction::TransactionManager;

use super::super::{Backend, Claim, Isolation, TransactionState};
use super::{Flavour, Manager, MySql, Session, number};

macro_rules! begin {
    ($between:expr) => {
        concat!(
            "SET SESSION TRANSACTION READ ONLY; SET @idem_autocommit = @@autocommit, autocommit = 0; ",
            $between,
            "START TRANSACTION READ WRITE; SAVEPOINT idem_claim"
        )
    };
}

macro_rules! end {
    ($end:literal) => {
        concat!(
            $end,
            "; SET SESSION TRANSACTION READ WRITE; SET autocommit = @idem_autocommit"
        )
    };
}

pub(super) async fn begin(
    connection: &mut MySqlConnection,
    isolation: Option<Isolation>,
) -> sqlx::Result<()> {
    let statement = match isolation {
        None => begin!("").into_sql_str(),
        Some(level) => AssertSqlSafe(format!(
            begin!("SET TRANSACTION ISOLATION LEVEL {}; "),
            level.as_sql()
        ))
        .into_sql_str(),
    };
    Manager::begin(connection, Some(statement)).await
}

pub(super) async fn commit(connection: &mut MySqlConnection) -> sqlx::Result<()> {
    end(connection, end!("COMMIT")).await
}

pub(super) async fn roll_back(connection: &mut MySqlConnection) -> sqlx::Result<()> {
    end(connection, end!("ROLLBACK")).await
}

/// Ends the transaction and restores the session, in one message. After an error the session is in no known state.
async fn end(connection: &mut MySqlConnection, statement: &'static str) -> sqlx::Result<()> {
    connection.execute(statement).await?;
    // sqlx still counts a transaction. Its rollback has nothing to do, and rides with the pool's ping.
    Manager::start_rollback(connection);
    Ok(())
}

pub(super) async fn connection_id(connection: &mut MySqlConnection) -> sqlx::Result<u64> {
    sqlx::query_scalar("SELECT CAST(CONNECTION_ID() AS UNSIGNED)")
        .fetch_one(connection)
        .await
}

/// What became of the session's transaction. Asked once: the answer takes its savepoint away.
pub(super) async fn state(
    connection: &mut MySqlConnection,
    session: &Session,
    claim: Option<&Claim<'_>>,
) -> sqlx::Result<TransactionState> {
    match connection.execute("RELEASE SAVEPOINT idem_claim").await {
        Ok(_) => return Ok(TransactionState::Open),
        // ER_SP_DOES_NOT_EXIST: it goes with its transaction, however that ends.
        Err(error) if number(&error) == Some(1305) => {}
        Err(error) => return Err(error),
    }
    // Another connection in our place: what the handler wrote through it committed by itself.
    if session.connection_id != 0 && connection_id(&mut *connection).await? != session.connection_id
    {
        return Ok(TransactionState::Ended);
    }
    let undone = session.flavour == Flavour::MariaDb && is_undone(&mut *connection).await?;
    if undone && session.connection_id != 0 {
        return Ok(TransactionState::RolledBack);
    }
    // A commit made the claim durable; a deadlock, which rolls everything back, did not.
    let Some(claim) = claim else {
        return Ok(TransactionState::Ended);
    };
    Ok(match MySql::look(connection, claim.id).await? {
        Some(record) if record.owner == claim.owner => TransactionState::Ended,
        _ => TransactionState::RolledBack,
    })
}

/// Whether the server rolled the transaction back by itself, and nothing followed: the next may then still write, as the one
/// before, where after a statement that ended it the session's setting counts. A `COMMIT AND CHAIN` has begun the next.
async fn is_undone(connection: &mut MySqlConnection) -> sqlx::Result<bool> {
    let row = connection
        .fetch_one("SELECT CAST(@@in_transaction AS SIGNED)")
        .await?;
    if row.try_get::<i64, _>(0)? != 0 {
        return Ok(false);
    }
    match connection
        .execute("DELETE FROM idem_keys WHERE FALSE")
        .await
    {
        Ok(_) => Ok(true),
        // ER_CANT_EXECUTE_IN_READ_ONLY_TRANSACTION
        Err(error) if number(&error) == Some(1792) => Ok(false),
        Err(error) => Err(error),
    }
}
