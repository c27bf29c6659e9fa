//! PostgreSQL 15 and later.
//!
//! The claim is a try-lock and a look, in one statement; the record is inserted once, with its answer,
//! at the end. The unique index is what makes it right: the lock only keeps duplicates from running at
//! once. The look's snapshot is older than the lock, so that a late attempt may win the lock of a key
//! that is already completed; its insert then finds the record and the attempt is rolled back.

use std::borrow::Cow;

use futures_util::future::BoxFuture;
use sqlx::postgres::{PgConnectOptions, PgConnection};
use sqlx::{Arguments, AssertSqlSafe, Connection, Pool, Postgres, Row, SqlSafeStr};
use sqlx_core::transaction::TransactionManager;

use super::operations::{Fence, Written};
use super::{
    Answer, Backend, Claim, Claimed, Completed, EndFailure, ErasedBatch, Isolation, Record,
    RoundTrips, Standing, State, Stored, TransactionState,
};
use crate::guard::Breach;
use crate::scope::{RecordId, ScopeKey};

mod fused;
mod inbox;
mod migrations;
mod operations;
mod outbox;
mod pooling;
mod retention;
mod rows;
mod serializable;
mod transaction;

use rows::{arguments, record};

type Manager = <Postgres as sqlx::Database>::TransactionManager;

/// What the claim learned of its transaction.
#[derive(Debug, Default)]
pub struct Session {
    /// The transaction's id, as `pg_current_xact_id()` gives it.
    transaction: Option<String>,
    /// The mark of a claim that was fused with its begin.
    mark: Option<Mark>,
    /// Whether the claimed key has a record, past its retention.
    takes_over: bool,
    /// The server process, where the claim told it; to cancel a statement that was left running.
    process: i32,
    /// What records a step can ride with the commit.
    records_with_commit: bool,
    /// Whether the key had a record before the transaction began; `None`: nobody looked. See [`serializable`].
    found: Option<bool>,
    /// See [`pooling`].
    pooled: bool,
    breach: Option<Breach>,
}

/// See [`fused`].
#[derive(Debug)]
struct Mark {
    text: String,
    /// The advisory lock that the transaction holds, if such are taken.
    lock: Option<(i32, i32)>,
    /// The lock is no key's, so that no other transaction takes it.
    is_own: bool,
}

impl Mark {
    /// Cancels what the holders of its lock run.
    fn cancel_holders(&self) -> Option<String> {
        let (first, second) = self.lock?;
        Some(format!(
            "{CANCEL_HOLDERS} AND classid::bigint = {first}::bigint & 4294967295 \
               AND objid::bigint = {second}::bigint & 4294967295"
        ))
    }
}

/// What is known of the server.
#[derive(Clone, Debug, Default)]
pub struct Server {
    fusing: fused::Fusing,
    /// See [`pooling`].
    pooled: bool,
    /// Advisory locks are taken.
    locks: bool,
    /// What the server makes of a transaction that says nothing.
    serializable: bool,
}

impl Server {
    fn is_serializable(&self, isolation: Option<Isolation>) -> bool {
        isolation.map_or(self.serializable, |isolation| {
            isolation == Isolation::Serializable
        })
    }
}

/// The columns of a record, in the order in which [`record`] reads them.
macro_rules! columns {
    () => {
        "r.state, r.owner, r.fingerprint_version, r.fingerprint, r.fingerprint_options, r.status, \
         r.headers, r.body, r.sealed, r.resources, \
         (date_part('epoch', r.expires_at) * 1000)::bigint AS expires_ms, \
         CASE WHEN r.expires_at IS NULL OR r.expires_at > statement_timestamp() THEN 0 \
              WHEN r.retain_until > statement_timestamp() THEN 1 ELSE 2 END AS standing"
    };
}

/// Any isolation. Own statement, own snapshot.
const LOOK: &str = concat!("SELECT ", columns!(), " FROM idem_keys r WHERE r.id = $1");

/// The same, for the key's owner.
const LOOK_OWNED: &str = concat!(
    "SELECT ",
    columns!(),
    " FROM idem_keys r WHERE r.id = $1 AND r.scope = $2"
);

/// Any isolation. Several records at once.
const LOOK_TOGETHER: &str = concat!(
    "SELECT ",
    columns!(),
    ", r.id FROM idem_keys r WHERE r.id = ANY($1)"
);

/// READ COMMITTED: the snapshot is this statement's, taken before the lock. Above it: the
/// transaction's, and this is its first statement. Either may miss a record that was committed while
/// this statement waited for nothing; [`COMPLETE`] finds it.
///
/// A key that was looked for before, as the last argument says, is not looked for again: see [`serializable`]. Then what was committed since
/// is missed, too.
const CLAIM: &str = "\
    SELECT pg_backend_pid() AS process, \
       CASE WHEN l.won THEN pg_current_xact_id()::text END AS transaction, \
       CASE WHEN $4 IS NULL THEN EXISTS (SELECT FROM idem_keys WHERE id = $1) ELSE $4 END AS found \
      FROM (SELECT pg_try_advisory_xact_lock($2, $3) AS won) l";

/// The same without the lock, which is won by all.
const CLAIM_UNLOCKED: &str = "\
    SELECT pg_backend_pid() AS process, pg_current_xact_id()::text AS transaction, \
       CASE WHEN $2 IS NULL THEN EXISTS (SELECT FROM idem_keys WHERE id = $1) ELSE $2 END AS found";

