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
    Answer, Backend, Claim, Claimed, Completed, ErasedBatch, Fault, Isolation, Record, Standing,
    State, Stored, TransactionState,
};
use crate::scope::{RecordId, ScopeKey};

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

mod retention;

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

const LOOK: &str = concat!("SELECT ", columns!(), " FROM idem_keys WHERE id = ?");

macro_rules! takes_over {
    ($column:literal) => {
        concat!(
            $column,
            " = IF(retain_until <= ",
            now!(),
            ", VALUES(",
            $column,
            "), ",
            $column,
            "), "
        )
    };
}

/// Any isolation: an insert reads what is committed, not the snapshot. `retain_until` is assigned last,
/// because the assignments before it read its old value.
macro_rules! claim {
    ($before:literal, $after:expr) => {
        concat!(
            $before,
            "INSERT INTO idem_keys \
               (id, scope, operation, state, owner, fingerprint_version, fingerprint, \
                fingerprint_options, status, created_at, completed_at) \
             VALUES (?, ?, ?, 0, ?, ?, ?, ?, 0, ",
            now!(),
            ", 0) ON DUPLICATE KEY UPDATE ",
            takes_over!("scope"),
            takes_over!("operation"),
            takes_over!("owner"),
            takes_over!("fingerprint_version"),
            takes_over!("fingerprint"),
            takes_over!("fingerprint_options"),
            takes_over!("created_at"),
            "attempt = IF(retain_until <= ",
            now!(),
            ", attempt + 1, attempt), state = IF(retain_until <= ",
            now!(),
            ", 0, state), expires_at = IF(retain_until <= ",
            now!(),
            ", NULL, expires_at), retain_until = IF(retain_until <= ",
            now!(),
            ", NULL, retain_until) ",
            $after
        )
    };
}

const CLAIM_MARIADB: &str = claim!(
    "SET STATEMENT innodb_lock_wait_timeout = 0 FOR ",
    concat!("RETURNING ", columns!())
);
const CLAIM_MYSQL: &str = claim!("", "");
const CLAIM_MYSQL_LOOK: &str = concat!(
    "SELECT ",
    columns!(),
    " FROM idem_keys WHERE id = ? FOR UPDATE"
);

const COMPLETE: &str = "\
    UPDATE idem_keys SET state = 1, status = ?, headers = ?, body = ?, sealed = ?, resources = ?, \
       completed_at = ?, expires_at = ?, retain_until = ? \
     WHERE id = ? AND owner = ? AND state = 0";

