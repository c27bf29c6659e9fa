//! MariaDB 10.11 and later, and MySQL 8 and later (whose statements differ where the server's flavour says so).
//!
//! The claim is an insert that finds an existing row without a deadlock (`ON DUPLICATE KEY UPDATE`) and
//! refuses at once when another transaction holds it; the answer is an update of the claimed row. A
//! savepoint that is set with the begin tells at the end whether the transaction is still the same.

use bytes::Bytes;
use futures_util::future::BoxFuture;
use sqlx::mysql::{MySqlConnection, MySqlRow};
use sqlx::{MySql, Pool, Row, SqlSafeStr};
use sqlx_core::transaction::TransactionManager;

use super::{
    Answer, Backend, Claim, Claimed, Completed, ErasedBatch, Isolation, Record, Standing, State,
    Stored, TransactionState,
};
use crate::backend::plain::plain;
use crate::guard::Breach;
use crate::scope::{RecordId, ScopeKey};

pub(super) use errors::{denied, fault, missing};
use errors::{lock_not_won, number};

type Manager = <MySql as sqlx::Database>::TransactionManager;

/// Whose server this is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flavour {
    /// Has `RETURNING` and `SET STATEMENT`.
    MariaDb,
    /// Has neither.
    MySql,
}

/// What is known of the server.
#[derive(Clone, Copy, Debug)]
pub struct Server {
    flavour: Flavour,
    /// See [`galera`].
    galera: bool,
}

/// One transaction.
#[derive(Debug)]
pub struct Session {
    flavour: Flavour,
    /// Which connection it is on, for the look at its end and for `KILL QUERY`; 0 where nobody asked.
    connection_id: u64,
    /// Another transaction had the key before this one began.
    is_held: bool,
    breach: Option<Breach>,
}

/// Milliseconds since 1970, whatever the session's time zone.
macro_rules! now {
    () => {
        "(TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6)) DIV 1000)"
    };
}

/// The rows of a table whose ids, in hexadecimal, are in a list that is bound, as `r`.
macro_rules! chosen {
    ($table:literal) => {
        concat!(
            "JSON_TABLE(?, '$[*]' COLUMNS (id CHAR(64) PATH '$')) AS chosen STRAIGHT_JOIN ",
            $table,
            " AS r FORCE INDEX (PRIMARY) ON r.id = UNHEX(chosen.id)"
        )
    };
}

macro_rules! columns {
    () => {
        concat!(
            "state, owner, attempt, fingerprint_version, fingerprint, fingerprint_options, status, \
               headers, body, sealed, resources, expires_at, CAST(",
            now!(),
            " AS SIGNED) AS now_ms, CAST(CONNECTION_ID() AS UNSIGNED) AS connection_id, \
             CASE WHEN expires_at IS NULL OR expires_at > ",
            now!(),
            " THEN 0 WHEN retain_until > ",
            now!(),
            " THEN 1 ELSE 2 END AS standing"
        )
    };
}

mod alone;
mod claim;
mod errors;
mod galera;
mod inbox;
mod migrations;
mod operations;
mod outbox;
mod retention;
mod transaction;

/// How long a statement waits for a row, for one statement of the framework's own.
mod wait {
    /// To a second, than which MySQL knows nothing shorter.
    pub(super) const SHORTEN: &str =
        "SET @idem_wait = @@innodb_lock_wait_timeout, SESSION innodb_lock_wait_timeout = 1";
    pub(super) const RESTORE: &str = "SET SESSION innodb_lock_wait_timeout = @idem_wait";
}

const LOOK: &str = concat!("SELECT ", columns!(), " FROM idem_keys WHERE id = ?");

/// The same, for the key's owner.
const LOOK_OWNED: &str = concat!(
    "SELECT ",
    columns!(),
    " FROM idem_keys WHERE id = ? AND scope = ?"
);

/// An update answers no rows, but the one number that `LAST_INSERT_ID` is given: by the database's clock.
const COMPLETE: &str = concat!(
    "UPDATE idem_keys JOIN (SELECT ",
    now!(),
    " AS now) t SET state = 1, status = ?, headers = ?, body = ?, sealed = ?, resources = ?, \
       completed_at = LAST_INSERT_ID(t.now), expires_at = t.now + ?, retain_until = t.now + ? \
     WHERE id = ? AND owner = ? AND state = 0"
);

impl Backend for MySql {
    const SINGLE_WRITER: bool = false;
    const LOCKS_GAPS: bool = true;
    type Session = Session;
    type Server = Server;

