//! The rows of processed messages.

use sqlx::mysql::{MySqlConnection, MySqlRow};
use sqlx::{Executor, MySql, Row};
use sqlx_core::transaction::TransactionManager;

use super::super::inbox::{
    Entry, InboxStore, Processed, STATE_ENTERED, STATE_PROCESSED, STATE_UNKNOWN, Taken, entries,
};
use super::retention::execute_on;
use super::{Manager, begin_read_committed, lock_not_won, number, wait};
use crate::scope::RecordId;

macro_rules! takes_over {
    ($column:literal, $condition:expr) => {
        concat!(
            $column,
            " = IF(",
            $condition,
            ", VALUES(",
            $column,
            "), ",
            $column,
            ")"
        )
    };
}

/// Any isolation: an insert reads what is committed, not the snapshot. What the condition reads is assigned last.
macro_rules! insert {
    ($before:literal, $condition:expr, $after:literal) => {
        concat!(
            $before,
            "INSERT INTO idem_inbox (id, consumer, source, owner, state, processed_at, expires_at) \
             VALUES (?, ?, ?, ?, ?, ",
            now!(),
            ", ",
            now!(),
            " + ?) ON DUPLICATE KEY UPDATE ",
            takes_over!("consumer", $condition),
            ", ",
            takes_over!("source", $condition),
            ", ",
            takes_over!("state", $condition),
            ", ",
            takes_over!("processed_at", $condition),
            ", ",
            takes_over!("owner", $condition),
            ", ",
            takes_over!("expires_at", $condition),
            $after
        )
    };
}

macro_rules! expired {
    () => {
        concat!("expires_at <= ", now!())
    };
}

const TAKE_MARIADB: &str = insert!(
    "SET STATEMENT innodb_lock_wait_timeout = 0 FOR ",
    expired!(),
    " RETURNING owner, state"
);
const TAKE_MYSQL: &str = insert!("", expired!(), "");
const TAKE_MYSQL_LOOK: &str = "SELECT owner, state FROM idem_inbox WHERE id = ? FOR UPDATE";

const PROCESSED: &str = concat!(
    "SELECT owner, state FROM idem_inbox WHERE id = ? AND expires_at > ",
    now!()
);

const DELETE: &str = concat!("DELETE r FROM ", chosen!("idem_inbox"));

/// In no transaction.
const KEEP_UNKNOWN: &str = insert!("", concat!(expired!(), " OR owner = VALUES(owner)"), "");

/// In no transaction. What the condition reads is assigned last.
const ENTER: &str = concat!(
    "INSERT INTO idem_inbox (id, consumer, source, owner, state, processed_at, expires_at) \
     VALUES (?, ?, ?, ?, ?, ",
    now!(),
    ", ",
    now!(),
    " + ?) ON DUPLICATE KEY UPDATE state = IF(owner = VALUES(owner), state, IF(",
    expired!(),
    ", VALUES(state), LEAST(state + 1, 32767))), owner = VALUES(owner), \
     processed_at = VALUES(processed_at), expires_at = VALUES(expires_at)"
);

impl InboxStore for MySql {
    const ENDS_BY_ITSELF: bool = true;

    async fn take(connection: &mut MySqlConnection, entry: &Entry) -> sqlx::Result<Taken> {
        let query = bind(TAKE_MARIADB, entry, STATE_PROCESSED);
        let row = match query.fetch_one(&mut *connection).await {
            // ER_PARSE_ERROR: this is MySQL, which has no `RETURNING`.
            Err(error) if number(&error) == Some(1064) => take_mysql(connection, entry).await,
            row => row,
        };
        let row = match row {
            Err(error) if lock_not_won(&error) => return Ok(Taken::InFlight),
            row => processed(&row?)?,
        };
        Ok(if row.owner == entry.owner {
            Taken::Won
        } else {
            Taken::Held(row)
        })
    }

    async fn processed(
        connection: &mut MySqlConnection,
        id: &RecordId,
    ) -> sqlx::Result<Option<Processed>> {
        let row = sqlx::query(PROCESSED)
            .bind(id.as_bytes().as_slice())
            .fetch_optional(connection)
            .await?;
        row.as_ref().map(processed).transpose()
    }

    async fn keep_unknown(connection: &mut MySqlConnection, entry: &Entry) -> sqlx::Result<()> {
        bind(KEEP_UNKNOWN, entry, STATE_UNKNOWN)
            .execute(connection)
            .await
            .map(drop)
    }

    async fn count_entry(connection: &mut MySqlConnection, entry: &Entry) -> sqlx::Result<u32> {
        bind(ENTER, entry, STATE_ENTERED)
            .execute(&mut *connection)
            .await?;
        let state: i16 = sqlx::query_scalar("SELECT state FROM idem_inbox WHERE id = ?")
            .bind(entry.id.as_bytes().as_slice())
            .fetch_one(connection)
            .await?;
        Ok(entries(state))
    }

    async fn forget_entries(
        connection: &mut MySqlConnection,
        id: &RecordId,
        owner: Option<&[u8; 16]>,
    ) -> sqlx::Result<()> {
        sqlx::query("DELETE FROM idem_inbox WHERE id = ? AND owner = COALESCE(?, owner)")
            .bind(id.as_bytes().as_slice())
            .bind(owner.map(<[u8; 16]>::as_slice))
            .execute(connection)
            .await
            .map(drop)
    }

    async fn delete_expired_messages(
        connection: &mut MySqlConnection,
        batch: u32,
    ) -> sqlx::Result<u64> {
        begin_read_committed(&mut *connection).await?;
        let ids = sqlx::query_scalar(concat!(
            "SELECT id FROM idem_inbox WHERE expires_at <= ",
            now!(),
            " LIMIT ? FOR UPDATE SKIP LOCKED"
        ))
        .bind(batch)
        .fetch_all(&mut *connection)
        .await?;
        let deleted = execute_on(&mut *connection, DELETE, &ids).await?;
        Manager::commit(connection).await?;
        Ok(deleted)
    }
}

/// MySQL has no wait of zero: it waits a second for another consumer that has the message.
async fn take_mysql(connection: &mut MySqlConnection, entry: &Entry) -> sqlx::Result<MySqlRow> {
    connection.execute(wait::SHORTEN).await?;
    let inserted = bind(TAKE_MYSQL, entry, STATE_PROCESSED)
        .execute(&mut *connection)
        .await;
    connection.execute(wait::RESTORE).await?;
    inserted?;
    sqlx::query(TAKE_MYSQL_LOOK)
        .bind(entry.id.as_bytes().as_slice())
        .fetch_one(connection)
        .await
}

fn bind<'q>(statement: &'static str, entry: &'q Entry, state: i16) -> super::Query<'q> {
    sqlx::query(statement)
        .bind(entry.id.as_bytes().as_slice())
        .bind(entry.consumer.as_bytes())
        .bind(entry.source.as_bytes())
        .bind(entry.owner.as_slice())
        .bind(state)
        .bind(entry.ttl_millis())
}

fn processed(row: &MySqlRow) -> sqlx::Result<Processed> {
    Ok(Processed::from_sql(
        row.try_get("owner")?,
        row.try_get("state")?,
    ))
}
