//! What became of a transaction that a handler had.

use std::time::Duration;

use sqlx::postgres::PgConnection;
use sqlx::{AssertSqlSafe, Executor, Postgres, SqlSafeStr};
use sqlx_core::transaction::TransactionManager;
use tokio::time::timeout;

use crate::guard::Breach;

use super::super::{Backend, Fault, Isolation, TransactionState, fault};
use super::fused::Fusing;
use super::{Manager, Mark, Session, begin_text, fused, operations, pooling};

/// Begins a transaction that tells itself from any other, in one message: a setting of it is this mark, and what a commit
/// leaves behind says so ([`fused::is_committed`]). An advisory lock of the mark's own is how its process is found.
pub(super) async fn begin_marked(
    connection: &mut PgConnection,
    fusing: Option<&Fusing>,
    isolation: Option<Isolation>,
    mark: &str,
    locks: bool,
) -> sqlx::Result<Session> {
    let lock = locks.then(|| (fastrand::i32(..), fastrand::i32(..)));
    let prepared = match fusing {
        Some(fusing) => {
            operations::fused::begin(&mut *connection, fusing, isolation, mark, lock).await?
        }
        None => false,
    };
    if !prepared {
        let mut text = format!(
            "{begin}; SELECT set_config('idem.claim', left(set_config('idem.claim', '{mark}-over', false), -5), true)",
            begin = begin_text(isolation),
        );
        if let Some((first, second)) = lock {
            text.push_str(&format!(", pg_try_advisory_xact_lock({first}, {second})"));
        }
        Manager::begin(connection, Some(AssertSqlSafe(text).into_sql_str())).await?;
    }
    Ok(Session {
        mark: Some(Mark {
            text: mark.to_owned(),
            lock,
            is_own: true,
        }),
        records_with_commit: prepared,
        ..Session::default()
    })
}

/// Whether the session's transaction still runs here.
pub(super) async fn state(
    connection: &mut PgConnection,
    session: &mut Session,
) -> sqlx::Result<TransactionState> {
    let (asked, expected) = match &session.mark {
        Some(mark) => (
            "SELECT current_setting('idem.claim', true)",
            Some(&mark.text),
        ),
        None => (
            "SELECT pg_current_xact_id_if_assigned()::text",
            session.transaction.as_ref(),
        ),
    };
    let now: sqlx::Result<Option<String>> = if session.pooled {
        pooling::scalar(&mut *connection, asked.into_sql_str()).await
    } else {
        sqlx::query_scalar(asked).fetch_one(&mut *connection).await
    };
    match now {
        Ok(now) if expected.is_some() && now.as_ref() != expected => {
            session.breach = Some(breach(connection, session, now.as_deref()).await);
            Ok(TransactionState::Ended)
        }
        Ok(_) => Ok(TransactionState::Open),
        // Aborted by an error: a transaction, which says no more.
        Err(error) if fault(&error) == Fault::Aborted => {
            roll_back_aborted(connection, session).await
        }
        Err(error) => Err(error),
    }
}

/// How long that may be looked at.
const BREACH: Duration = Duration::from_millis(200);

/// How the session's transaction ended, where the connection says `now` that it is in none, or in another.
async fn breach(connection: &mut PgConnection, session: &Session, now: Option<&str>) -> Breach {
    if let Some(mark) = &session.mark {
        let left = now.and_then(|now| now.strip_suffix("-over"));
        return match left {
            Some(left) if left == mark.text => Breach::Ended,
            _ => Breach::OtherConnection,
        };
    }
    // A pooler may have lent another server's.
    if !session.pooled && session.process != 0 {
        let asked = sqlx::query_scalar::<_, i32>("SELECT pg_backend_pid()").fetch_one(connection);
        // Only for whoever reads of it, so that it must not delay what is known already.
        if matches!(timeout(BREACH, asked).await, Ok(Ok(process)) if process != session.process) {
            return Breach::OtherConnection;
        }
    }
    now.map_or(Breach::Ended, |_| Breach::OtherTransaction)
}

/// Rolls back the aborted transaction that the connection is in, and finds out whether it was the claim's: where that one
/// is committed, the handler had begun another.
async fn roll_back_aborted(
    connection: &mut PgConnection,
    session: &Session,
) -> sqlx::Result<TransactionState> {
    Postgres::clear(&mut *connection, session).await?;
    if Manager::get_transaction_depth(connection) == 1 {
        Manager::rollback(&mut *connection).await?;
    } else {
        connection.execute("ROLLBACK").await?;
    }
    let committed = match (&session.mark, &session.transaction) {
        (Some(mark), _) => fused::is_committed(connection, &mark.text).await?,
        (None, Some(transaction)) if session.pooled => {
            pooling::is_committed(connection, transaction).await?
        }
        (None, Some(transaction)) => {
            sqlx::query_scalar(
                "SELECT coalesce(pg_xact_status($1::text::xid8) = 'committed', false)",
            )
            .bind(transaction)
            .fetch_one(connection)
            .await?
        }
        (None, None) => false,
    };
    Ok(if committed {
        TransactionState::Ended
    } else {
        TransactionState::Open
    })
}
