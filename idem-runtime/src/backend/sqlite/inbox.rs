//! The rows of processed messages.

use sqlx::Sqlite;
use sqlx::sqlite::SqliteConnection;

use super::super::inbox::{
    Entry, InboxStore, Processed, STATE_ENTERED, STATE_PROCESSED, STATE_UNKNOWN, Taken, entries,
};
use crate::scope::RecordId;

macro_rules! insert {
    ($replaces:expr) => {
        concat!(
            "INSERT INTO idem_inbox (id, consumer, source, owner, state, processed_at, expires_at) \
             SELECT ?1, ?2, ?3, ?4, ?5, t.now, t.now + ?6 FROM (SELECT ",
            now!(),
            " AS now) t WHERE true \
             ON CONFLICT (id) DO UPDATE SET consumer = excluded.consumer, source = excluded.source, \
                owner = excluded.owner, state = excluded.state, \
                processed_at = excluded.processed_at, expires_at = excluded.expires_at \
              WHERE idem_inbox.expires_at <= ",
            now!(),
            $replaces
        )
    };
}

/// In a transaction that is the only writer: what it finds is the truth, and nobody is waited for.
const TAKE: &str = insert!("");

/// In no transaction.
const KEEP_UNKNOWN: &str = insert!(" OR idem_inbox.owner = excluded.owner");

const PROCESSED: &str = concat!(
    "SELECT owner, state FROM idem_inbox WHERE id = ?1 AND expires_at > ",
    now!()
);

/// In no transaction.
const ENTER: &str = concat!(
    "INSERT INTO idem_inbox (id, consumer, source, owner, state, processed_at, expires_at) \
     SELECT ?1, ?2, ?3, ?4, ?5, t.now, t.now + ?6 FROM (SELECT ",
    now!(),
    " AS now) t WHERE true \
     ON CONFLICT (id) DO UPDATE SET owner = excluded.owner, processed_at = excluded.processed_at, \
        state = CASE WHEN idem_inbox.owner = excluded.owner THEN idem_inbox.state \
                     WHEN idem_inbox.expires_at <= excluded.processed_at THEN excluded.state \
                     ELSE min(idem_inbox.state + 1, 32767) END, \
        expires_at = excluded.expires_at \
     RETURNING state"
);

impl InboxStore for Sqlite {
    const ENDS_BY_ITSELF: bool = false;

    async fn take(connection: &mut SqliteConnection, entry: &Entry) -> sqlx::Result<Taken> {
        if insert(&mut *connection, TAKE, entry, STATE_PROCESSED).await? > 0 {
            return Ok(Taken::Won);
        }
        // It may have expired since: then the next look takes it.
        let held = Self::processed(connection, &entry.id).await?;
        Ok(held.map_or(Taken::InFlight, Taken::Held))
    }

    async fn processed(
        connection: &mut SqliteConnection,
        id: &RecordId,
    ) -> sqlx::Result<Option<Processed>> {
        let row: Option<(Vec<u8>, i16)> = sqlx::query_as(PROCESSED)
            .bind(id.as_bytes().as_slice())
            .fetch_optional(connection)
            .await?;
        Ok(row.map(|(owner, state)| Processed::from_sql(owner, state)))
    }

    async fn keep_unknown(connection: &mut SqliteConnection, entry: &Entry) -> sqlx::Result<()> {
        insert(connection, KEEP_UNKNOWN, entry, STATE_UNKNOWN)
            .await
            .map(drop)
    }

    async fn count_entry(connection: &mut SqliteConnection, entry: &Entry) -> sqlx::Result<u32> {
        let state: i16 = sqlx::query_scalar(ENTER)
            .bind(entry.id.as_bytes().as_slice())
            .bind(&entry.consumer)
            .bind(&entry.source)
            .bind(entry.owner.as_slice())
            .bind(STATE_ENTERED)
            .bind(entry.ttl_millis())
            .fetch_one(connection)
            .await?;
        Ok(entries(state))
    }

    async fn forget_entries(
        connection: &mut SqliteConnection,
        id: &RecordId,
        owner: Option<&[u8; 16]>,
    ) -> sqlx::Result<()> {
        sqlx::query("DELETE FROM idem_inbox WHERE id = ?1 AND (?2 IS NULL OR owner = ?2)")
            .bind(id.as_bytes().as_slice())
            .bind(owner.map(<[u8; 16]>::as_slice))
            .execute(connection)
            .await
            .map(drop)
    }

    async fn delete_expired_messages(
        connection: &mut SqliteConnection,
        batch: u32,
    ) -> sqlx::Result<u64> {
        sqlx::query(concat!(
            "DELETE FROM idem_inbox WHERE id IN ( \
                SELECT id FROM idem_inbox WHERE expires_at <= ",
            now!(),
            " LIMIT ?1)"
        ))
        .bind(i64::from(batch))
        .execute(connection)
        .await
        .map(|done| done.rows_affected())
    }
}

/// Returns how many rows were written.
async fn insert(
    connection: &mut SqliteConnection,
    statement: &'static str,
    entry: &Entry,
    state: i16,
) -> sqlx::Result<u64> {
    sqlx::query(statement)
        .bind(entry.id.as_bytes().as_slice())
        .bind(&entry.consumer)
        .bind(&entry.source)
        .bind(entry.owner.as_slice())
        .bind(state)
        .bind(entry.ttl_millis())
        .execute(connection)
        .await
        .map(|done| done.rows_affected())
}
