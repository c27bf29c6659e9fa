//! Operations with recovery points: each method is one statement, which commits by itself or with the transaction that is
//! open. A statement that writes to two tables does so from the rows that the first write answers.
//!
//! READ COMMITTED is enough for all: each writes to a row that it found by its primary key, and what it says of that row is
//! checked again once the row is locked. Above it, a row that changed meanwhile raises 40001.

use std::time::Duration;

use sqlx::postgres::{PgArguments, PgConnection, PgRow};
use sqlx::{Postgres, Row};

use super::super::operations::{
    Audit, AuditRow, Fence, Filter, OperationRow, OperationStore, Start, Started, Unresolved,
    Written, rows,
};
use super::super::{
    Answer, Backend, Claim, Record, Standing, State, Stored, asks_to_run_again, millis,
};
use super::record;
use crate::backend::plain::plain;
use crate::scope::{RecordId, ScopeKey};

pub(super) mod fused;
mod statements;

use statements::*;

type Query<'q> = sqlx::query::Query<'q, Postgres, PgArguments>;

impl OperationStore for Postgres {
    async fn start(
        connection: &mut PgConnection,
        claim: &Claim<'_>,
        start: &Start<'_>,
    ) -> sqlx::Result<Started> {
        // Twice, since a record that was in the way may be gone, or past its retention, when it is looked for.
        for _ in 0..2 {
            match insert(&mut *connection, claim, start).await {
                Ok(None) => {}
                Err(error) if asks_to_run_again(&error) => {}
                won => {
                    if let Some(row) = won? {
                        return Ok(Started::Won {
                            took_over: row.try_get("took_over")?,
                            now: row.try_get("now_ms")?,
                        });
                    }
                }
            }
            match Self::look(&mut *connection, claim.id).await? {
                Some(record) if record.standing != Standing::Expired => {
                    return Ok(Started::Held(record));
                }
                _ => {}
            }
        }
        Ok(Started::InFlight)
    }

    async fn record(
        connection: &mut PgConnection,
        mark: Option<&str>,
        fence: &Fence,
        written: &Written<'_>,
    ) -> sqlx::Result<bool> {
        let query = fenced(RECORD, fence)
            .bind(written.journal)
            .bind(written.sealed)
            .bind(millis(written.lease))
            .bind(mark);
        changes(connection, query).await
    }

    async fn renew(
        connection: &mut PgConnection,
        fence: &Fence,
        lease: Duration,
    ) -> sqlx::Result<bool> {
        changes(connection, fenced(RENEW, fence).bind(millis(lease))).await
    }

    async fn complete_operation(
        connection: &mut PgConnection,
        mark: Option<&str>,
        fence: &Fence,
        answer: &Answer<'_>,
    ) -> sqlx::Result<Option<Stored>> {
        let content = answer.content.as_ref();
        let stored = fenced(COMPLETE, fence)
            .bind(i32::from(answer.status))
            .bind(content.map(|content| content.headers))
            .bind(content.map(|content| content.body))
            .bind(content.is_some_and(|content| content.sealed))
            .bind(answer.resources)
            .bind(answer.ttl_millis())
            .bind(answer.retention_millis())
            .bind(mark)
            .fetch_optional(connection)
            .await?;
        stored
            .map(|row| {
                Ok(Stored {
                    expires_at: row.try_get(0)?,
                })
            })
            .transpose()
    }

    async fn park(
        connection: &mut PgConnection,
        fence: &Fence,
        reason: &str,
    ) -> sqlx::Result<bool> {
        changes(connection, fenced(PARK, fence).bind(plain(reason))).await
    }

    async fn alarm(
        connection: &mut PgConnection,
        id: &RecordId,
        reason: &str,
    ) -> sqlx::Result<bool> {
        let query = sqlx::query(ALARM)
            .bind(id.as_bytes().as_slice())
            .bind(plain(reason));
        changes(connection, query).await
    }

    async fn release(connection: &mut PgConnection, fence: &Fence) -> sqlx::Result<bool> {
        changes(connection, fenced(RELEASE, fence)).await
    }

    async fn hand_over(
        connection: &mut PgConnection,
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
        connection: &mut PgConnection,
        operations: &[&str],
        owner: [u8; 16],
        lease: Duration,
        batch: u32,
    ) -> sqlx::Result<Vec<OperationRow>> {
        let taken = sqlx::query(TAKE_OVER)
            .bind(operations)
            .bind(owner.as_slice())
            .bind(millis(lease))
            .bind(i64::from(batch))
            .fetch_all(connection)
            .await?;
        taken.iter().map(operation).collect()
    }

