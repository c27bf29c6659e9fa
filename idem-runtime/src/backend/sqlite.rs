//! SQLite, in WAL mode.
//!
//! `BEGIN IMMEDIATE` makes the transaction the only writer, so that the look under it is the truth and
//! needs no lock. A commit hook refuses every commit but the framework's own, and a rollback hook tells
//! when the transaction ended under the handler.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use sqlx::sqlite::{SqliteConnection, SqliteError, SqliteRow};
use sqlx::{Executor, Pool, Row, SqlSafeStr, Sqlite};
use sqlx_core::transaction::TransactionManager;

use super::{
    Answer, Backend, Claim, Claimed, Completed, ErasedBatch, Fault, Isolation, Record, Standing,
    State, Stored, TransactionState,
};
use crate::guard::Breach;
use crate::scope::{RecordId, ScopeKey};

type Manager = <Sqlite as sqlx::Database>::TransactionManager;

/// Milliseconds since 1970. `julianday` and not `unixepoch('subsec')`, which SQLite before 3.42 lacks.
macro_rules! now {
    () => {
        "CAST(round((julianday('now') - 2440587.5) * 86400000.0) AS INTEGER)"
    };
}

mod inbox;
mod migrations;
mod operations;
mod outbox;
mod retention;

macro_rules! look {
    () => {
        concat!(
            "SELECT state, owner, fingerprint_version, fingerprint, fingerprint_options, status, \
               headers, body, sealed, resources, expires_at, \
               CASE WHEN expires_at IS NULL OR expires_at > ",
            now!(),
            " THEN 0 WHEN retain_until > ",
            now!(),
            " THEN 1 ELSE 2 END AS standing FROM idem_keys WHERE id = ?1"
        )
    };
}

const LOOK: &str = look!();

/// The same, for the key's owner.
const LOOK_OWNED: &str = concat!(look!(), " AND scope = ?2");

/// Replaces a record whose retention is over and never any other.
const INSERT: &str = concat!(
    "INSERT INTO idem_keys \
       (id, scope, operation, owner, fingerprint_version, fingerprint, fingerprint_options, \
        status, headers, body, sealed, resources, state, created_at, completed_at, \
        expires_at, retain_until) \
     SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?15, t.now, t.now, \
        t.now + ?13, t.now + ?14 FROM (SELECT ",
    now!(),
    " AS now) t WHERE true \
     ON CONFLICT (id) DO UPDATE SET \
        scope = excluded.scope, operation = excluded.operation, state = excluded.state, \
        attempt = idem_keys.attempt + 1, owner = excluded.owner, \
        fingerprint_version = excluded.fingerprint_version, fingerprint = excluded.fingerprint, \
        fingerprint_options = excluded.fingerprint_options, status = excluded.status, \
        headers = excluded.headers, body = excluded.body, sealed = excluded.sealed, \
        resources = excluded.resources, created_at = excluded.created_at, \
        completed_at = excluded.completed_at, expires_at = excluded.expires_at, \
        retain_until = excluded.retain_until \
      WHERE idem_keys.state = 1 AND idem_keys.retain_until <= ",
    now!(),
    " RETURNING expires_at"
);

/// What the hooks saw.
#[derive(Debug, Default)]
struct Watch {
    /// Commits are refused while this is set.
    armed: AtomicBool,
    /// The handler tried to commit.
    refused: AtomicBool,
    /// The transaction was rolled back under us, by the handler or by SQLite.
    rolled_back: AtomicBool,
    /// A statement that a dropped future left running is to end.
    stop: AtomicBool,
}

/// After how many steps of SQLite's machine a running statement looks whether it is to end.
const STEPS_BETWEEN_LOOKS: i32 = 10_000;

/// One transaction, watched.
#[derive(Debug)]
pub struct Session {
    watch: Arc<Watch>,
    /// The connection's address: a handler may have swapped the connection.
    handle: usize,
    breach: Option<Breach>,
}

impl Session {
    fn ended(&self) -> bool {
        self.watch.refused.load(Ordering::SeqCst) || self.watch.rolled_back.load(Ordering::SeqCst)
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.watch.armed.store(false, Ordering::SeqCst);
    }
}

impl Backend for Sqlite {
    const SINGLE_WRITER: bool = true;
    type Session = Session;
    type Server = ();

    async fn detect(_: &mut SqliteConnection, _: bool, _: bool) -> sqlx::Result<()> {
        Ok(())
    }

    /// One writer at a time: what a claim found stays so.
    fn looks_last((): &()) -> bool {
        false
    }

