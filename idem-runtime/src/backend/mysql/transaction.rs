//! The transaction that a handler has.
//!
//! InnoDB answers a deadlock by rolling the whole transaction back, and whatever the handler sends after that would commit by
//! itself. So the session does not commit by itself while a handler has it, and begins read-only transactions but for the
//! framework's own: what follows a deadlock is rolled back with the rest, and what follows a statement that ends the
//! transaction is refused. Which of both it was can be told by that, too.

use sqlx::mysql::MySqlConnection;
use sqlx::{AssertSqlSafe, Executor, Pool, SqlSafeStr};
use sqlx_core::transaction::TransactionManager;

use crate::guard::Breach;

use super::super::{Backend, Claim, Isolation, TransactionState};
use super::{Flavour, Manager, MySql, Session, number};

macro_rules! begin {
    ($before:expr, $between:expr) => {
        concat!(
            $before,
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

/// `looked`: something was read before it, which a session that does not commit by itself ends here.
pub(super) async fn begin(
    connection: &mut MySqlConnection,
    isolation: Option<Isolation>,
    looked: bool,
) -> sqlx::Result<()> {
    let statement = match (isolation, looked) {
        (None, false) => begin!("", "").into_sql_str(),
        (None, true) => begin!("ROLLBACK; ", "").into_sql_str(),
        (Some(level), looked) => AssertSqlSafe(format!(
            begin!("{}", "SET TRANSACTION ISOLATION LEVEL {}; "),
            if looked { "ROLLBACK; " } else { "" },
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

/// Stops the statement that runs on a connection, from another.
pub(super) async fn cancel(pool: &Pool<MySql>, connection_id: u64) -> sqlx::Result<()> {
    if connection_id != 0 {
        let kill = format!("KILL QUERY {connection_id}");
        pool.execute(AssertSqlSafe(kill)).await?;
    }
    Ok(())
}

/// What became of the session's transaction, which is to be rolled back. Asked once: the answer takes its savepoint away.
pub(super) async fn state(
    connection: &mut MySqlConnection,
    session: &mut Session,
    claim: Option<&Claim<'_>>,
) -> sqlx::Result<TransactionState> {
    let follows = match gone(&mut *connection, session).await? {
        Gone::No => return Ok(TransactionState::Open),
        Gone::WithConnection => {
            session.breach = Some(Breach::OtherConnection);
            return Ok(TransactionState::Ended);
        }
        Gone::From(follows) => follows,
    };
    match (claim, follows) {
        (Some(claim), _) => look_for(connection, claim).await,
        // A handler that commits and chains, and is the victim of a deadlock then, is not found out.
        (None, Follows::Nothing) => Ok(TransactionState::RolledBack),
        (None, Follows::ReadOnly) => Ok(TransactionState::Ended),
        (None, Follows::Another | Follows::Unknown) => {
            session.breach = Some(Breach::Unclear);
            Ok(TransactionState::Unclear)
        }
    }
}

/// The same of one that is to be committed: its handler thinks that it is still there.
pub(super) async fn state_at_commit(
    connection: &mut MySqlConnection,
    session: &mut Session,
    claim: &Claim<'_>,
) -> sqlx::Result<TransactionState> {
    Ok(match gone(&mut *connection, session).await? {
        Gone::No => TransactionState::Open,
        Gone::From(Follows::Nothing | Follows::Another) => look_for(connection, claim).await?,
        Gone::WithConnection => {
            session.breach = Some(Breach::OtherConnection);
            TransactionState::Ended
        }
        Gone::From(Follows::ReadOnly | Follows::Unknown) => TransactionState::Ended,
    })
}

/// A commit made the claim durable; a rollback, whoever asked for it, did not.
async fn look_for(
    connection: &mut MySqlConnection,
    claim: &Claim<'_>,
) -> sqlx::Result<TransactionState> {
    Ok(match MySql::look(connection, claim.id).await? {
        Some(record) if record.owner == claim.owner => TransactionState::Ended,
        _ => TransactionState::RolledBack,
    })
}

enum Gone {
    No,
    /// Another connection is in its place: what the handler wrote through it committed by itself.
    WithConnection,
    From(Follows),
}

async fn gone(connection: &mut MySqlConnection, session: &Session) -> sqlx::Result<Gone> {
    match connection.execute("RELEASE SAVEPOINT idem_claim").await {
        Ok(_) => return Ok(Gone::No),
        // ER_SP_DOES_NOT_EXIST: it goes with its transaction, however that ends.
        Err(error) if number(&error) == Some(1305) => {}
        Err(error) => return Err(error),
    }
    if session.connection_id == 0 {
        return Ok(Gone::From(Follows::Unknown));
    }
    if connection_id(&mut *connection).await? != session.connection_id {
        return Ok(Gone::WithConnection);
    }
    Ok(Gone::From(follows(connection, session.flavour).await?))
}

/// What follows a transaction that is gone.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Follows {
    /// The server rolled it back by itself, and no statement came after it.
    Nothing,
    /// A statement ended it: from then on the session's setting counts.
    ReadOnly,
    /// One that may write, and that nobody committed: begun by a statement after the server's rollback, or by `AND CHAIN`.
    Another,
    Unknown,
}

async fn follows(connection: &mut MySqlConnection, flavour: Flavour) -> sqlx::Result<Follows> {
    let within = is_within(&mut *connection, flavour).await?;
    match connection
        .execute("UPDATE idem_keys SET attempt = attempt WHERE FALSE")
        .await
    {
        Ok(_) if within => Ok(Follows::Another),
        Ok(_) => Ok(Follows::Nothing),
        // ER_CANT_EXECUTE_IN_READ_ONLY_TRANSACTION
        Err(error) if number(&error) == Some(1792) => Ok(Follows::ReadOnly),
        Err(error) => Err(error),
    }
}

/// Whether the session is in a transaction.
async fn is_within(connection: &mut MySqlConnection, flavour: Flavour) -> sqlx::Result<bool> {
    match flavour {
        Flavour::MariaDb => {
            sqlx::query_scalar("SELECT @@in_transaction <> 0")
                .fetch_one(connection)
                .await
        }
        // It has no such variable, but refuses to change what a transaction is in the middle of one. If there is none, the
        // next one is changed, which is to be rolled back; at this level it locks nothing that it only reads.
        Flavour::MySql => {
            let set = connection
                .execute("SET TRANSACTION ISOLATION LEVEL READ COMMITTED")
                .await;
            match set {
                Ok(_) => Ok(false),
                // ER_CANT_CHANGE_TX_CHARACTERISTICS
                Err(error) if number(&error) == Some(1568) => Ok(true),
                Err(error) => Err(error),
            }
        }
    }
}
