//! Batches that end records.
//!
//! Rows are found by their place (`ctid`), which needs no index. In a partitioned table a place is one of a part, so that the
//! part (`tableoid`) counts too: the rows at that place in other parts are other records, and not over.

use std::ops::AsyncFnOnce;

use sqlx::postgres::PgConnection;
use sqlx::{AssertSqlSafe, Executor, Row, SqlSafeStr};
use sqlx_core::transaction::TransactionManager;

use super::super::ErasedBatch;
use super::Manager;
use crate::scope::{RecordId, ScopeKey};

/// Runs a batch that looks for its rows by an index. Of a few among many the planner would rather read the table from its
/// beginning: it expects to meet them soon, and reads all that earlier batches have left there, or all of it where nothing is over
/// any more and the statistics are old. In no transaction; whoever drops this must close the connection.
pub(super) async fn by_index<T>(
    connection: &mut PgConnection,
    batch: impl AsyncFnOnce(&mut PgConnection) -> sqlx::Result<T>,
) -> sqlx::Result<T> {
    const SET: &str = "SET LOCAL enable_seqscan = off";
    const BEGIN: &str = "BEGIN; SET LOCAL enable_seqscan = off";
    if Manager::get_transaction_depth(connection) > 0 {
        connection.execute(sqlx::raw_sql(SET)).await?;
        return batch(connection).await;
    }
    Manager::begin(&mut *connection, Some(BEGIN.into_sql_str())).await?;
    let done = batch(&mut *connection).await;
    let ended = match done {
        Ok(_) => Manager::commit(connection).await,
        Err(_) => Manager::rollback(connection).await,
    };
    done.and_then(|done| ended.map(|()| done))
}

pub(super) async fn erase_answers(connection: &mut PgConnection, batch: u32) -> sqlx::Result<u64> {
    let erase = sqlx::query(
        "WITH over AS MATERIALIZED ( \
            SELECT tableoid, ctid FROM idem_keys \
             WHERE state = 1 AND expires_at <= now() AND retain_until > now() \
               AND (headers IS NOT NULL OR resources IS NOT NULL) \
             LIMIT $1 FOR UPDATE SKIP LOCKED) \
         UPDATE idem_keys SET headers = NULL, body = NULL, resources = NULL \
          WHERE ctid = ANY (ARRAY(SELECT ctid FROM over)) \
            AND (tableoid, ctid) IN (SELECT tableoid, ctid FROM over)",
    )
    .bind(i64::from(batch));
    by_index(connection, async |connection: &mut PgConnection| {
        erase.execute(connection).await
    })
    .await
    .map(|done| done.rows_affected())
}

pub(super) async fn delete_expired(
    connection: &mut PgConnection,
    batch: u32,
    hints: bool,
) -> sqlx::Result<u64> {
    let delete = sqlx::query_as(
        "WITH over AS MATERIALIZED ( \
            SELECT tableoid, ctid FROM idem_keys \
             WHERE state = 1 AND expires_at <= now() AND retain_until <= now() \
             LIMIT $1 FOR UPDATE SKIP LOCKED), \
          gone AS (DELETE FROM idem_keys \
             WHERE ctid = ANY (ARRAY(SELECT ctid FROM over)) \
               AND (tableoid, ctid) IN (SELECT tableoid, ctid FROM over) \
            RETURNING tableoid, ctid) \
         SELECT tableoid::bigint AS part, (ctid::text::point)[0]::bigint / 128 * 128 AS block_range, \
                count(*) AS rows FROM gone \
          GROUP BY part, block_range ORDER BY count(*) DESC",
    )
    .bind(i64::from(batch));
    let ranges: Vec<Range> = by_index(connection, async |connection: &mut PgConnection| {
        delete.fetch_all(connection).await
    })
    .await?;
    if hints {
        summarize_again(connection, &ranges).await;
    }
    let deleted: i64 = ranges.iter().map(|range| range.rows).sum();
    Ok(u64::try_from(deleted).unwrap_or(0))
}

pub(super) async fn erase_scope(
    connection: &mut PgConnection,
    scope: &ScopeKey,
    after: Option<&RecordId>,
    batch: u32,
) -> sqlx::Result<ErasedBatch> {
    let row = sqlx::query(
        "WITH page AS (SELECT id, scope, state FROM idem_keys WHERE id > $1 ORDER BY id LIMIT $3), \
              gone AS (DELETE FROM idem_keys k USING page p \
                        WHERE k.id = p.id AND p.scope = $2 AND k.state = 1 RETURNING 1) \
         SELECT (SELECT count(*) FROM gone), \
                (SELECT count(*) FROM page WHERE scope = $2 AND state <> 1), \
                (SELECT id FROM page ORDER BY id OFFSET $3 - 1 LIMIT 1)",
    )
    .bind(after.map_or(&[][..], |id| id.as_bytes().as_slice()))
    .bind(scope.as_str())
    .bind(i64::from(batch))
    .fetch_one(connection)
    .await?;
    let last: Option<Vec<u8>> = row.try_get(2)?;
    Ok(ErasedBatch {
        erased: u64::try_from(row.try_get::<i64, _>(0)?).unwrap_or(0),
        kept: u64::try_from(row.try_get::<i64, _>(1)?).unwrap_or(0),
        last: last.and_then(|id| RecordId::from_slice(&id)),
    })
}

/// Rows that are gone from a range of blocks.
#[derive(sqlx::FromRow)]
struct Range {
    /// The table, or the part of it, by its number.
    part: i64,
    block_range: i64,
    rows: i64,
}

/// Block ranges that are summarized again after one batch, those with most deletions first.
const RANGES: usize = 16;

/// A block range index never forgets: once new records fill the space of deleted ones, each range still
/// holds the oldest expiry that it ever had, and every sweep reads the whole table. So a range is
/// summarized anew when its records were deleted. Only the table's owner may; without, and when a vacuum
/// has the table, sweeps stay right and become slow. The time limit is below `deadlock_timeout`, after
/// which waiting here would end an autovacuum.
async fn summarize_again(connection: &mut PgConnection, ranges: &[Range]) {
    if ranges.is_empty() {
        return;
    }
    let places: Vec<String> = ranges
        .iter()
        .take(RANGES)
        .map(
            |Range {
                 part, block_range, ..
             }| format!("({part}, {block_range})"),
        )
        .collect();
    // In a transaction already, a failure must be a part's alone.
    let nested = Manager::get_transaction_depth(connection) > 0;
    if nested && Manager::begin(&mut *connection, None).await.is_err() {
        return;
    }
    // By the simple protocol: one transaction, which nothing leaves open.
    let statements = format!(
        "SET LOCAL lock_timeout = '100ms'; \
         SELECT brin_desummarize_range(i.indexrelid, r.block_range), \
                brin_summarize_range(i.indexrelid, r.block_range) \
           FROM (VALUES {}) r (part, block_range) \
           JOIN pg_index i ON i.indrelid = r.part::oid \
           JOIN pg_class c ON c.oid = i.indexrelid \
           JOIN pg_am a ON a.oid = c.relam AND a.amname = 'brin'",
        places.join(",")
    );
    let done = sqlx::raw_sql(AssertSqlSafe(statements))
        .execute(&mut *connection)
        .await;
    if nested {
        let ended = match done {
            Ok(_) => Manager::commit(connection).await,
            Err(_) => Manager::rollback(connection).await,
        };
        if let Err(error) = ended {
            tracing::debug!(target: "idem", %error, "a savepoint could not be ended");
        }
    }
    if let Err(error) = done {
        tracing::debug!(target: "idem", %error, "the index of expiries could not be summarized again");
    }
}