    async fn is_read_only(_: &mut SqliteConnection) -> sqlx::Result<bool> {
        Ok(false)
    }

    async fn begin(
        connection: &mut SqliteConnection,
        (): &(),
        _: Option<Isolation>,
        _: Option<&Claim<'_>>,
    ) -> sqlx::Result<Session> {
        // A deferred transaction that reads and then writes fails with SQLITE_BUSY whatever the time-out.
        Manager::begin(connection, Some("BEGIN IMMEDIATE".into_sql_str())).await?;
        let watch = Arc::new(Watch::default());
        let mut locked = connection.lock_handle().await?;
        let (on_commit, on_rollback, on_progress) = (watch.clone(), watch.clone(), watch.clone());
        locked.set_progress_handler(STEPS_BETWEEN_LOOKS, move || {
            !on_progress.stop.load(Ordering::SeqCst)
        });
        locked.set_commit_hook(move || {
            let refuse = on_commit.armed.load(Ordering::SeqCst);
            on_commit.refused.fetch_or(refuse, Ordering::SeqCst);
            !refuse
        });
        locked.set_rollback_hook(move || {
            if on_rollback.armed.load(Ordering::SeqCst) {
                on_rollback.rolled_back.store(true, Ordering::SeqCst);
            }
        });
        let handle = locked.as_raw_handle().as_ptr() as usize;
        drop(locked);
        watch.armed.store(true, Ordering::SeqCst);
        Ok(Session {
            watch,
            handle,
            breach: None,
        })
    }

    async fn claim(
        connection: &mut SqliteConnection,
        _: &mut Session,
        claim: &Claim<'_>,
    ) -> sqlx::Result<Claimed> {
        let found = Self::look(connection, claim.id).await?;
        Ok(match found {
            Some(record) if record.standing != Standing::Expired => Claimed::Held(record),
            expired => Claimed::Won {
                took_over: expired.is_some(),
            },
        })
    }

    async fn complete(
        connection: &mut SqliteConnection,
        session: &mut Session,
        claim: &Claim<'_>,
        answer: &Answer<'_>,
    ) -> sqlx::Result<Completed> {
        let state = Self::state(&mut *connection, session, None).await?;
        if state != TransactionState::Open {
            return Ok(Completed::NotOpen(state));
        }
        let stored = insert(connection, claim, answer, State::Completed).await;
        if session.ended() {
            return Ok(Completed::NotOpen(TransactionState::RolledBack));
        }
        Ok(stored?.map_or(Completed::Lost, Completed::Stored))
    }

    async fn state(
        connection: &mut SqliteConnection,
        session: &mut Session,
        _: Option<&Claim<'_>>,
    ) -> sqlx::Result<TransactionState> {
        if session.ended() {
            return Ok(TransactionState::RolledBack);
        }
        // Refused while a transaction is open. The hooks don't tell of one that a handler ended after it had replaced
        // them. It also is the statement between two locks of the handle, without which the second can hang.
        let gone = connection.execute("BEGIN").await.is_ok();
        if gone {
            session.breach = Some(Breach::HooksReplaced);
        }
        let mut handle = match connection.lock_handle().await {
            Err(_) if gone => return Ok(TransactionState::Ended),
            locked => locked?,
        };
        let handle = handle.as_raw_handle().as_ptr() as usize;
        session.breach = match (handle == session.handle, gone) {
            (true, false) => return Ok(TransactionState::Open),
            (true, true) => Some(Breach::HooksReplaced),
            (false, _) => Some(Breach::OtherConnection),
        };
        Ok(TransactionState::Ended)
    }

    fn breach(session: &Session) -> Option<Breach> {
        session.breach
    }

    async fn commit(connection: &mut SqliteConnection, session: &mut Session) -> sqlx::Result<()> {
        session.watch.armed.store(false, Ordering::SeqCst);
        Manager::commit(connection).await
    }

    fn release_session(session: &mut Session) {
        session.watch.armed.store(false, Ordering::SeqCst);
    }

    fn is_spoiled(session: &Session) -> bool {
        // sqlx still counts the transaction that is gone; a stopped connection stops its next user too.
        session.ended() || session.watch.stop.load(Ordering::SeqCst)
    }

    async fn cancel(_: &Pool<Self>, session: &Session) -> sqlx::Result<()> {
        session.watch.stop.store(true, Ordering::SeqCst);
        Ok(())
    }

    async fn look(
        connection: &mut SqliteConnection,
        id: &RecordId,
    ) -> sqlx::Result<Option<Record>> {
        sqlx::query(LOOK)
            .bind(id.as_bytes().as_slice())
            .fetch_optional(connection)
            .await?
            .as_ref()
            .map(record)
            .transpose()
    }