    async fn orphans(
        connection: &mut PgConnection,
        operations: &[&str],
    ) -> sqlx::Result<Vec<(String, u64)>> {
        let counted: Vec<(String, i64)> = sqlx::query_as(ORPHANS)
            .bind(operations)
            .fetch_all(connection)
            .await?;
        Ok(counted
            .into_iter()
            .map(|(operation, rows)| (operation, rows.unsigned_abs()))
            .collect())
    }

    async fn unresolved(connection: &mut PgConnection) -> sqlx::Result<Unresolved> {
        let counted: (i64, i64, i64, i64) =
            sqlx::query_as(UNRESOLVED).fetch_one(connection).await?;
        Ok(Unresolved::from_counts(counted))
    }

    async fn list(
        connection: &mut PgConnection,
        filter: &Filter<'_>,
    ) -> sqlx::Result<Vec<OperationRow>> {
        if filter.state == Some(State::Completed) {
            return Ok(Vec::new());
        }
        let found = sqlx::query(LIST)
            .bind(filter.operation)
            .bind(filter.scope)
            .bind(filter.state.map(|state| state == State::Unknown))
            .bind(millis(filter.older_than))
            .bind(filter.after.map(|(created_at, _)| created_at))
            .bind(
                filter
                    .after
                    .as_ref()
                    .map(|(_, id)| id.as_bytes().as_slice()),
            )
            .bind(i64::from(filter.limit))
            .fetch_all(connection)
            .await?;
        found.iter().map(operation).collect()
    }

    async fn inspect(
        connection: &mut PgConnection,
        id: &RecordId,
    ) -> sqlx::Result<Option<OperationRow>> {
        let found = sqlx::query(INSPECT)
            .bind(id.as_bytes().as_slice())
            .fetch_optional(connection)
            .await?;
        found.as_ref().map(operation).transpose()
    }

    async fn owned(
        connection: &mut PgConnection,
        id: &RecordId,
        scope: &ScopeKey,
    ) -> sqlx::Result<Option<Record>> {
        let found = sqlx::query(super::LOOK_OWNED)
            .bind(id.as_bytes().as_slice())
            .bind(scope.as_str())
            .fetch_optional(connection)
            .await?;
        found.as_ref().map(record).transpose()
    }

    async fn decide(
        connection: &mut PgConnection,
        id: &RecordId,
        attempt: i32,
        journal: Option<(&[u8], bool)>,
        audit: &Audit<'_>,
    ) -> sqlx::Result<bool> {
        let query = sqlx::query(DECIDE)
            .bind(id.as_bytes().as_slice())
            .bind(attempt)
            .bind(journal.map(|(journal, _)| journal))
            .bind(journal.map(|(_, sealed)| sealed))
            .bind(plain(audit.actor))
            .bind(audit.action)
            .bind(plain(audit.reason))
            .bind(audit.detail);
        changes(connection, query).await
    }

    async fn audit(connection: &mut PgConnection, id: &RecordId) -> sqlx::Result<Vec<AuditRow>> {
        let entries = sqlx::query_as(AUDIT)
            .bind(id.as_bytes().as_slice())
            .fetch_all(connection)
            .await?;
        Ok(entries.into_iter().map(AuditRow::from_columns).collect())
    }
}

async fn insert(
    connection: &mut PgConnection,
    claim: &Claim<'_>,
    start: &Start<'_>,
) -> sqlx::Result<Option<PgRow>> {
    sqlx::query(START)
        .bind(claim.id.as_bytes().as_slice())
        .bind(claim.scope.as_str())
        .bind(claim.operation)
        .bind(claim.owner.as_slice())
        .bind(i16::from(claim.fingerprint.version()))
        .bind(claim.fingerprint.digest().as_slice())
        .bind(claim.fingerprint_options)
        .bind(start.operation_id.as_bytes().as_slice())
        .bind(start.definition)
        .bind(start.inputs)
        .bind(start.sealed)
        .bind(millis(start.lease))
        .fetch_optional(connection)
        .await
}

fn fenced<'q>(sql: &'static str, fence: &'q Fence) -> Query<'q> {
    sqlx::query(sql)
        .bind(fence.id.as_bytes().as_slice())
        .bind(fence.attempt)
        .bind(fence.owner.as_slice())
}

async fn changes(connection: &mut PgConnection, query: Query<'_>) -> sqlx::Result<bool> {
    Ok(query.execute(connection).await?.rows_affected() > 0)
}

fn operation(row: &PgRow) -> sqlx::Result<OperationRow> {
    rows::operation(row, |row, column| row.try_get(column))
}
