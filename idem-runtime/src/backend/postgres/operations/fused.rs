//! The framework's statements of a step in two messages: what marks its transaction rides with `BEGIN`, and what records it
//! with `COMMIT`, as in [`fused`].

use sqlx::postgres::PgConnection;
use sqlx_core::transaction::TransactionManager;

use super::super::super::operations::{Fence, Written};
use super::super::super::{Answer, EndFailure, Isolation, Stored, millis};
use super::super::fused::{self, Arguments, Fusing, NOT_FREE, NOT_PREPARED};
use super::super::{Manager, begin_text};

/// Prepared on each connection that is used so, before its first step. A fence that does not hold, or a mark that is not this
/// transaction's, is an error, and then nothing is committed; its text is not constant, or else the planner would raise it.
///
/// A record begins the lease anew only when half of it is over, unlike the statement that is a message of its own: a row whose
/// `due_at` stays needs no entry in an index.
///
/// The first is prepared with and without its lock, so that two settings may share a pool.
const PREPARE: &str = "\
    PREPARE idem_step (text, integer, integer) AS \
    SELECT set_config('idem.claim', left(set_config('idem.claim', $1 || '-over', false), -5), true), \
       pg_try_advisory_xact_lock($2, $3); \
    PREPARE idem_step_unlocked (text) AS \
    SELECT set_config('idem.claim', left(set_config('idem.claim', $1 || '-over', false), -5), true); \
    PREPARE idem_record (bytea, integer, bytea, text, bytea, boolean, bigint) AS \
    WITH recorded AS (UPDATE idem_operations SET journal = $5, journal_sealed = $6, \
          recorded_at = clock_timestamp(), \
          due_at = CASE WHEN due_at > clock_timestamp() + $7 * interval '0.5 milliseconds' THEN due_at \
             ELSE clock_timestamp() + $7 * interval '1 millisecond' END \
        WHERE id = $1 AND attempt = $2 AND owner = $3 AND parked_at IS NULL \
          AND current_setting('idem.claim', true) = $4 \
        RETURNING id) \
    SELECT CASE WHEN EXISTS (SELECT FROM recorded) THEN 1 \
       ELSE ('idem: the lease is lost, seen by ' || pg_backend_pid())::integer END; \
    PREPARE idem_end (bytea, integer, bytea, text, integer, bytea, bytea, boolean, text, bigint, bigint) AS \
    WITH ended AS (DELETE FROM idem_operations \
        WHERE id = $1 AND attempt = $2 AND owner = $3 AND parked_at IS NULL \
          AND current_setting('idem.claim', true) = $4 \
        RETURNING id, owner), \
      stored AS (UPDATE idem_keys k SET state = 1, owner = ended.owner, status = $5, headers = $6, body = $7, \
          sealed = $8, resources = $9, completed_at = statement_timestamp(), \
          expires_at = statement_timestamp() + $10 * interval '1 millisecond', \
          retain_until = statement_timestamp() + $11 * interval '1 millisecond' \
         FROM ended WHERE k.id = ended.id RETURNING k.expires_at) \
    SELECT coalesce((SELECT (date_part('epoch', expires_at) * 1000)::bigint FROM stored), \
       ('idem: the lease is lost, seen by ' || pg_backend_pid())::bigint)";

/// Begins a step's transaction with its mark. `false`: the connection has nothing prepared, and no transaction is open.
pub(in super::super) async fn begin(
    connection: &mut PgConnection,
    fusing: &Fusing,
    isolation: Option<Isolation>,
    mark: &str,
    lock: Option<(i32, i32)>,
) -> sqlx::Result<bool> {
    let begin = begin_text(isolation);
    let begin = match lock {
        Some((first, second)) => {
            format!("{begin}; EXECUTE idem_step('{mark}',{first},{second})")
        }
        None => format!("{begin}; EXECUTE idem_step_unlocked('{mark}')"),
    };
    let mut begun = fused::begin_with(connection, &begin).await;
    if !fused::is(&begun, NOT_PREPARED) {
        begun?;
        fusing.found();
        return Ok(true);
    }
    fused::prepare_text(connection, fusing, PREPARE).await?;
    begun = fused::begin_with(connection, &begin).await;
    if fused::is(&begun, NOT_PREPARED) {
        fusing.missed();
        return Ok(false);
    }
    begun.map(|()| true)
}

/// Records and commits; false: the fence does not hold, or this is not the marked transaction.
pub(in super::super) async fn record_and_commit(
    connection: &mut PgConnection,
    mark: &str,
    fence: &Fence,
    written: &Written<'_>,
) -> Result<bool, EndFailure> {
    let mut statement = fenced("EXECUTE idem_record(", mark, fence);
    statement.bytes(Some(written.journal));
    statement.number(Some(written.sealed));
    statement.number(Some(millis(written.lease)));
    let ended = end(connection, statement).await?;
    Ok(ended.is_some())
}

/// Stores the answer and commits; `None` as above.
pub(in super::super) async fn complete_and_commit(
    connection: &mut PgConnection,
    mark: &str,
    fence: &Fence,
    answer: &Answer<'_>,
) -> Result<Option<Stored>, EndFailure> {
    let content = answer.content.as_ref();
    let mut statement = fenced("EXECUTE idem_end(", mark, fence);
    statement.number(Some(answer.status));
    statement.bytes(content.map(|content| content.headers));
    statement.bytes(content.map(|content| content.body));
    statement.number(Some(content.is_some_and(|content| content.sealed)));
    statement.text(answer.resources);
    statement.number(answer.ttl_millis());
    statement.number(answer.retention_millis());
    end(connection, statement).await
}

fn fenced(statement: &str, mark: &str, fence: &Fence) -> Arguments {
    let mut statement = Arguments::of(statement);
    statement.bytes(Some(fence.id.as_bytes()));
    statement.number(Some(fence.attempt));
    statement.bytes(Some(&fence.owner));
    statement.text(Some(mark));
    statement
}

/// A new transaction is open afterwards, as [`fused::complete_and_commit`] says.
async fn end(
    connection: &mut PgConnection,
    statement: Arguments,
) -> Result<Option<Stored>, EndFailure> {
    let (ended, row) = fused::end(connection, statement.end("); COMMIT AND CHAIN")).await;
    match (ended, row) {
        (Ok(()), Some(row)) => {
            Manager::start_rollback(connection);
            Ok(Some(Stored {
                expires_at: fused::expires_at(&row),
            }))
        }
        (Ok(()), None) => Err(EndFailure::Open(None)),
        (Err(error), _) if !fused::is_final(&error) => Err(EndFailure::Open(Some(error))),
        (Err(error), Some(_)) => Err(EndFailure::RolledBack(error)),
        (Err(error), None) if fused::says(&error, NOT_FREE) => Ok(None),
        (Err(error), None) => Err(EndFailure::Storing(error)),
    }
}