    async fn settle_alone(
        connection: &mut SqliteConnection,
        claim: &Claim<'_>,
        state: State,
        answer: &Answer<'_>,
    ) -> sqlx::Result<Option<Stored>> {
        insert(connection, claim, answer, state).await
    }

    const MIGRATIONS: &'static [&'static str] = &[
        include_str!("sqlite/0001_keys.sql"),
        include_str!("sqlite/0002_operations.sql"),
        include_str!("sqlite/0003_outbox.sql"),
        include_str!("sqlite/0004_inbox.sql"),
    ];

    async fn migrate(connection: &mut SqliteConnection) -> sqlx::Result<i64> {
        migrations::migrate(connection).await
    }

    async fn schema_version(connection: &mut SqliteConnection) -> sqlx::Result<Option<i64>> {
        migrations::schema_version(connection).await
    }

    async fn missing_tables(connection: &mut SqliteConnection) -> sqlx::Result<Vec<&'static str>> {
        migrations::missing_tables(connection).await
    }

    async fn erase_answers(connection: &mut SqliteConnection, batch: u32) -> sqlx::Result<u64> {
        retention::erase_answers(connection, batch).await
    }

    async fn delete_expired(
        connection: &mut SqliteConnection,
        batch: u32,
        _: bool,
    ) -> sqlx::Result<u64> {
        retention::delete_expired(connection, batch).await
    }

    async fn erase_scope(
        connection: &mut SqliteConnection,
        scope: &ScopeKey,
        after: Option<&RecordId>,
        batch: u32,
    ) -> sqlx::Result<ErasedBatch> {
        retention::erase_scope(connection, scope, after, batch).await
    }
}

async fn insert(
    connection: &mut SqliteConnection,
    claim: &Claim<'_>,
    answer: &Answer<'_>,
    state: State,
) -> sqlx::Result<Option<Stored>> {
    let content = answer.content.as_ref();
    let stored: Option<Option<i64>> = sqlx::query_scalar(INSERT)
        .bind(claim.id.as_bytes().as_slice())
        .bind(claim.scope.as_str())
        .bind(claim.operation)
        .bind(claim.owner.as_slice())
        .bind(i16::from(claim.fingerprint.version()))
        .bind(claim.fingerprint.digest().as_slice())
        .bind(claim.fingerprint_options)
        .bind(i32::from(answer.status))
        .bind(content.map(|content| content.headers))
        .bind(content.map(|content| content.body))
        .bind(content.is_some_and(|content| content.sealed))
        .bind(answer.resources)
        .bind(answer.ttl_millis())
        .bind(answer.retention_millis())
        .bind(state as i16)
        .fetch_optional(connection)
        .await?;
    Ok(stored.map(|expires_at| Stored { expires_at }))
}

fn record(row: &SqliteRow) -> sqlx::Result<Record> {
    Ok(Record {
        state: State::from_sql(row.try_get("state")?),
        standing: Standing::from_sql(row.try_get("standing")?),
        owner: row.try_get("owner")?,
        fingerprint: super::fingerprint(
            row.try_get("fingerprint_version")?,
            row.try_get("fingerprint")?,
        )?,
        fingerprint_options: row.try_get("fingerprint_options")?,
        status: u16::try_from(row.try_get::<i32, _>("status")?).unwrap_or(500),
        headers: row
            .try_get::<Option<Vec<u8>>, _>("headers")?
            .map(Bytes::from),
        body: row.try_get::<Option<Vec<u8>>, _>("body")?.map(Bytes::from),
        sealed: row.try_get("sealed")?,
        resources: row.try_get("resources")?,
        expires_at: row.try_get("expires_at")?,
    })
}

/// SQLite has one code for all that is wrong with a statement.
pub(super) fn missing(error: &SqliteError) -> bool {
    use sqlx::error::DatabaseError;
    let says = error.message();
    ["no such table", "no such column"]
        .iter()
        .any(|what| says.starts_with(what))
        || says.contains(" has no column named ")
}

/// By primary code: extended codes hold it in their low byte.
pub(super) fn fault(error: &SqliteError) -> Fault {
    use sqlx::error::DatabaseError;
    let code: i32 = error
        .code()
        .and_then(|code| code.parse().ok())
        .unwrap_or_default();
    match code & 0xff {
        // SQLITE_BUSY, SQLITE_LOCKED: another process writes.
        5 | 6 => Fault::RunAgain,
        // SQLITE_CONSTRAINT
        19 => Fault::Constraint,
        _ => Fault::Store,
    }
}
