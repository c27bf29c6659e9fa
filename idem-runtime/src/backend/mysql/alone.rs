//! Answers that are stored by statements of their own.

use sqlx::mysql::MySqlConnection;

use super::super::{Answer, Claim, State, Stored};
use super::Query;

/// In no transaction: takes over a record whose retention is over, or the `started` row that this very
/// request left by ending its transaction.
const REPLACE_ALONE: &str = concat!(
    "UPDATE idem_keys JOIN (SELECT ",
    now!(),
    " AS now) t SET scope = ?, operation = ?, owner = ?, fingerprint_version = ?, fingerprint = ?, \
       fingerprint_options = ?, status = ?, headers = ?, body = ?, sealed = ?, resources = ?, \
       state = ?, attempt = attempt + 1, completed_at = t.now, expires_at = t.now + ?, \
       retain_until = t.now + ? \
     WHERE id = ? AND (retain_until <= t.now OR (state = 0 AND owner = ?))"
);
const INSERT_ALONE: &str = concat!(
    "INSERT INTO idem_keys \
       (scope, operation, owner, fingerprint_version, fingerprint, fingerprint_options, status, \
        headers, body, sealed, resources, state, expires_at, retain_until, id, created_at, \
        completed_at) \
     VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ",
    now!(),
    " + ?, ",
    now!(),
    " + ?, ?, ",
    now!(),
    ", ",
    now!(),
    ")"
);

pub(super) async fn settle(
    connection: &mut MySqlConnection,
    claim: &Claim<'_>,
    state: State,
    answer: &Answer<'_>,
) -> sqlx::Result<Option<Stored>> {
    let replaced = bind_alone(REPLACE_ALONE, claim, answer, state)
        .bind(claim.owner.as_slice())
        .execute(&mut *connection)
        .await?;
    if replaced.rows_affected() == 0 {
        match bind_alone(INSERT_ALONE, claim, answer, state)
            .execute(&mut *connection)
            .await
        {
            Err(sqlx::Error::Database(error)) if error.is_unique_violation() => {
                return Ok(None);
            }
            inserted => inserted?,
        };
    }
    let expires_at: Option<Option<i64>> =
        sqlx::query_scalar("SELECT expires_at FROM idem_keys WHERE id = ? AND owner = ?")
            .bind(claim.id.as_bytes().as_slice())
            .bind(claim.owner.as_slice())
            .fetch_optional(connection)
            .await?;
    Ok(expires_at.map(|expires_at| Stored { expires_at }))
}

fn bind_alone<'q>(
    sql: &'static str,
    claim: &'q Claim<'_>,
    answer: &'q Answer<'_>,
    state: State,
) -> Query<'q> {
    let content = answer.content.as_ref();
    sqlx::query(sql)
        .bind(claim.scope.as_str().as_bytes())
        .bind(claim.operation.as_bytes())
        .bind(claim.owner.as_slice())
        .bind(i16::from(claim.fingerprint.version()))
        .bind(claim.fingerprint.digest().as_slice())
        .bind(claim.fingerprint_options.map(str::as_bytes))
        .bind(i32::from(answer.status))
        .bind(content.map(|content| content.headers))
        .bind(content.map(|content| content.body))
        .bind(content.is_some_and(|content| content.sealed))
        .bind(answer.resources.map(str::as_bytes))
        .bind(state as i16)
        .bind(answer.ttl_millis())
        .bind(answer.retention_millis())
        .bind(claim.id.as_bytes().as_slice())
}
