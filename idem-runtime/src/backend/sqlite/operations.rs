//! Operations with recovery points. What takes several statements runs in `BEGIN IMMEDIATE`, which makes it the only writer:
//! what it reads stays true until it commits.

use std::time::Duration;

use sqlx::sqlite::{SqliteArguments, SqliteConnection, SqliteRow};
use sqlx::{QueryBuilder, Row, SqlSafeStr, Sqlite};
use sqlx_core::transaction::TransactionManager;

use super::super::operations::{
    Audit, AuditRow, Fence, Filter, OperationRow, OperationStore, Start, Started, Unresolved,
    Written, rows, several,
};
use super::super::{Answer, Backend, Claim, Record, State, Stored, millis};
use super::{Manager, record};
use crate::backend::plain::plain;
use crate::scope::{RecordId, ScopeKey};

mod statements;

pub(super) use statements::NOTE;
use statements::*;

type Query<'q> = sqlx::query::Query<'q, Sqlite, SqliteArguments>;

impl OperationStore for Sqlite {
    async fn start(
        connection: &mut SqliteConnection,
        claim: &Claim<'_>,
        start: &Start<'_>,
    ) -> sqlx::Result<Started> {
        begin(connection).await?;
        let started = insert(connection, claim, start).await;
        several::end::<Sqlite, _>(connection, started).await
    }

    async fn record(
        connection: &mut SqliteConnection,
        _: Option<&str>,
        fence: &Fence,
        written: &Written<'_>,
    ) -> sqlx::Result<bool> {
        let query = fenced(RECORD, fence)
            .bind(written.journal)
            .bind(written.sealed)
            .bind(millis(written.lease));
        changes(connection, query).await
    }

    async fn renew(
        connection: &mut SqliteConnection,
        fence: &Fence,
        lease: Duration,
    ) -> sqlx::Result<bool> {
        changes(connection, fenced(RENEW, fence).bind(millis(lease))).await
    }

    async fn complete_operation(
        connection: &mut SqliteConnection,
        _: Option<&str>,
        fence: &Fence,
        answer: &Answer<'_>,
    ) -> sqlx::Result<Option<Stored>> {
        if !changes(connection, fenced(END, fence)).await? {
            return Ok(None);
        }
        let content = answer.content.as_ref();
        let stored: Option<Option<i64>> = sqlx::query_scalar(COMPLETE)
            .bind(fence.id.as_bytes().as_slice())
            .bind(fence.owner.as_slice())
            .bind(i32::from(answer.status))
            .bind(content.map(|content| content.headers))
            .bind(content.map(|content| content.body))
            .bind(content.is_some_and(|content| content.sealed))
            .bind(answer.resources)
            .bind(answer.ttl_millis())
            .bind(answer.retention_millis())
            .fetch_optional(connection)
            .await?;
        Ok(stored.map(|expires_at| Stored { expires_at }))
    }

    async fn park(
        connection: &mut SqliteConnection,
        fence: &Fence,
        reason: &str,
    ) -> sqlx::Result<bool> {
        let park = fenced(PARK, fence).bind(plain(reason));
        with_key(connection, park, set_state(&fence.id, State::Unknown)).await
    }

    async fn alarm(
        connection: &mut SqliteConnection,
        id: &RecordId,
        reason: &str,
    ) -> sqlx::Result<bool> {
        let alarm = on(ALARM, id).bind(plain(reason));
        with_key(connection, alarm, set_state(id, State::Unknown)).await
    }

    async fn release(connection: &mut SqliteConnection, fence: &Fence) -> sqlx::Result<bool> {
        let free = on(RELEASE_KEY, &fence.id);
        with_key(connection, fenced(RELEASE, fence), free).await
    }

    async fn hand_over(
        connection: &mut SqliteConnection,
        fence: &Fence,
        delay: Duration,
        in_order: bool,
    ) -> sqlx::Result<bool> {
        let query = fenced(HAND_OVER, fence)
            .bind(millis(delay))
            .bind(i32::from(in_order));
        changes(connection, query).await
    }

