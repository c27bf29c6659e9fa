//! PostgreSQL 15 and later.
//!
//! The claim is a try-lock and a look, in one statement; the record is inserted once, with its answer,
//! at the end. The unique index is what makes it right: the lock only keeps duplicates from running at
//! once. The look's snapshot is older than the lock, so that a late attempt may win the lock of a key
//! that is already completed; its insert then finds the record and the attempt is rolled back.

use std::borrow::Cow;

use futures_util::future::BoxFuture;
use sqlx::postgres::{PgConnectOptions, PgConnection};
use sqlx::{AssertSqlSafe, Connection, Pool, Postgres, Row, SqlSafeStr};
use sqlx_core::transaction::TransactionManager;

use super::operations::{Fence, Written};
use super::{
    Answer, Backend, Claim, Claimed, Completed, EndFailure, ErasedBatch, Isolation, Record,
    RoundTrips, State, Stored, TransactionState,
};
use crate::guard::Breach;
use crate::scope::{RecordId, ScopeKey};

mod fused;
mod inbox;
mod keys;
mod migrations;
mod operations;
mod outbox;
mod pooling;
mod retention;
mod rows;
mod serializable;
mod session;
mod statements;
mod transaction;

use rows::{arguments, record};
use session::Mark;
pub(super) use session::{Server, Session};
use statements::{LOOK, LOOK_OWNED, SETTLE_ALONE};

type Manager = <Postgres as sqlx::Database>::TransactionManager;

impl Backend for Postgres {
    const SINGLE_WRITER: bool = false;
    type Session = Session;
    type Server = Server;

    async fn detect(
        connection: &mut PgConnection,
        pooled: bool,
        hints: bool,
    ) -> sqlx::Result<Server> {
        let says = "SELECT coalesce(current_setting('default_transaction_isolation', true) = 'serializable', false)";
        Ok(Server {
            pooled,
            locks: hints,
            serializable: pooling::scalar(connection, says.into_sql_str()).await?,
            ..Server::default()
        })
    }

    fn looks_last(_: &Server) -> bool {
        true
    }

    async fn is_read_only(connection: &mut PgConnection) -> sqlx::Result<bool> {
        // Also of a server that was told so.
        let says = "SELECT current_setting('transaction_read_only') = 'on'";
        pooling::scalar(connection, says.into_sql_str()).await
    }

    async fn is_pooled(options: &PgConnectOptions) -> sqlx::Result<bool> {
        pooling::is_pooled(options).await
    }

    fn encloses(server: &Server) -> bool {
        server.pooled
    }

    async fn open_alone(connection: &mut PgConnection, _: &Server) -> sqlx::Result<()> {
        pooling::begin(connection, Some(Isolation::ReadCommitted)).await
    }

    async fn close_alone(
        connection: &mut PgConnection,
        _: &Server,
        done: bool,
    ) -> sqlx::Result<()> {
        connection.clear_cached_statements().await?;
        if done {
            Manager::commit(connection).await
        } else {
            Manager::rollback(connection).await
        }
    }

    async fn begin(
        connection: &mut PgConnection,
        server: &Server,
        isolation: Option<Isolation>,
        claim: Option<&Claim<'_>>,
    ) -> sqlx::Result<Session> {
        let begin = if server.pooled {
            pooling::begin_text(isolation).into()
        } else {
            Cow::Borrowed(begin_text(isolation))
        };
        let unseen = match claim {
            Some(claim) if server.is_serializable(isolation) => {
                Some(serializable::begin_unseen(&mut *connection, claim.id, &begin).await?)
            }
            _ => None,
        };
        if unseen != Some(true) {
            let begin = AssertSqlSafe(begin.into_owned());
            Manager::begin(connection, Some(begin.into_sql_str())).await?;
        }
        Ok(Session {
            found: unseen.map(|unseen| !unseen),
            pooled: server.pooled,
            ..Session::default()
        })
    }

    fn fuses(server: &Server, round_trips: RoundTrips) -> bool {
        round_trips == RoundTrips::Fewest && !server.pooled && server.fusing.is_on()
    }

