//! A pooler between the service and the server that lends its connections a transaction at a time: PgBouncer with
//! `pool_mode = transaction`, and what works as it does.
//!
//! sqlx prepares a statement in one message and runs it in another. Between the two, and outside a transaction, such a pooler
//! gives the server's process to others: the statement is then missing, its name is taken, or, where it has
//! none, another's rows come back and nobody notices. Inside a transaction the process stays the same. So here every statement is
//! in one, and what was prepared in it is closed before it ends; and each begins with a `DEALLOCATE ALL`, for
//! what others left behind. Nothing else of the session is used either: no setting, no lock that outlives a
//! transaction, no `LISTEN`.

use sqlx::postgres::{PgConnectOptions, PgConnection};
use sqlx::{
    AssertSqlSafe, ConnectOptions, Connection, Decode, Postgres, Row, SqlSafeStr, SqlStr, Type,
};
use sqlx_core::transaction::TransactionManager;

use super::Manager;
use crate::backend::Isolation;

/// How often two connections are asked in turn. A pooler with two free processes that hands them out at random is missed once in
/// 2^30 times; one that nobody else uses is found at once.
const ROUNDS: usize = 16;

/// Begins.
pub(super) async fn begin(
    connection: &mut PgConnection,
    isolation: Option<Isolation>,
) -> sqlx::Result<()> {
    let text = begin_text(isolation);
    Manager::begin(connection, Some(AssertSqlSafe(text).into_sql_str())).await
}

pub(super) fn begin_text(isolation: Option<Isolation>) -> String {
    format!("{}; DEALLOCATE ALL", super::begin_text(isolation))
}

/// The one value that a query answers, in one message, so that it may be sent in no transaction.
pub(super) async fn scalar<T>(connection: &mut PgConnection, query: SqlStr) -> sqlx::Result<T>
where
    T: for<'r> Decode<'r, Postgres> + Type<Postgres>,
{
    sqlx::raw_sql(query).fetch_one(connection).await?.try_get(0)
}

/// Whether another transaction runs here than the one of this name, or none; an error where it runs and is aborted.
pub(super) async fn is_over(
    connection: &mut PgConnection,
    transaction: Option<&str>,
) -> sqlx::Result<bool> {
    let asked = "SELECT pg_current_xact_id_if_assigned()::text".into_sql_str();
    let now: Option<String> = scalar(connection, asked).await?;
    Ok(transaction.is_some() && now.as_deref() != transaction)
}

/// Whether a transaction, named as `pg_current_xact_id()` does, has committed.
pub(super) async fn is_committed(
    connection: &mut PgConnection,
    transaction: &str,
) -> sqlx::Result<bool> {
    let number: u64 = transaction
        .parse()
        .map_err(|_| sqlx::Error::Decode("a transaction's id is no number".into()))?;
    let text = format!("SELECT coalesce(pg_xact_status('{number}'::xid8) = 'committed', false)");
    scalar(connection, AssertSqlSafe(text).into_sql_str()).await
}

/// Whether one process of the server serves two connections that are open at once, or one connection has several.
pub(super) async fn is_pooled(options: &PgConnectOptions) -> sqlx::Result<bool> {
    let mut first = options.connect().await?;
    let mut second = options.connect().await?;
    let pooled = shares(&mut first, &mut second).await;
    // It is over; how they part matters to nobody.
    let _ = first.close().await;
    let _ = second.close().await;
    pooled
}

async fn shares(first: &mut PgConnection, second: &mut PgConnection) -> sqlx::Result<bool> {
    let of_first = process(first).await?;
    let of_second = process(second).await?;
    if of_first == of_second {
        return Ok(true);
    }
    for _ in 1..ROUNDS {
        if process(first).await? != of_first || process(second).await? != of_second {
            return Ok(true);
        }
    }
    Ok(false)
}

async fn process(connection: &mut PgConnection) -> sqlx::Result<i32> {
    scalar(connection, "SELECT pg_backend_pid()".into_sql_str()).await
}
