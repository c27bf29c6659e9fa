//! Batches that end records.

use sqlx::sqlite::SqliteConnection;

use super::super::ErasedBatch;
use super::super::types::kept;
use crate::scope::{RecordId, ScopeKey};

pub(super) async fn erase_answers(
    connection: &mut SqliteConnection,
    batch: u32,
) -> sqlx::Result<u64> {
    sqlx::query(concat!(
        "UPDATE idem_keys SET headers = NULL, body = NULL, resources = NULL WHERE id IN ( \
            SELECT id FROM idem_keys WHERE state = 1 AND expires_at <= ",
        now!(),
        " AND retain_until > ",
        now!(),
        " AND (headers IS NOT NULL OR resources IS NOT NULL) LIMIT ?1)"
    ))
    .bind(i64::from(batch))
    .execute(connection)
    .await
    .map(|done| done.rows_affected())
}

pub(super) async fn delete_expired(
    connection: &mut SqliteConnection,
    batch: u32,
) -> sqlx::Result<u64> {
    sqlx::query(concat!(
        "DELETE FROM idem_keys WHERE id IN ( \
            SELECT id FROM idem_keys WHERE state = 1 AND expires_at <= ",
        now!(),
        " AND retain_until <= ",
        now!(),
        " LIMIT ?1)"
    ))
    .bind(i64::from(batch))
    .execute(connection)
    .await
    .map(|done| done.rows_affected())
}

pub(super) async fn erase_scope(
    connection: &mut SqliteConnection,
    scope: &ScopeKey,
    after: Option<&RecordId>,
    batch: u32,
) -> sqlx::Result<ErasedBatch> {
    let page: Vec<(Vec<u8>, String, i16)> =
        sqlx::query_as("SELECT id, scope, state FROM idem_keys WHERE id > ?1 ORDER BY id LIMIT ?2")
            .bind(after.map_or(&[][..], |id| id.as_bytes().as_slice()))
            .bind(i64::from(batch))
            .fetch_all(&mut *connection)
            .await?;
    let Some((last, ..)) = page.last() else {
        return Ok(ErasedBatch {
            erased: 0,
            kept: 0,
            last: None,
        });
    };
    let done = sqlx::query(
        "DELETE FROM idem_keys WHERE id > ?1 AND id <= ?2 AND scope = ?3 AND state = 1",
    )
    .bind(after.map_or(&[][..], |id| id.as_bytes().as_slice()))
    .bind(last)
    .bind(scope.as_str())
    .execute(connection)
    .await?;
    Ok(ErasedBatch {
        erased: done.rows_affected(),
        kept: kept(
            page.iter()
                .map(|(_, owner, state)| (owner.as_bytes(), *state)),
            scope,
        ),
        last: page
            .get(batch as usize - 1)
            .and_then(|(id, ..)| RecordId::from_slice(id)),
    })
}