    async fn detect(connection: &mut MySqlConnection, _: bool, _: bool) -> sqlx::Result<Server> {
        let version: String = sqlx::query_scalar("SELECT VERSION()")
            .fetch_one(&mut *connection)
            .await?;
        let flavour = if version.contains("MariaDB") {
            Flavour::MariaDb
        } else {
            Flavour::MySql
        };
        Ok(Server {
            flavour,
            galera: galera::is_node(connection).await?,
        })
    }

    fn looks_last(server: &Server) -> bool {
        server.galera
    }

    async fn is_read_only(connection: &mut MySqlConnection) -> sqlx::Result<bool> {
        sqlx::query_scalar("SELECT @@GLOBAL.read_only <> 0")
            .fetch_one(connection)
            .await
    }

    fn encloses(server: &Server) -> bool {
        server.galera
    }

    async fn open_alone(connection: &mut MySqlConnection, _: &Server) -> sqlx::Result<()> {
        galera::wait_for_others(connection).await
    }

    async fn close_alone(
        connection: &mut MySqlConnection,
        _: &Server,
        done: bool,
    ) -> sqlx::Result<()> {
        if done {
            galera::wait_no_more(connection).await?;
        }
        Ok(())
    }

    async fn begin(
        connection: &mut MySqlConnection,
        server: &Server,
        isolation: Option<Isolation>,
        claim: Option<&Claim<'_>>,
    ) -> sqlx::Result<Session> {
        let (looked, is_held) = match (server.flavour, claim) {
            (Flavour::MySql, Some(claim)) => (true, claim::is_held(&mut *connection, claim).await?),
            _ => (false, false),
        };
        transaction::begin(connection, isolation, looked).await?;
        Ok(Session {
            flavour: server.flavour,
            connection_id: 0,
            is_held,
            breach: None,
        })
    }

    async fn claim(
        connection: &mut MySqlConnection,
        session: &mut Session,
        claim: &Claim<'_>,
    ) -> sqlx::Result<Claimed> {
        if session.is_held {
            return Ok(Claimed::InFlight);
        }
        let row = match claim::insert(&mut *connection, session.flavour, claim).await {
            // 1205: another transaction holds the row. 1213 and 1020: it has just changed.
            Err(error) if lock_not_won(&error) => return Ok(Claimed::InFlight),
            claimed => claimed?,
        };
        session.connection_id = row.try_get("connection_id")?;
        let record = record(&row)?;
        if record.owner == claim.owner && record.state == State::Started {
            let attempt: i32 = row.try_get("attempt")?;
            return Ok(Claimed::Won {
                took_over: attempt > 1,
            });
        }
        Ok(Claimed::Held(record))
    }

    async fn complete(
        connection: &mut MySqlConnection,
        session: &mut Session,
        claim: &Claim<'_>,
        answer: &Answer<'_>,
    ) -> sqlx::Result<Completed> {
        match transaction::state_at_commit(&mut *connection, session, claim).await? {
            TransactionState::Open => {}
            state => return Ok(Completed::NotOpen(state)),
        }
        let content = answer.content.as_ref();
        let done = sqlx::query(COMPLETE)
            .bind(i32::from(answer.status))
            .bind(content.map(|content| content.headers))
            .bind(content.map(|content| content.body))
            .bind(content.is_some_and(|content| content.sealed))
            .bind(answer.resources.map(str::as_bytes))
            .bind(answer.ttl_millis())
            .bind(answer.retention_millis())
            .bind(claim.id.as_bytes().as_slice())
            .bind(claim.owner.as_slice())
            .execute(connection)
            .await?;
        Ok(match done.rows_affected() {
            0 => Completed::Lost,
            _ => {
                let now = i64::try_from(done.last_insert_id()).unwrap_or(i64::MAX);
                Completed::Stored(Stored {
                    expires_at: answer.ttl_millis().map(|ttl| now.saturating_add(ttl)),
                })
            }
        })
    }

    async fn state(
        connection: &mut MySqlConnection,
        session: &mut Session,
        claim: Option<&Claim<'_>>,
    ) -> sqlx::Result<TransactionState> {
        transaction::state(connection, session, claim).await
    }

    fn breach(session: &Session) -> Option<Breach> {
        session.breach
    }

    async fn commit(connection: &mut MySqlConnection, _: &mut Session) -> sqlx::Result<()> {
        transaction::commit(connection).await
    }

    async fn roll_back(connection: &mut MySqlConnection) -> sqlx::Result<()> {
        transaction::roll_back(connection).await
    }

    const CHANGES_SETTINGS: bool = true;