/// In no transaction: takes over a record whose retention is over, or the `started` row that this very
/// request left by ending its transaction.
const REPLACE_ALONE: &str = concat!(
    "UPDATE idem_keys JOIN (SELECT ",
    now!(),
    " AS now) t SET scope = ?, operation = ?, owner = ?, fingerprint_version = ?, fingerprint = ?, \
       fingerprint_options = ?, status = ?, headers = ?, body = ?, sealed = ?, resources = ?, \
       state = ?, attempt = attempt + 1, completed_at = t.now, expires_at = t.now + ?, \
       retain_until = t.now + ? \
     WHERE id = ? AND (retain_until <= t.now OR (state = 0 AND owner = ?))"
);
const INSERT_ALONE: &str = concat!(
    "INSERT INTO idem_keys \
       (scope, operation, owner, fingerprint_version, fingerprint, fingerprint_options, status, \
        headers, body, sealed, resources, state, expires_at, retain_until, id, created_at, \
        completed_at) \
     VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ",
    now!(),
    " + ?, ",
    now!(),
    " + ?, ?, ",
    now!(),
    ", ",
    now!(),
    ")"
);

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
        let claimed = match session.flavour {
            Flavour::MariaDb => {
                bind_claim(sqlx::query(CLAIM_MARIADB), claim)
                    .fetch_one(&mut *connection)
                    .await
            }
            Flavour::MySql => claim_mysql(&mut *connection, claim).await,
        };
        let row = match claimed {
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
        let replaced = bind_alone(REPLACE_ALONE, claim, answer, state)
            .bind(claim.owner.as_slice())
            .execute(&mut *connection)
            .await?;
        if replaced.rows_affected() == 0 {
            match bind_alone(INSERT_ALONE, claim, answer, state)
                .execute(&mut *connection)
                .await
            {
                Err(sqlx::Error::Database(error)) if error.is_unique_violation() => {
                    return Ok(None);
                }
                inserted => inserted?,
            };
        }
        let expires_at: Option<Option<i64>> =
            sqlx::query_scalar("SELECT expires_at FROM idem_keys WHERE id = ? AND owner = ?")
                .bind(claim.id.as_bytes().as_slice())
                .bind(claim.owner.as_slice())
                .fetch_optional(connection)
                .await?;
        Ok(expires_at.map(|expires_at| Stored { expires_at }))
    }

    const MIGRATIONS: &'static [&'static str] = &[include_str!("mysql/0001_keys.sql")];

    async fn migrate(connection: &mut MySqlConnection) -> sqlx::Result<i64> {
        // DDL commits by itself here, so a lock of the session keeps the other processes waiting.
        let locked: Option<i64> = sqlx::query_scalar("SELECT GET_LOCK('idem_schema', 60)")
            .fetch_one(&mut *connection)
            .await?;
        if locked != Some(1) {
            return Err(sqlx::Error::Protocol(
                "another process has been migrating idem's schema for a minute".into(),
            ));
        }
        let migrated = apply(&mut *connection).await;
        connection
            .execute("SELECT RELEASE_LOCK('idem_schema')")
            .await?;
        migrated
    }

    async fn schema_version(connection: &mut MySqlConnection) -> sqlx::Result<Option<i64>> {
        let there: i64 = sqlx::query_scalar(
            "SELECT count(*) FROM information_schema.tables \
              WHERE table_schema = DATABASE() AND table_name = 'idem_schema'",
        )
        .fetch_one(&mut *connection)
        .await?;
        if there == 0 {
            return Ok(None);
        }
        sqlx::query_scalar("SELECT max(version) FROM idem_schema")
            .fetch_one(connection)
            .await
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

async fn apply(connection: &mut MySqlConnection) -> sqlx::Result<i64> {
    let mut version = MySql::schema_version(connection).await?.unwrap_or(0);
    for migration in MySql::MIGRATIONS
        .iter()
        .skip(usize::try_from(version).unwrap_or(0))
    {
        version += 1;
        connection.execute(AssertSqlSafe(*migration)).await?;
        sqlx::query("INSERT INTO idem_schema (version) VALUES (?)")
            .bind(version)
            .execute(&mut *connection)
            .await?;
    }
    Ok(version)
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

/// MySQL 8 has no wait of zero and no `RETURNING`. Untested: no such server was at hand.
async fn claim_mysql(
    connection: &mut MySqlConnection,
    claim: &Claim<'_>,
) -> sqlx::Result<MySqlRow> {
    connection
        .execute("SET SESSION innodb_lock_wait_timeout = 1")
        .await?;
    let inserted = bind_claim(sqlx::query(CLAIM_MYSQL), claim)
        .execute(&mut *connection)
        .await;
    connection
        .execute("SET SESSION innodb_lock_wait_timeout = DEFAULT")
        .await?;
    inserted?;
    sqlx::query(CLAIM_MYSQL_LOOK)
        .bind(claim.id.as_bytes().as_slice())
        .fetch_one(connection)
        .await
}

type Query<'q> = sqlx::query::Query<'q, MySql, sqlx::mysql::MySqlArguments>;

fn bind_claim<'q>(query: Query<'q>, claim: &'q Claim<'_>) -> Query<'q> {
    query
        .bind(claim.id.as_bytes().as_slice())
        .bind(claim.scope.as_str().as_bytes())
        .bind(claim.operation.as_bytes())
        .bind(claim.owner.as_slice())
        .bind(i16::from(claim.fingerprint.version()))
        .bind(claim.fingerprint.digest().as_slice())
        .bind(claim.fingerprint_options.map(str::as_bytes))
}

fn bind_alone<'q>(
    sql: &'static str,
    claim: &'q Claim<'_>,
    answer: &'q Answer<'_>,
    state: State,
) -> Query<'q> {
    let content = answer.content.as_ref();
    sqlx::query(sql)
        .bind(claim.scope.as_str().as_bytes())
        .bind(claim.operation.as_bytes())
        .bind(claim.owner.as_slice())
        .bind(i16::from(claim.fingerprint.version()))
        .bind(claim.fingerprint.digest().as_slice())
        .bind(claim.fingerprint_options.map(str::as_bytes))
        .bind(i32::from(answer.status))
        .bind(content.map(|content| content.headers))
        .bind(content.map(|content| content.body))
        .bind(content.is_some_and(|content| content.sealed))
        .bind(answer.resources.map(str::as_bytes))
        .bind(state as i16)
        .bind(answer.ttl_millis())
        .bind(answer.retention_millis())
        .bind(claim.id.as_bytes().as_slice())
}

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

fn number(error: &sqlx::Error) -> Option<u16> {
    match error {
        sqlx::Error::Database(error) => error
            .try_downcast_ref::<sqlx::mysql::MySqlDatabaseError>()
            .map(sqlx::mysql::MySqlDatabaseError::number),
        _ => None,
    }
}

fn lock_not_won(error: &sqlx::Error) -> bool {
    matches!(number(error), Some(1205 | 1213 | 1020 | 3572))
}

/// By number: SQLSTATE is too coarse here.
pub(super) fn fault(number: u16, code: Option<&str>) -> Fault {
    match (number, code) {
        // Lock wait time-out, deadlock, snapshot changed; Galera reports certification as a deadlock.
        (1205 | 1213 | 1020, _) | (_, Some("40001")) => Fault::RunAgain,
        (_, Some(code)) if code.starts_with("23") => Fault::Constraint,
        _ => Fault::Store,
    }
}
