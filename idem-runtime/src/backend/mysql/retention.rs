//! Batches that never wait for a request, and that no request waits for.
//!
//! Each looks for its rows and locks them, then writes by primary key: one after the other, whatever the optimizer would rather
//! do. Of a small table it reads all rows for a list of keys, and a `DELETE` locks what it reads, that is, waits for every request.

use sqlx::mysql::MySqlConnection;
use sqlx::{MySql, QueryBuilder};
use sqlx_core::transaction::TransactionManager;

use super::super::types::kept as kept_of;
use super::super::{ErasedBatch, State};
use super::{Manager, begin_read_committed};
use crate::scope::{RecordId, ScopeKey};

/// How many ids one statement is given.
const IDS: usize = 1000;

const ERASE: &str = concat!(
    "UPDATE ",
    chosen!("idem_keys"),
    " SET r.headers = NULL, r.body = NULL, r.resources = NULL"
);
const DELETE: &str = concat!("DELETE r FROM ", chosen!("idem_keys"));

pub(super) async fn erase_answers(
    connection: &mut MySqlConnection,
    batch: u32,
) -> sqlx::Result<u64> {
    begin_read_committed(&mut *connection).await?;
    let ids = sqlx::query_scalar(concat!(
        "SELECT id FROM idem_keys WHERE state = 1 AND expires_at <= ",
        now!(),
        " AND retain_until > ",
        now!(),
        " AND (headers IS NOT NULL OR resources IS NOT NULL) LIMIT ? FOR UPDATE SKIP LOCKED"
    ))
    .bind(batch)
    .fetch_all(&mut *connection)
    .await?;
    let erased = execute_on(&mut *connection, ERASE, &ids).await?;
    Manager::commit(connection).await?;
    Ok(erased)
}

pub(super) async fn delete_expired(
    connection: &mut MySqlConnection,
    batch: u32,
) -> sqlx::Result<u64> {
    begin_read_committed(&mut *connection).await?;
    let ids = sqlx::query_scalar(concat!(
        "SELECT id FROM idem_keys WHERE state = 1 AND expires_at <= ",
        now!(),
        " AND retain_until <= ",
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

pub(super) async fn erase_scope(
    connection: &mut MySqlConnection,
    scope: &ScopeKey,
    after: Option<&RecordId>,
    batch: u32,
) -> sqlx::Result<ErasedBatch> {
    let page: Vec<(Vec<u8>, Vec<u8>, i16)> =
        sqlx::query_as("SELECT id, scope, state FROM idem_keys WHERE id > ? ORDER BY id LIMIT ?")
            .bind(after.map_or(&[][..], |id| id.as_bytes().as_slice()))
            .bind(batch)
            .fetch_all(&mut *connection)
            .await?;
    let mut kept = kept_of(
        page.iter().map(|(_, owner, state)| (&owner[..], *state)),
        scope,
    );
    let last = page
        .get(batch as usize - 1)
        .and_then(|(id, ..)| RecordId::from_slice(id));
    let completed: Vec<Vec<u8>> = page
        .into_iter()
        .filter(|(_, owner, state)| {
            owner == scope.as_str().as_bytes() && State::from_sql(*state) == State::Completed
        })
        .map(|(id, ..)| id)
        .collect();
    let mut erased = 0;
    if !completed.is_empty() {
        begin_read_committed(&mut *connection).await?;
        let free = select_on(
            &mut *connection,
            &completed,
            scope,
            " AND state = 1 FOR UPDATE SKIP LOCKED",
        )
        .await?;
        erased = execute_on(&mut *connection, DELETE, &free).await?;
        if free.len() < completed.len() {
            // Held by an attempt, or swept meanwhile.
            let left = select_on(&mut *connection, &completed, scope, "").await?;
            kept += left.len() as u64;
        }
        Manager::commit(connection).await?;
    }
    Ok(ErasedBatch { erased, kept, last })
}

/// Executes a statement with [`chosen!`] rows, which are locked. Returns how many there were.
pub(super) async fn execute_on(
    connection: &mut MySqlConnection,
    statement: &'static str,
    ids: &[Vec<u8>],
) -> sqlx::Result<u64> {
    let mut rows = 0;
    for ids in ids.chunks(IDS) {
        let ids: Vec<String> = ids.iter().map(|id| quoted_hex(id)).collect();
        let done = sqlx::query(statement)
            .bind(format!("[{}]", ids.join(",")))
            .execute(&mut *connection)
            .await?;
        rows += done.rows_affected();
    }
    Ok(rows)
}

fn quoted_hex(id: &[u8]) -> String {
    let digits: String = id.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("\"{digits}\"")
}

/// Of these rows, those of the scope to which the `rest` applies.
async fn select_on(
    connection: &mut MySqlConnection,
    ids: &[Vec<u8>],
    scope: &ScopeKey,
    rest: &'static str,
) -> sqlx::Result<Vec<Vec<u8>>> {
    let mut found = Vec::new();
    for ids in ids.chunks(IDS) {
        let mut query = on("SELECT id FROM idem_keys", ids);
        query
            .push(" AND scope = ")
            .push_bind(scope.as_str().as_bytes())
            .push(rest);
        let rows: Vec<Vec<u8>> = query
            .build_query_scalar()
            .persistent(false)
            .fetch_all(&mut *connection)
            .await?;
        found.extend(rows);
    }
    Ok(found)
}

fn on(statement: &'static str, ids: &[Vec<u8>]) -> QueryBuilder<MySql> {
    let mut query = QueryBuilder::new(statement);
    query.push(" WHERE id IN (");
    let mut list = query.separated(", ");
    for id in ids {
        list.push_bind(id.clone());
    }
    query.push(")");
    query
}