    async fn identify(connection: &mut MySqlConnection, session: &mut Session) -> sqlx::Result<()> {
        session.connection_id = transaction::connection_id(connection).await?;
        Ok(())
    }

    async fn cancel(pool: &Pool<Self>, session: &Session) -> sqlx::Result<()> {
        transaction::cancel(pool, session.connection_id).await
    }

    /// The connection is closed then, and the server gives its number to no other.
    fn cancel_dropped(
        pool: &Pool<Self>,
        session: &Session,
    ) -> Option<BoxFuture<'static, sqlx::Result<()>>> {
        let (pool, connection_id) = (pool.clone(), session.connection_id);
        Some(Box::pin(async move {
            transaction::cancel(&pool, connection_id).await
        }))
    }

    async fn look(connection: &mut MySqlConnection, id: &RecordId) -> sqlx::Result<Option<Record>> {
        sqlx::query(LOOK)
            .bind(id.as_bytes().as_slice())
            .fetch_optional(connection)
            .await?
            .as_ref()
            .map(record)
            .transpose()
    }

    async fn settle_alone(
        connection: &mut MySqlConnection,
        claim: &Claim<'_>,
        state: State,
        answer: &Answer<'_>,
    ) -> sqlx::Result<Option<Stored>> {
        alone::settle(connection, claim, state, answer).await
    }

    const MIGRATIONS: &'static [&'static str] = &[
        include_str!("mysql/0001_keys.sql"),
        include_str!("mysql/0002_operations.sql"),
        include_str!("mysql/0003_outbox.sql"),
        include_str!("mysql/0004_inbox.sql"),
    ];

    async fn migrate(connection: &mut MySqlConnection) -> sqlx::Result<i64> {
        migrations::migrate(connection).await
    }

    async fn schema_version(connection: &mut MySqlConnection) -> sqlx::Result<Option<i64>> {
        migrations::schema_version(connection).await
    }

    const REPEATS_MIGRATIONS: bool = true;

    async fn missing_tables(connection: &mut MySqlConnection) -> sqlx::Result<Vec<&'static str>> {
        migrations::missing_tables(connection).await
    }

    async fn erase_answers(connection: &mut MySqlConnection, batch: u32) -> sqlx::Result<u64> {
        retention::erase_answers(connection, batch).await
    }

    async fn delete_expired(
        connection: &mut MySqlConnection,
        batch: u32,
        _: bool,
    ) -> sqlx::Result<u64> {
        retention::delete_expired(connection, batch).await
    }

    async fn erase_scope(
        connection: &mut MySqlConnection,
        scope: &ScopeKey,
        after: Option<&RecordId>,
        batch: u32,
    ) -> sqlx::Result<ErasedBatch> {
        retention::erase_scope(connection, scope, after, batch).await
    }
}

/// As [`plain`] has it; text is bytes here, whatever a connection's character set.
fn plain_bytes(text: &str) -> Vec<u8> {
    plain(text).into_owned().into_bytes()
}

/// READ COMMITTED locks the rows that it finds and no gap, which a new key's claim may want; and a row
/// that an attempt is replacing is skipped by the batch, not waited for. An error leaves the transaction
/// open: the caller closes the connection.
async fn begin_read_committed(connection: &mut MySqlConnection) -> sqlx::Result<()> {
    let statement = "SET TRANSACTION ISOLATION LEVEL READ COMMITTED; START TRANSACTION";
    Manager::begin(connection, Some(statement.into_sql_str())).await
}

type Query<'q> = sqlx::query::Query<'q, MySql, sqlx::mysql::MySqlArguments>;

fn record(row: &MySqlRow) -> sqlx::Result<Record> {
    Ok(Record {
        state: State::from_sql(row.try_get("state")?),
        standing: Standing::from_sql(row.try_get("standing")?),
        owner: row.try_get("owner")?,
        fingerprint: super::fingerprint(
            row.try_get("fingerprint_version")?,
            row.try_get("fingerprint")?,
        )?,
        fingerprint_options: text(row.try_get("fingerprint_options")?),
        status: u16::try_from(row.try_get::<i32, _>("status")?).unwrap_or(500),
        headers: row
            .try_get::<Option<Vec<u8>>, _>("headers")?
            .map(Bytes::from),
        body: row.try_get::<Option<Vec<u8>>, _>("body")?.map(Bytes::from),
        sealed: row.try_get("sealed")?,
        resources: text(row.try_get("resources")?),
        expires_at: row.try_get("expires_at")?,
    })
}

fn text(bytes: Option<Vec<u8>>) -> Option<String> {
    bytes.map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
}