    async fn take_over(
        connection: &mut SqliteConnection,
        operations: &[&str],
        owner: [u8; 16],
        lease: Duration,
        batch: u32,
    ) -> sqlx::Result<Vec<OperationRow>> {
        if operations.is_empty() {
            return Ok(Vec::new());
        }
        begin(connection).await?;
        let taken = take(connection, operations, owner, lease, batch).await;
        several::end::<Sqlite, _>(connection, taken).await
    }

    async fn orphans(
        connection: &mut SqliteConnection,
        operations: &[&str],
    ) -> sqlx::Result<Vec<(String, u64)>> {
        let mut query = QueryBuilder::new(ORPHANS);
        if !operations.is_empty() {
            query.push(" AND operation NOT IN (");
            push_list(&mut query, operations);
        }
        query.push(" GROUP BY operation ORDER BY operation");
        let counted: Vec<(String, i64)> = query.build_query_as().fetch_all(connection).await?;
        Ok(counted
            .into_iter()
            .map(|(operation, rows)| (operation, rows.unsigned_abs()))
            .collect())
    }

    async fn unresolved(connection: &mut SqliteConnection) -> sqlx::Result<Unresolved> {
        let counted = sqlx::query_as(UNRESOLVED).fetch_one(connection).await?;
        Ok(Unresolved::from_counts(counted))
    }

    async fn list(
        connection: &mut SqliteConnection,
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
            query.push(" AND operation = ").push_bind(operation);
        }
        if let Some(scope) = filter.scope {
            query.push(" AND scope = ").push_bind(scope);
        }
        if let Some((created_at, id)) = &filter.after {
            query
                .push(" AND (created_at, id) > (")
                .push_bind(*created_at)
                .push(", ")
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
        connection: &mut SqliteConnection,
        id: &RecordId,
    ) -> sqlx::Result<Option<OperationRow>> {
        let found = on(INSPECT, id).fetch_optional(connection).await?;
        found.as_ref().map(operation).transpose()
    }

    async fn owned(
        connection: &mut SqliteConnection,
        id: &RecordId,
        scope: &ScopeKey,
    ) -> sqlx::Result<Option<Record>> {
        let found = on(super::LOOK_OWNED, id)
            .bind(scope.as_str())
            .fetch_optional(connection)
            .await?;
        found.as_ref().map(record).transpose()
    }

    async fn decide(
        connection: &mut SqliteConnection,
        id: &RecordId,
        attempt: i32,
        journal: Option<(&[u8], bool)>,
        audit: &Audit<'_>,
    ) -> sqlx::Result<bool> {
        let decide = on(DECIDE, id)
            .bind(attempt)
            .bind(journal.map(|(journal, _)| journal))
            .bind(journal.map(|(_, sealed)| sealed));
        let note = on(NOTE, id)
            .bind(plain(audit.actor))
            .bind(audit.action)
            .bind(plain(audit.reason))
            .bind(audit.detail);
        begin(connection).await?;
        let decided = all(connection, [decide, note, set_state(id, State::Started)]).await;
        several::end::<Sqlite, _>(connection, decided).await
    }

    async fn audit(
        connection: &mut SqliteConnection,
        id: &RecordId,
    ) -> sqlx::Result<Vec<AuditRow>> {
        let entries = sqlx::query_as(AUDIT)
            .bind(id.as_bytes().as_slice())
            .fetch_all(connection)
            .await?;
        Ok(entries.into_iter().map(AuditRow::from_columns).collect())
    }
}

async fn begin(connection: &mut SqliteConnection) -> sqlx::Result<()> {
    Manager::begin(connection, Some("BEGIN IMMEDIATE".into_sql_str())).await
}

