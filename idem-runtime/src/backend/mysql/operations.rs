//! Operations with recovery points.
//!
//! What takes several statements runs at READ COMMITTED, which locks the rows that it finds and no gap between them. All
//! but the start write to the operation before they write to its key, so that no two wait for each other; the start does
//! not wait for a key.

use std::time::Duration;

use sqlx::mysql::{MySqlConnection, MySqlRow};
use sqlx::{MySql, QueryBuilder, Row};

use super::super::operations::{
    Audit, AuditRow, Fence, Filter, OperationRow, OperationStore, Start, Started, Unresolved,
    Written, rows, several,
};
use super::super::{Answer, Claim, Record, State, Stored, millis};
use super::{Query, begin_read_committed, plain_bytes, record, text};
use crate::scope::{RecordId, ScopeKey};

mod start;
mod statements;

pub(super) use statements::NOTE;
use statements::*;

impl OperationStore for MySql {
    async fn start(
        connection: &mut MySqlConnection,
        claim: &Claim<'_>,
        start: &Start<'_>,
    ) -> sqlx::Result<Started> {
        begin_read_committed(connection).await?;
        let started = start::insert(connection, claim, start).await;
        several::end::<MySql, _>(connection, started).await
    }

    async fn record(
        connection: &mut MySqlConnection,
        _: Option<&str>,
        fence: &Fence,
        written: &Written<'_>,
    ) -> sqlx::Result<bool> {
        let query = sqlx::query(RECORD)
            .bind(written.journal)
            .bind(written.sealed)
            .bind(millis(written.lease));
        changes(connection, fenced(query, fence)).await
    }

    async fn renew(
        connection: &mut MySqlConnection,
        fence: &Fence,
        lease: Duration,
    ) -> sqlx::Result<bool> {
        let query = sqlx::query(RENEW).bind(millis(lease));
        changes(connection, fenced(query, fence)).await
    }

    async fn complete_operation(
        connection: &mut MySqlConnection,
        _: Option<&str>,
        fence: &Fence,
        answer: &Answer<'_>,
    ) -> sqlx::Result<Option<Stored>> {
        if !changes(connection, fenced(sqlx::query(END), fence)).await? {
            return Ok(None);
        }
        let content = answer.content.as_ref();
        let ttl = answer.ttl_millis();
        let done = sqlx::query(COMPLETE)
            .bind(fence.owner.as_slice())
            .bind(i32::from(answer.status))
            .bind(content.map(|content| content.headers))
            .bind(content.map(|content| content.body))
            .bind(content.is_some_and(|content| content.sealed))
            .bind(answer.resources.map(str::as_bytes))
            .bind(ttl)
            .bind(answer.retention_millis())
            .bind(fence.id.as_bytes().as_slice())
            .execute(connection)
            .await?;
        if done.rows_affected() == 0 {
            return Ok(None);
        }
        let now = i64::try_from(done.last_insert_id()).unwrap_or(i64::MAX);
        Ok(Some(Stored {
            expires_at: ttl.map(|ttl| now.saturating_add(ttl)),
        }))
    }

    async fn park(
        connection: &mut MySqlConnection,
        fence: &Fence,
        reason: &str,
    ) -> sqlx::Result<bool> {
        let park = fenced(sqlx::query(PARK).bind(plain_bytes(reason)), fence);
        with_key(connection, park, set_state(&fence.id, State::Unknown)).await
    }

    async fn alarm(
        connection: &mut MySqlConnection,
        id: &RecordId,
        reason: &str,
    ) -> sqlx::Result<bool> {
        let alarm = on(sqlx::query(ALARM).bind(plain_bytes(reason)), id);
        with_key(connection, alarm, set_state(id, State::Unknown)).await
    }

    async fn release(connection: &mut MySqlConnection, fence: &Fence) -> sqlx::Result<bool> {
        let end = fenced(sqlx::query(RELEASE), fence);
        with_key(connection, end, on(sqlx::query(RELEASE_KEY), &fence.id)).await
    }

    async fn hand_over(
        connection: &mut MySqlConnection,
        fence: &Fence,
        delay: Duration,
        in_order: bool,
    ) -> sqlx::Result<bool> {
        let query = sqlx::query(HAND_OVER)
            .bind(i32::from(in_order))
            .bind(millis(delay));
        changes(connection, fenced(query, fence)).await
    }

