//! MariaDB 10.11 and later, and MySQL 8 (whose statements differ where the server's flavour says so).
//!
//! The claim is an insert that finds an existing row without a deadlock (`ON DUPLICATE KEY UPDATE`) and
//! refuses at once when another transaction holds it; the answer is an update of the claimed row. A
//! savepoint that is set with the begin tells at the end whether the transaction is still the same.

use std::time::Instant;

use bytes::Bytes;
use sqlx::mysql::{MySqlConnection, MySqlRow};
use sqlx::{AssertSqlSafe, Executor, MySql, Pool, Row, SqlSafeStr};
use sqlx_core::transaction::TransactionManager;

use super::{
    Answer, Backend, Claim, Claimed, Completed, ErasedBatch, Isolation, Record, Standing, State,
    Stored, TransactionState,
};
use crate::backend::plain::plain;
use crate::scope::{RecordId, ScopeKey};

pub(super) use errors::fault;
use errors::{lock_not_won, number};

type Manager = <MySql as sqlx::Database>::TransactionManager;

/// Whose server this is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flavour {
    /// Has `RETURNING` and `SET STATEMENT`.
    MariaDb,
    /// Has neither.
    MySql,
}

/// One transaction.
#[derive(Debug)]
pub struct Session {
    flavour: Flavour,
    connection_id: u64,
    /// The database's clock at the claim, and ours: their sum gives the expiry without another statement.
    claimed: Option<(i64, Instant)>,
}

impl Session {
    fn now(&self) -> i64 {
        self.claimed.map_or(0, |(database, ours)| {
            database.saturating_add(super::millis(ours.elapsed()))
        })
    }
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
mod inbox;
mod migrations;
mod operations;
mod outbox;
mod retention;

const LOOK: &str = concat!("SELECT ", columns!(), " FROM idem_keys WHERE id = ?");

/// The same, for the key's owner.
const LOOK_OWNED: &str = concat!(
    "SELECT ",
    columns!(),
    " FROM idem_keys WHERE id = ? AND scope = ?"
);

const COMPLETE: &str = "\
    UPDATE idem_keys SET state = 1, status = ?, headers = ?, body = ?, sealed = ?, resources = ?, \
       completed_at = ?, expires_at = ?, retain_until = ? \
     WHERE id = ? AND owner = ? AND state = 0";

impl Backend for MySql {
    const SINGLE_WRITER: bool = false;
    const LAST_LOOK: bool = false;
    type Session = Session;
    type Server = Flavour;

    async fn detect(connection: &mut MySqlConnection) -> sqlx::Result<Flavour> {
        let version: String = sqlx::query_scalar("SELECT VERSION()")
            .fetch_one(connection)
            .await?;
        Ok(if version.contains("MariaDB") {
            Flavour::MariaDb
        } else {
            Flavour::MySql
        })
    }

    async fn begin(
        connection: &mut MySqlConnection,
        server: &Flavour,
        isolation: Option<Isolation>,
    ) -> sqlx::Result<Session> {
        let statement = match isolation {
            None => "START TRANSACTION; SAVEPOINT idem_claim".into_sql_str(),
            Some(level) => AssertSqlSafe(format!(
                "SET TRANSACTION ISOLATION LEVEL {}; START TRANSACTION; SAVEPOINT idem_claim",
                level.as_sql()
            ))
            .into_sql_str(),
        };
        Manager::begin(connection, Some(statement)).await?;
        Ok(Session {
            flavour: *server,
            connection_id: 0,
            claimed: None,
        })
    }

    async fn claim(
        connection: &mut MySqlConnection,
        session: &mut Session,
        claim: &Claim<'_>,
    ) -> sqlx::Result<Claimed> {
        let row = match claim::insert(&mut *connection, session.flavour, claim).await {
            // 1205: another transaction holds the row. 1213 and 1020: it has just changed.
            Err(error) if lock_not_won(&error) => return Ok(Claimed::InFlight),
            claimed => claimed?,
        };
        session.claimed = Some((row.try_get("now_ms")?, Instant::now()));
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
        if !same_transaction(&mut *connection).await? {
            // Whatever the handler wrote after that committed by itself.
            return Ok(Completed::NotOpen(TransactionState::Ended));
        }
        let now = session.now();
        let expires_at = answer.ttl_millis().map(|ttl| now.saturating_add(ttl));
        let content = answer.content.as_ref();
        let done = sqlx::query(COMPLETE)
            .bind(i32::from(answer.status))
            .bind(content.map(|content| content.headers))
            .bind(content.map(|content| content.body))
            .bind(content.is_some_and(|content| content.sealed))
            .bind(answer.resources.map(str::as_bytes))
            .bind(now)
            .bind(expires_at)
            .bind(
                answer
                    .retention_millis()
                    .map(|keep| now.saturating_add(keep)),
            )
            .bind(claim.id.as_bytes().as_slice())
            .bind(claim.owner.as_slice())
            .execute(connection)
            .await?;
        Ok(match done.rows_affected() {
            0 => Completed::Lost,
            _ => Completed::Stored(Stored { expires_at }),
        })
    }

    async fn state(
        connection: &mut MySqlConnection,
        session: &mut Session,
        claim: Option<&Claim<'_>>,
    ) -> sqlx::Result<TransactionState> {
        if same_transaction(&mut *connection).await? {
            return Ok(TransactionState::Open);
        }
        // Another connection in our place: what the handler wrote through it committed by itself.
        let this: u64 = sqlx::query_scalar("SELECT CONNECTION_ID()")
            .fetch_one(&mut *connection)
            .await?;
        if session.connection_id != 0 && this != session.connection_id {
            return Ok(TransactionState::Ended);
        }
        // A commit made the claim durable; a deadlock, which rolls everything back, did not.
        let Some(claim) = claim else {
            return Ok(TransactionState::Ended);
        };
        Ok(match Self::look(connection, claim.id).await? {
            Some(record) if record.owner == claim.owner => TransactionState::Ended,
            _ => TransactionState::RolledBack,
        })
    }

    async fn commit(connection: &mut MySqlConnection, _: &mut Session) -> sqlx::Result<()> {
        Manager::commit(connection).await
    }

    async fn cancel(pool: &Pool<Self>, session: &Session) -> sqlx::Result<()> {
        if session.connection_id != 0 {
            let kill = format!("KILL QUERY {}", session.connection_id);
            pool.execute(AssertSqlSafe(kill)).await?;
        }
        Ok(())
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

    async fn erase_answers(connection: &mut MySqlConnection, batch: u32) -> sqlx::Result<u64> {
        retention::erase_answers(connection, batch).await
    }

    async fn delete_expired(connection: &mut MySqlConnection, batch: u32) -> sqlx::Result<u64> {
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

/// Whether the savepoint of the begin is still there; it goes with its transaction, however that
/// ends. Asked once: the answer takes the savepoint away.
async fn same_transaction(connection: &mut MySqlConnection) -> sqlx::Result<bool> {
    match connection.execute("RELEASE SAVEPOINT idem_claim").await {
        Ok(_) => Ok(true),
        // ER_SP_DOES_NOT_EXIST
        Err(error) if number(&error) == Some(1305) => Ok(false),
        Err(error) => Err(error),
    }
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
