//! The rows of processed messages.

use sqlx::postgres::PgConnection;
use sqlx::{Executor, Postgres, Row};

use super::super::inbox::{
    Entry, InboxStore, Processed, STATE_ENTERED, STATE_PROCESSED, STATE_UNKNOWN, Taken, entries,
};
use super::{fused, retention};
use crate::scope::RecordId;

/// Any isolation. The lock is tried and not waited for, so that no connection is held by a duplicate of a message whose
/// consumer runs; the unique index is what makes it right. At REPEATABLE READ and above a row that the snapshot can't
/// see raises 40001.
macro_rules! take {
    ($lock:literal) => {
        concat!(
            "WITH l AS MATERIALIZED (SELECT ",
            $lock,
            " AS won), \
                 taken AS (INSERT INTO idem_inbox AS k \
                      (id, consumer, source, owner, state, processed_at, expires_at) \
                    SELECT $1, $2, $3, $4, $5, statement_timestamp(), \
                      statement_timestamp() + $6 * interval '1 millisecond' FROM l WHERE l.won \
                    ON CONFLICT (id) DO UPDATE SET consumer = excluded.consumer, source = excluded.source, \
                      owner = excluded.owner, state = excluded.state, \
                      processed_at = excluded.processed_at, expires_at = excluded.expires_at \
                     WHERE k.expires_at <= statement_timestamp() \
                    RETURNING 1) \
            SELECT l.won, EXISTS (SELECT FROM taken) FROM l"
        )
    };
}

const TAKE: &str = take!("pg_try_advisory_xact_lock($7, $8)");

/// Without the lock a duplicate waits for the row of the transaction that has it, as long as [`WAIT_FOR_ROW`] says.
const TAKE_UNLOCKED: &str = take!("true");

/// A message's row is inserted before its consumer runs: whoever waits for it has a connection as long as that takes.
const WAIT_FOR_ROW: &str = "SET LOCAL lock_timeout = '100ms'";
/// The consumer's own statements wait as they are set to.
const WAIT_AS_SET: &str = "SET LOCAL lock_timeout TO DEFAULT";
/// `lock_not_available`
const NOT_AVAILABLE: &str = "55P03";

/// Any isolation. Own statement, own snapshot.
const PROCESSED: &str =
    "SELECT owner, state FROM idem_inbox WHERE id = $1 AND expires_at > statement_timestamp()";

/// In no transaction. The row may be the attempt's own: its consumer committed it.
const KEEP_UNKNOWN: &str = "\
    INSERT INTO idem_inbox AS k (id, consumer, source, owner, state, processed_at, expires_at) \
    VALUES ($1, $2, $3, $4, $5, statement_timestamp(), \
       statement_timestamp() + $6 * interval '1 millisecond') \
    ON CONFLICT (id) DO UPDATE SET state = excluded.state, owner = excluded.owner, \
       processed_at = excluded.processed_at, expires_at = excluded.expires_at \
     WHERE k.expires_at <= statement_timestamp() OR k.owner = excluded.owner";

/// In no transaction.
const ENTER: &str = "\
    INSERT INTO idem_inbox AS k (id, consumer, source, owner, state, processed_at, expires_at) \
    VALUES ($1, $2, $3, $4, $5, statement_timestamp(), \
       statement_timestamp() + $6 * interval '1 millisecond') \
    ON CONFLICT (id) DO UPDATE SET owner = excluded.owner, processed_at = excluded.processed_at, \
       state = CASE WHEN k.owner = excluded.owner THEN k.state \
                    WHEN k.expires_at <= statement_timestamp() THEN excluded.state \
                    ELSE least(k.state::int + 1, 32767) END, \
       expires_at = excluded.expires_at \
    RETURNING state";

impl InboxStore for Postgres {
    const ENDS_BY_ITSELF: bool = false;

    async fn take(connection: &mut PgConnection, entry: &Entry) -> sqlx::Result<Taken> {
        let statement = entry.lock_namespace.map_or(TAKE_UNLOCKED, |_| TAKE);
        let mut query = sqlx::query(statement)
            .bind(entry.id.as_bytes().as_slice())
            .bind(&entry.consumer)
            .bind(&entry.source)
            .bind(entry.owner.as_slice())
            .bind(STATE_PROCESSED)
            .bind(entry.ttl_millis());
        if let Some(namespace) = entry.lock_namespace {
            query = query.bind(namespace).bind(entry.id.lock_word());
        }
        let waits = entry.lock_namespace.is_none();
        if waits {
            connection.execute(sqlx::raw_sql(WAIT_FOR_ROW)).await?;
        }
        let row = match query.fetch_one(&mut *connection).await {
            // The transaction is aborted, and rolled back.
            Err(error) if waits && fused::says(&error, NOT_AVAILABLE) => {
                return Ok(Taken::InFlight);
            }
            row => row?,
        };
        if waits {
            connection.execute(sqlx::raw_sql(WAIT_AS_SET)).await?;
        }
        let (won, taken): (bool, bool) = (row.try_get(0)?, row.try_get(1)?);
        if taken {
            return Ok(Taken::Won);
        }
        if !won {
            return Ok(Taken::InFlight);
        }
        // It may have expired, or been swept, since: then the next look takes it.
        let held = Self::processed(connection, &entry.id).await?;
        Ok(held.map_or(Taken::InFlight, Taken::Held))
    }

    async fn processed(
        connection: &mut PgConnection,
        id: &RecordId,
    ) -> sqlx::Result<Option<Processed>> {
        let row: Option<(Vec<u8>, i16)> = sqlx::query_as(PROCESSED)
            .bind(id.as_bytes().as_slice())
            .fetch_optional(connection)
            .await?;
        Ok(row.map(|(owner, state)| Processed::from_sql(owner, state)))
    }

    async fn keep_unknown(connection: &mut PgConnection, entry: &Entry) -> sqlx::Result<()> {
        sqlx::query(KEEP_UNKNOWN)
            .bind(entry.id.as_bytes().as_slice())
            .bind(&entry.consumer)
            .bind(&entry.source)
            .bind(entry.owner.as_slice())
            .bind(STATE_UNKNOWN)
            .bind(entry.ttl_millis())
            .execute(connection)
            .await
            .map(drop)
    }

    async fn count_entry(connection: &mut PgConnection, entry: &Entry) -> sqlx::Result<u32> {
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
        connection: &mut PgConnection,
        id: &RecordId,
        owner: Option<&[u8; 16]>,
    ) -> sqlx::Result<()> {
        sqlx::query("DELETE FROM idem_inbox WHERE id = $1 AND ($2::bytea IS NULL OR owner = $2)")
            .bind(id.as_bytes().as_slice())
            .bind(owner.map(<[u8; 16]>::as_slice))
            .execute(connection)
            .await
            .map(drop)
    }

    async fn delete_expired_messages(
        connection: &mut PgConnection,
        batch: u32,
    ) -> sqlx::Result<u64> {
        let delete = sqlx::query(
            // A row of a partitioned table has its place in its part alone: the part counts too.
            "WITH over AS MATERIALIZED ( \
                SELECT tableoid, ctid FROM idem_inbox WHERE expires_at <= now() \
                 LIMIT $1 FOR UPDATE SKIP LOCKED) \
             DELETE FROM idem_inbox WHERE ctid = ANY (ARRAY(SELECT ctid FROM over)) \
                AND (tableoid, ctid) IN (SELECT tableoid, ctid FROM over)",
        )
        .bind(i64::from(batch));
        retention::by_index(connection, async |connection: &mut PgConnection| {
            delete.execute(connection).await
        })
        .await
        .map(|done| done.rows_affected())
    }
}