    async fn take_over(
        connection: &mut MySqlConnection,
        operations: &[&str],
        owner: [u8; 16],
        lease: Duration,
        batch: u32,
    ) -> sqlx::Result<Vec<OperationRow>> {
        if operations.is_empty() {
            return Ok(Vec::new());
        }
        begin_read_committed(connection).await?;
        let taken = take(connection, operations, owner, lease, batch).await;
        several::end::<MySql, _>(connection, taken).await
    }

    async fn orphans(
        connection: &mut MySqlConnection,
        operations: &[&str],
    ) -> sqlx::Result<Vec<(String, u64)>> {
        let mut query = QueryBuilder::new(ORPHANS);
        if !operations.is_empty() {
            query.push(" AND operation NOT IN (");
            push_list(&mut query, operations.iter().map(|name| name.as_bytes()));
        }
        query.push(" GROUP BY operation ORDER BY operation");
        let counted: Vec<(Vec<u8>, i64)> = query.build_query_as().fetch_all(connection).await?;
        Ok(counted
            .into_iter()
            .map(|(operation, rows)| (lossy(operation), rows.unsigned_abs()))
            .collect())
    }

    async fn unresolved(connection: &mut MySqlConnection) -> sqlx::Result<Unresolved> {
        let counted = sqlx::query_as(UNRESOLVED).fetch_one(connection).await?;
        Ok(Unresolved::from_counts(counted))
    }

    async fn list(
        connection: &mut MySqlConnection,
        filter: &Filter<'_>,
    ) -> sqlx::Result<Vec<OperationRow>> {
        let mut query = QueryBuilder::new(LIST);
        query.push_bind(millis(filter.older_than));
        query.push(match filter.state {
            None => "",
            Some(State::Started) => " AND parked_at IS NULL",
            Some(State::Unknown) => " AND parked_at IS NOT NULL",
            Some(State::Completed) => return Ok(Vec::new()),
        });
        if let Some(operation) = filter.operation {
            query
                .push(" AND operation = ")
                .push_bind(operation.as_bytes());
        }
        if let Some(scope) = filter.scope {
            query.push(" AND scope = ").push_bind(scope.as_bytes());
        }
        if let Some((created_at, id)) = &filter.after {
            // Not a comparison of rows, for which no index is used.
            query
                .push(" AND created_at >= ")
                .push_bind(*created_at)
                .push(" AND (created_at > ")
                .push_bind(*created_at)
                .push(" OR id > ")
                .push_bind(id.as_bytes().as_slice())
                .push(")");
        }
        query
            .push(" ORDER BY created_at, id LIMIT ")
            .push_bind(filter.limit);
        let found = query.build().fetch_all(connection).await?;
        found.iter().map(operation).collect()
    }

    async fn inspect(
        connection: &mut MySqlConnection,
        id: &RecordId,
    ) -> sqlx::Result<Option<OperationRow>> {
        let found = on(sqlx::query(INSPECT), id)
            .fetch_optional(connection)
            .await?;
        found.as_ref().map(operation).transpose()
    }

    async fn owned(
        connection: &mut MySqlConnection,
        id: &RecordId,
        scope: &ScopeKey,
    ) -> sqlx::Result<Option<Record>> {
        let found = on(sqlx::query(super::LOOK_OWNED), id)
            .bind(scope.as_str().as_bytes())
            .fetch_optional(connection)
            .await?;
        found.as_ref().map(record).transpose()
    }

    async fn decide(
        connection: &mut MySqlConnection,
        id: &RecordId,
        attempt: i32,
        journal: Option<(&[u8], bool)>,
        audit: &Audit<'_>,
    ) -> sqlx::Result<bool> {
        let decide = sqlx::query(DECIDE)
            .bind(journal.map(|(journal, _)| journal))
            .bind(journal.map(|(_, sealed)| sealed))
            .bind(journal.is_some());
        let note = sqlx::query(NOTE)
            .bind(plain_bytes(audit.actor))
            .bind(audit.action.as_bytes())
            .bind(plain_bytes(audit.reason))
            .bind(audit.detail.map(str::as_bytes));
        begin_read_committed(connection).await?;
        let decided = all(
            connection,
            [
                on(decide, id).bind(attempt),
                on(note, id),
                set_state(id, State::Started),
            ],
        )
        .await;
        several::end::<MySql, _>(connection, decided).await
    }

