//! Batches that end records.

use sqlx::postgres::PgConnection;
use sqlx::{AssertSqlSafe, Row};
use sqlx_core::transaction::TransactionManager;

use super::super::ErasedBatch;
use super::Manager;
use crate::scope::{RecordId, ScopeKey};

pub(super) async fn erase_answers(connection: &mut PgConnection, batch: u32) -> sqlx::Result<u64> {
    sqlx::query(
        "UPDATE idem_keys SET headers = NULL, body = NULL, resources = NULL \
         WHERE ctid = ANY (ARRAY( \
            SELECT ctid FROM idem_keys \
             WHERE state = 1 AND expires_at <= now() AND retain_until > now() \
               AND (headers IS NOT NULL OR resources IS NOT NULL) \
             LIMIT $1 FOR UPDATE SKIP LOCKED))",
    )
    .bind(i64::from(batch))
    .execute(connection)
    .await
    .map(|done| done.rows_affected())
}

pub(super) async fn delete_expired(connection: &mut PgConnection, batch: u32) -> sqlx::Result<u64> {
    let ranges: Vec<(i64, i64)> = sqlx::query_as(
        "WITH gone AS (DELETE FROM idem_keys WHERE ctid = ANY (ARRAY( \
            SELECT ctid FROM idem_keys \
             WHERE state = 1 AND expires_at <= now() AND retain_until <= now() \
             LIMIT $1 FOR UPDATE SKIP LOCKED)) RETURNING ctid) \
         SELECT (ctid::text::point)[0]::bigint / 128 * 128 AS block_range, count(*) FROM gone \
          GROUP BY block_range ORDER BY count(*) DESC",
    )
    .bind(i64::from(batch))
    .fetch_all(&mut *connection)
    .await?;
    summarize_again(connection, &ranges).await;
    let deleted: i64 = ranges.iter().map(|(_, rows)| rows).sum();
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
                (SELECT id FROM page ORDER BY id DESC LIMIT 1)",
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

/// Block ranges that are summarized again after one batch, those with most deletions first.
const RANGES: usize = 16;

/// A block range index never forgets: once new records fill the space of deleted ones, each range still
/// holds the oldest expiry that it ever had, and every sweep reads the whole table. So a range is
/// summarized anew when its records were deleted. Only the table's owner may; without, and when a vacuum
/// has the table, sweeps stay right and become slow. The time limit is below `deadlock_timeout`, after
/// which waiting here would end an autovacuum.
async fn summarize_again(connection: &mut PgConnection, ranges: &[(i64, i64)]) {
    if ranges.is_empty() {
        return;
    }
    let blocks: Vec<String> = ranges
        .iter()
        .take(RANGES)
        .map(|(block, _)| block.to_string())
        .collect();
    // In a transaction already, a failure must be a part's alone.
    let nested = Manager::get_transaction_depth(connection) > 0;
    if nested && Manager::begin(&mut *connection, None).await.is_err() {
        return;
    }
    // By the simple protocol: one transaction, which nothing leaves open.
    let statements = format!(
        "SET LOCAL lock_timeout = '100ms'; \
         SELECT brin_desummarize_range('idem_keys_expires_at', block_range), \
                brin_summarize_range('idem_keys_expires_at', block_range) \
           FROM unnest('{{{}}}'::bigint[]) block_range",
        blocks.join(",")
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