    async fn begin_claimed(
        connection: &mut PgConnection,
        server: &Server,
        isolation: Option<Isolation>,
        claim: &Claim<'_>,
    ) -> sqlx::Result<Option<Session>> {
        let begin = fused::Begin {
            isolation,
            looks_before: server.is_serializable(isolation),
        };
        let claimed = fused::begin_claimed(connection, &server.fusing, &begin, claim).await?;
        Ok(claimed.then(|| Session {
            mark: Some(Mark {
                text: fused::mark(claim),
                lock: claim.lock(),
                is_own: false,
            }),
            ..Session::default()
        }))
    }

    fn fuses_commit(session: &Session, answer: &Answer<'_>) -> bool {
        session.mark.is_some() && answer.content_length() <= fused::MAX_CONTENT
    }

    async fn complete_and_commit(
        connection: &mut PgConnection,
        _: &Session,
        claim: &Claim<'_>,
        answer: &Answer<'_>,
    ) -> Result<Completed, EndFailure> {
        fused::complete_and_commit(connection, claim, answer).await
    }

    async fn identify(connection: &mut PgConnection, session: &mut Session) -> sqlx::Result<()> {
        let row = sqlx::query(
            "SELECT pg_current_xact_id()::text AS transaction, pg_backend_pid() AS process",
        )
        .fetch_one(connection)
        .await?;
        session.transaction = row.try_get("transaction")?;
        session.process = row.try_get("process")?;
        Ok(())
    }

    async fn begin_marked(
        connection: &mut PgConnection,
        server: &Server,
        isolation: Option<Isolation>,
        round_trips: RoundTrips,
        mark: &str,
    ) -> sqlx::Result<Session> {
        if server.pooled {
            // The mark would be a setting of the session, which the next transaction has on another server.
            let mut session = Self::begin(&mut *connection, server, isolation, None).await?;
            Self::identify(connection, &mut session).await?;
            return Ok(session);
        }
        let fusing = Self::fuses(server, round_trips).then_some(&server.fusing);
        transaction::begin_marked(connection, fusing, isolation, mark, server.locks).await
    }

    fn records_with_commit(session: &Session, length: usize) -> bool {
        session.records_with_commit && length <= fused::MAX_CONTENT
    }

    async fn record_and_commit(
        connection: &mut PgConnection,
        session: &Session,
        fence: &Fence,
        written: &Written<'_>,
    ) -> Result<bool, EndFailure> {
        let Some(mark) = &session.mark else {
            return Err(EndFailure::Open(None));
        };
        operations::fused::record_and_commit(connection, &mark.text, fence, written).await
    }

    async fn complete_operation_and_commit(
        connection: &mut PgConnection,
        session: &Session,
        fence: &Fence,
        answer: &Answer<'_>,
    ) -> Result<Option<Stored>, EndFailure> {
        let Some(mark) = &session.mark else {
            return Err(EndFailure::Open(None));
        };
        operations::fused::complete_and_commit(connection, &mark.text, fence, answer).await
    }

    fn mark(session: &Session) -> Option<&str> {
        session.mark.as_ref().map(|mark| mark.text.as_str())
    }

    async fn claim(
        connection: &mut PgConnection,
        session: &mut Session,
        claim: &Claim<'_>,
    ) -> sqlx::Result<Claimed> {
        keys::claim(connection, session, claim).await
    }

    async fn complete(
        connection: &mut PgConnection,
        session: &mut Session,
        claim: &Claim<'_>,
        answer: &Answer<'_>,
    ) -> sqlx::Result<Completed> {
        keys::complete(connection, session, claim, answer).await
    }

    async fn state(
        connection: &mut PgConnection,
        session: &mut Session,
        _: Option<&Claim<'_>>,
    ) -> sqlx::Result<TransactionState> {
        transaction::state(connection, session).await
    }

    fn breach(session: &Session) -> Option<Breach> {
        session.breach
    }

    async fn commit(connection: &mut PgConnection, session: &mut Session) -> sqlx::Result<()> {
        Self::clear(&mut *connection, session).await?;
        Manager::commit(connection).await
    }

    async fn clear(connection: &mut PgConnection, session: &Session) -> sqlx::Result<()> {
        if session.pooled {
            connection.clear_cached_statements().await?;
        }
        Ok(())
    }

