//! The claim of a key and the row of its operation.

use sqlx::Row;
use sqlx::mysql::MySqlConnection;

use super::super::super::operations::{Start, Started};
use super::super::super::{Claim, State, millis};
use super::super::{Flavour, claim, lock_not_won, number, record};
use super::on;
use super::statements::{CLEAR_KEY, START_OPERATION};

/// In the transaction that is open, which is READ COMMITTED. Whatever the answer, it may be committed.
pub(super) async fn insert(
    connection: &mut MySqlConnection,
    claim: &Claim<'_>,
    start: &Start<'_>,
) -> sqlx::Result<Started> {
    let claimed = match claim::insert(&mut *connection, Flavour::MariaDb, claim).await {
        // ER_PARSE_ERROR: this is MySQL, which learns of nothing but the text.
        Err(error) if number(&error) == Some(1064) => {
            if claim::is_held(&mut *connection, claim).await? {
                return Ok(Started::InFlight);
            }
            claim::insert(&mut *connection, Flavour::MySql, claim).await
        }
        claimed => claimed,
    };
    let row = match claimed {
        Err(error) if lock_not_won(&error) => return Ok(Started::InFlight),
        claimed => claimed?,
    };
    let held = record(&row)?;
    if held.owner != claim.owner || held.state != State::Started {
        return Ok(Started::Held(held));
    }
    let (attempt, now): (i32, i64) = (row.try_get("attempt")?, row.try_get("now_ms")?);
    let begun = sqlx::query(START_OPERATION)
        .bind(claim.scope.as_str().as_bytes())
        .bind(claim.operation.as_bytes())
        .bind(start.operation_id.as_bytes().as_slice())
        .bind(start.definition)
        .bind(claim.owner.as_slice())
        .bind(start.inputs)
        .bind(start.sealed)
        .bind(now)
        .bind(now)
        .bind(now.saturating_add(millis(start.lease)));
    match on(begun, claim.id).execute(&mut *connection).await {
        // This very request began it before, and did not hear of it.
        Err(sqlx::Error::Database(error)) if error.is_unique_violation() => {
            return Ok(Started::Held(held));
        }
        begun => begun?,
    };
    let took_over = attempt > 1;
    if took_over {
        on(sqlx::query(CLEAR_KEY), claim.id)
            .execute(connection)
            .await?;
    }
    Ok(Started::Won { took_over, now })
}