async fn insert(
    connection: &mut SqliteConnection,
    claim: &Claim<'_>,
    start: &Start<'_>,
) -> sqlx::Result<Started> {
    let key = on(START_KEY, claim.id)
        .bind(claim.scope.as_str())
        .bind(claim.operation)
        .bind(claim.owner.as_slice())
        .bind(i16::from(claim.fingerprint.version()))
        .bind(claim.fingerprint.digest().as_slice())
        .bind(claim.fingerprint_options)
        .fetch_optional(&mut *connection)
        .await?;
    let Some(key) = key else {
        let held = Sqlite::look(connection, claim.id).await?;
        return held.map(Started::Held).ok_or(sqlx::Error::RowNotFound);
    };
    let now: i64 = key.try_get("created_at")?;
    on(START_OPERATION, claim.id)
        .bind(claim.scope.as_str())
        .bind(claim.operation)
        .bind(start.operation_id.as_bytes().as_slice())
        .bind(start.definition)
        .bind(claim.owner.as_slice())
        .bind(start.inputs)
        .bind(start.sealed)
        .bind(now)
        .bind(millis(start.lease))
        .execute(connection)
        .await?;
    Ok(Started::Won {
        took_over: key.try_get("took_over")?,
        now,
    })
}

async fn take(
    connection: &mut SqliteConnection,
    operations: &[&str],
    owner: [u8; 16],
    lease: Duration,
    batch: u32,
) -> sqlx::Result<Vec<OperationRow>> {
    let mut due = QueryBuilder::new(DUE);
    push_list(&mut due, operations);
    due.push(" ORDER BY due_at LIMIT ").push_bind(batch);
    let due = due.build().fetch_all(&mut *connection).await?;
    let taken: Vec<OperationRow> = due
        .iter()
        .map(|row| Ok(operation(row)?.taken_over(owner, lease)))
        .collect::<sqlx::Result<_>>()?;
    for row in &taken {
        sqlx::query(TAKE_OVER)
            .bind(row.id.as_bytes().as_slice())
            .bind(row.owner.as_slice())
            .bind(row.due_at)
            .execute(&mut *connection)
            .await?;
    }
    Ok(taken)
}

/// A write to an operation and, if it changes one, a write to its key; in a transaction of their own.
async fn with_key(
    connection: &mut SqliteConnection,
    operation: Query<'_>,
    key: Query<'_>,
) -> sqlx::Result<bool> {
    begin(connection).await?;
    let done = all(connection, [operation, key]).await;
    several::end::<Sqlite, _>(connection, done).await
}

/// One write after the other, as long as they find their rows.
async fn all<const N: usize>(
    connection: &mut SqliteConnection,
    queries: [Query<'_>; N],
) -> sqlx::Result<bool> {
    for query in queries {
        if !changes(connection, query).await? {
            return Ok(false);
        }
    }
    Ok(true)
}

async fn changes(connection: &mut SqliteConnection, query: Query<'_>) -> sqlx::Result<bool> {
    Ok(query.execute(connection).await?.rows_affected() > 0)
}

fn on<'q>(sql: &'static str, id: &'q RecordId) -> Query<'q> {
    sqlx::query(sql).bind(id.as_bytes().as_slice())
}

fn fenced<'q>(sql: &'static str, fence: &'q Fence) -> Query<'q> {
    on(sql, &fence.id)
        .bind(fence.attempt)
        .bind(fence.owner.as_slice())
}

fn set_state(id: &RecordId, state: State) -> Query<'_> {
    on(SET_STATE, id).bind(state as i16)
}

/// The rest of a list in parentheses.
fn push_list(query: &mut QueryBuilder<Sqlite>, names: &[&str]) {
    let mut list = query.separated(", ");
    for name in names {
        list.push_bind(name.to_string());
    }
    query.push(")");
}

fn operation(row: &SqliteRow) -> sqlx::Result<OperationRow> {
    rows::operation(row, |row, column| row.try_get(column))
}