    fn must_clear(session: &Session) -> bool {
        session.pooled
    }

    async fn cancel(pool: &Pool<Self>, session: &Session) -> sqlx::Result<()> {
        // One message, whatever is between here and the server.
        let text = match &session.mark {
            Some(mark) => match mark.cancel_holders() {
                Some(text) => text,
                None => return Ok(()),
            },
            None if session.process != 0 => {
                format!("SELECT pg_cancel_backend({})", session.process)
            }
            None => return Ok(()),
        };
        let statement = sqlx::raw_sql(AssertSqlSafe(text));
        statement.execute(pool).await.map(drop)
    }

    /// Only where the lock is held by nobody else: a key's may be the next attempt's by then.
    fn cancel_dropped(
        pool: &Pool<Self>,
        session: &Session,
    ) -> Option<BoxFuture<'static, sqlx::Result<()>>> {
        let mark = session.mark.as_ref().filter(|mark| mark.is_own)?;
        let text = mark.cancel_holders()?;
        let pool = pool.clone();
        Some(Box::pin(async move {
            let statement = sqlx::raw_sql(AssertSqlSafe(text));
            statement.execute(&pool).await.map(drop)
        }))
    }

    async fn look(connection: &mut PgConnection, id: &RecordId) -> sqlx::Result<Option<Record>> {
        sqlx::query(LOOK)
            .bind(id.as_bytes().as_slice())
            .fetch_optional(connection)
            .await?
            .as_ref()
            .map(record)
            .transpose()
    }

    const LOOKS_TOGETHER: bool = true;

    async fn look_together(
        connection: &mut PgConnection,
        ids: &[&RecordId],
    ) -> sqlx::Result<Vec<(RecordId, Record)>> {
        keys::look_together(connection, ids).await
    }

    async fn settle_alone(
        connection: &mut PgConnection,
        claim: &Claim<'_>,
        state: State,
        answer: &Answer<'_>,
    ) -> sqlx::Result<Option<Stored>> {
        let arguments = arguments(claim, answer, state).map_err(sqlx::Error::Encode)?;
        let stored: Option<Option<i64>> = sqlx::query_scalar_with(SETTLE_ALONE, arguments)
            .fetch_optional(connection)
            .await?;
        Ok(stored.map(|expires_at| Stored { expires_at }))
    }

    const MIGRATIONS: &'static [&'static str] = &[
        include_str!("postgres/0001_keys.sql"),
        include_str!("postgres/0002_operations.sql"),
        include_str!("postgres/0003_outbox.sql"),
        include_str!("postgres/0004_inbox.sql"),
    ];

    async fn migrate(connection: &mut PgConnection) -> sqlx::Result<i64> {
        migrations::migrate(connection).await
    }

    async fn schema_version(connection: &mut PgConnection) -> sqlx::Result<Option<i64>> {
        migrations::schema_version(connection).await
    }

    async fn missing_tables(connection: &mut PgConnection) -> sqlx::Result<Vec<&'static str>> {
        migrations::missing_tables(connection).await
    }

    async fn erase_answers(connection: &mut PgConnection, batch: u32) -> sqlx::Result<u64> {
        retention::erase_answers(connection, batch).await
    }

    async fn delete_expired(
        connection: &mut PgConnection,
        batch: u32,
        hints: bool,
    ) -> sqlx::Result<u64> {
        retention::delete_expired(connection, batch, hints).await
    }

    async fn erase_scope(
        connection: &mut PgConnection,
        scope: &ScopeKey,
        after: Option<&RecordId>,
        batch: u32,
    ) -> sqlx::Result<ErasedBatch> {
        retention::erase_scope(connection, scope, after, batch).await
    }
}

fn begin_text(isolation: Option<Isolation>) -> &'static str {
    match isolation {
        None => "BEGIN",
        Some(Isolation::ReadCommitted) => "BEGIN ISOLATION LEVEL READ COMMITTED",
        Some(Isolation::RepeatableRead) => "BEGIN ISOLATION LEVEL REPEATABLE READ",
        Some(Isolation::Serializable) => "BEGIN ISOLATION LEVEL SERIALIZABLE",
    }
}