    async fn audit(connection: &mut MySqlConnection, id: &RecordId) -> sqlx::Result<Vec<AuditRow>> {
        type Columns = (i64, Vec<u8>, Vec<u8>, Vec<u8>, Option<Vec<u8>>);
        let entries: Vec<Columns> = sqlx::query_as(AUDIT)
            .bind(id.as_bytes().as_slice())
            .fetch_all(connection)
            .await?;
        Ok(entries
            .into_iter()
            .map(|(at, actor, action, reason, detail)| {
                AuditRow::from_columns((
                    at,
                    lossy(actor),
                    lossy(action),
                    lossy(reason),
                    text(detail),
                ))
            })
            .collect())
    }
}

async fn take(
    connection: &mut MySqlConnection,
    operations: &[&str],
    owner: [u8; 16],
    lease: Duration,
    batch: u32,
) -> sqlx::Result<Vec<OperationRow>> {
    let mut due = QueryBuilder::new(DUE);
    push_list(&mut due, operations.iter().map(|name| name.as_bytes()));
    due.push(" ORDER BY due_at LIMIT ")
        .push_bind(batch)
        .push(" FOR UPDATE SKIP LOCKED");
    let due = due.build().fetch_all(&mut *connection).await?;
    let taken: Vec<OperationRow> = due
        .iter()
        .map(|row| Ok(operation(row)?.taken_over(owner, lease)))
        .collect::<sqlx::Result<_>>()?;
    // All were read at one moment, so that their leases end at one.
    if let Some(first) = taken.first() {
        let mut update = QueryBuilder::new(TAKE_OVER);
        update.push_bind(&owner[..]);
        update.push(", due_at = ").push_bind(first.due_at);
        update.push(" WHERE id IN (");
        push_list(&mut update, taken.iter().map(|row| &row.id.as_bytes()[..]));
        update
            .build()
            .persistent(false)
            .execute(&mut *connection)
            .await?;
    }
    Ok(taken)
}

/// A write to an operation and, if it changes one, a write to its key; in a transaction of their own.
async fn with_key(
    connection: &mut MySqlConnection,
    operation: Query<'_>,
    key: Query<'_>,
) -> sqlx::Result<bool> {
    begin_read_committed(connection).await?;
    let done = all(connection, [operation, key]).await;
    several::end::<MySql, _>(connection, done).await
}

/// One write after the other, as long as they find their rows.
async fn all<const N: usize>(
    connection: &mut MySqlConnection,
    queries: [Query<'_>; N],
) -> sqlx::Result<bool> {
    for query in queries {
        if !changes(connection, query).await? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// The driver has the server count the rows that a statement finds, changed or not.
async fn changes(connection: &mut MySqlConnection, query: Query<'_>) -> sqlx::Result<bool> {
    Ok(query.execute(connection).await?.rows_affected() > 0)
}

fn on<'q>(query: Query<'q>, id: &'q RecordId) -> Query<'q> {
    query.bind(id.as_bytes().as_slice())
}

fn fenced<'q>(query: Query<'q>, fence: &'q Fence) -> Query<'q> {
    on(query, &fence.id)
        .bind(fence.attempt)
        .bind(fence.owner.as_slice())
}

fn set_state(id: &RecordId, state: State) -> Query<'_> {
    on(sqlx::query(SET_STATE).bind(state as i16), id)
}

/// The rest of a list in parentheses.
fn push_list<'a>(query: &mut QueryBuilder<MySql>, members: impl Iterator<Item = &'a [u8]>) {
    let mut list = query.separated(", ");
    for member in members {
        list.push_bind(member.to_vec());
    }
    query.push(")");
}

fn lossy(bytes: Vec<u8>) -> String {
    String::from_utf8_lossy(&bytes).into_owned()
}

fn operation(row: &MySqlRow) -> sqlx::Result<OperationRow> {
    rows::operation(row, |row, column| Ok(text(row.try_get(column)?)))
}