macro_rules! insert {
    ($($rest:literal),*) => {
        concat!(
            "INSERT INTO idem_keys AS k \
               (id, scope, operation, owner, fingerprint_version, fingerprint, fingerprint_options, \
                status, headers, body, sealed, resources, state, created_at, completed_at, \
                expires_at, retain_until) \
             SELECT $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $15, now(), \
                statement_timestamp(), \
                statement_timestamp() + $13 * interval '1 millisecond', \
                statement_timestamp() + $14 * interval '1 millisecond' ",
            $($rest,)*
            " RETURNING (date_part('epoch', expires_at) * 1000)::bigint"
        )
    };
}

/// Replaces a record whose retention is over and never any other.
macro_rules! replace {
    ($condition:literal) => {
        insert!(
            $condition,
            " ON CONFLICT (id) DO UPDATE SET \
                scope = excluded.scope, operation = excluded.operation, state = excluded.state, \
                attempt = k.attempt + 1, owner = excluded.owner, \
                fingerprint_version = excluded.fingerprint_version, \
                fingerprint = excluded.fingerprint, \
                fingerprint_options = excluded.fingerprint_options, status = excluded.status, \
                headers = excluded.headers, body = excluded.body, sealed = excluded.sealed, \
                resources = excluded.resources, created_at = excluded.created_at, \
                completed_at = excluded.completed_at, expires_at = excluded.expires_at, \
                retain_until = excluded.retain_until \
              WHERE k.state = 1 AND k.retain_until <= statement_timestamp()"
        )
    };
}

/// For a key without a record, and only if this is still the claim's transaction. Any isolation: a record
/// that another attempt committed meanwhile is a unique violation, whatever the snapshot. Not `ON CONFLICT`,
/// which inserts speculatively and writes a second time to confirm.
const COMPLETE: &str = insert!("WHERE pg_current_xact_id_if_assigned()::text = $16");

/// The same where the claim left a mark.
const COMPLETE_MARKED: &str = insert!("WHERE current_setting('idem.claim', true) = $16");

/// The same for a key whose record is past its retention. At REPEATABLE READ and above a record that the
/// snapshot can't see raises 40001.
const COMPLETE_OVER: &str = replace!("WHERE pg_current_xact_id_if_assigned()::text = $16");

/// Cancels what the holders of advisory locks run. The view shows the two integers as unsigned ones.
const CANCEL_HOLDERS: &str = "\
    SELECT pg_cancel_backend(pid) FROM pg_locks \
     WHERE locktype = 'advisory' AND granted AND objsubid = 2 \
       AND database = (SELECT oid FROM pg_database WHERE datname = current_database())";

/// In no transaction: for answers whose effect was rolled back, and for `unknown`.
const SETTLE_ALONE: &str = replace!("");

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
            return Err(EndFailure::Open);
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
            return Err(EndFailure::Open);
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
        let lock = claim.lock();
        let statement = lock.map_or(CLAIM_UNLOCKED, |_| CLAIM);
        let mut query = sqlx::query(statement).bind(claim.id.as_bytes().as_slice());
        if let Some((first, second)) = lock {
            query = query.bind(first).bind(second);
        }
        let row = query
            .bind(session.found)
            .fetch_one(&mut *connection)
            .await?;
        session.process = row.try_get(0)?;
        session.transaction = row.try_get(1)?;
        let won = session.transaction.is_some();
        if row.try_get(2)? {
            match Self::look(connection, claim.id).await? {
                Some(record) if record.standing != Standing::Expired => {
                    return Ok(Claimed::Held(record));
                }
                expired => session.takes_over = expired.is_some(),
            }
        }
        Ok(if won {
            Claimed::Won {
                took_over: session.takes_over,
            }
        } else {
            Claimed::InFlight
        })
    }

    async fn complete(
        connection: &mut PgConnection,
        session: &mut Session,
        claim: &Claim<'_>,
        answer: &Answer<'_>,
    ) -> sqlx::Result<Completed> {
        if session.pooled {
            // Once its transaction is over, no statement of this connection may be a prepared one.
            if pooling::is_over(&mut *connection, session.transaction.as_deref()).await? {
                return Ok(Completed::NotOpen(TransactionState::Ended));
            }
        }
        let (insert, guard) = match (&session.mark, session.takes_over) {
            (Some(mark), _) => (COMPLETE_MARKED, Some(&mark.text)),
            (None, true) => (COMPLETE_OVER, session.transaction.as_ref()),
            (None, false) => (COMPLETE, session.transaction.as_ref()),
        };
        let mut arguments =
            arguments(claim, answer, State::Completed).map_err(sqlx::Error::Encode)?;
        arguments.add(guard).map_err(sqlx::Error::Encode)?;
        let stored = sqlx::query_with(insert, arguments)
            .fetch_optional(&mut *connection)
            .await;
        let stored = match stored {
            Err(sqlx::Error::Database(error)) if error.is_unique_violation() => {
                return Ok(Completed::Lost);
            }
            stored => stored?,
        };
        Ok(match stored {
            Some(row) => Completed::Stored(Stored {
                expires_at: row.try_get(0)?,
            }),
            None => match Self::state(connection, session, Some(claim)).await? {
                TransactionState::Open => Completed::Lost,
                state => Completed::NotOpen(state),
            },
        })
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
        if let [id] = ids {
            let found = Self::look(connection, id).await?;
            return Ok(found.map(|record| (**id, record)).into_iter().collect());
        }
        let ids: Vec<&[u8]> = ids.iter().map(|id| id.as_bytes().as_slice()).collect();
        let rows = sqlx::query(LOOK_TOGETHER)
            .bind(ids)
            .fetch_all(connection)
            .await?;
        rows.iter()
            .map(|row| {
                let id = RecordId::from_slice(row.try_get(12)?);
                let id = id.ok_or_else(|| {
                    sqlx::Error::Decode("a key's digest is not 32 bytes long".into())
                })?;
                Ok((id, record(row)?))
            })
            .collect()
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
