//! The statements, in the order of the methods.

/// A time in milliseconds since 1970.
macro_rules! ms {
    ($time:literal) => {
        concat!("(date_part('epoch', ", $time, ") * 1000)::bigint")
    };
}

macro_rules! columns {
    () => {
        concat!(
            "o.id, o.scope, o.operation, o.operation_id, o.definition, o.attempt, o.owner, o.tries, \
             o.inputs, o.inputs_sealed, o.journal, o.journal_sealed, o.reason, ",
            ms!("o.created_at"),
            " AS created_at, ",
            ms!("o.recorded_at"),
            " AS recorded_at, ",
            ms!("o.due_at"),
            " AS due_at, ",
            ms!("o.parked_at"),
            " AS parked_at, ",
            ms!("clock_timestamp()"),
            " AS now_ms"
        )
    };
}

/// The first three parameters.
macro_rules! fence {
    () => {
        " WHERE id = $1 AND attempt = $2 AND owner = $3 AND parked_at IS NULL"
    };
}

/// This is the transaction that was begun with the mark, if one was.
macro_rules! marked {
    ($mark:literal) => {
        concat!(
            " AND (",
            $mark,
            "::text IS NULL OR current_setting('idem.claim', true) = ",
            $mark,
            ")"
        )
    };
}

/// Replaces a record whose retention is over and never any other. An insert of the same key that another transaction has
/// not committed yet is waited for.
pub(super) const START: &str = concat!(
    "WITH key AS ( \
        INSERT INTO idem_keys AS k \
           (id, scope, operation, state, owner, fingerprint_version, fingerprint, \
            fingerprint_options, status, created_at, completed_at) \
         SELECT $1, $2, $3, 0, $4, $5, $6, $7, 0, t.now, t.now \
           FROM (SELECT date_trunc('milliseconds', statement_timestamp()) AS now) t \
         ON CONFLICT (id) DO UPDATE SET \
            scope = excluded.scope, operation = excluded.operation, state = 0, \
            attempt = k.attempt + 1, owner = excluded.owner, \
            fingerprint_version = excluded.fingerprint_version, \
            fingerprint = excluded.fingerprint, \
            fingerprint_options = excluded.fingerprint_options, status = 0, headers = NULL, \
            body = NULL, sealed = false, resources = NULL, created_at = excluded.created_at, \
            completed_at = excluded.completed_at, expires_at = NULL, retain_until = NULL \
          WHERE k.state = 1 AND k.retain_until <= statement_timestamp() \
         RETURNING id, scope, operation, owner, created_at, attempt), \
      begun AS ( \
        INSERT INTO idem_operations \
           (id, scope, operation, operation_id, definition, owner, inputs, inputs_sealed, \
            created_at, recorded_at, due_at) \
         SELECT id, scope, operation, $8, $9, owner, $10, $11, created_at, created_at, \
            clock_timestamp() + $12 * interval '1 millisecond' FROM key) \
     SELECT attempt > 1 AS took_over, ",
    ms!("created_at"),
    " AS now_ms FROM key"
);

pub(super) const RECORD: &str = concat!(
    "UPDATE idem_operations SET journal = $4, journal_sealed = $5, recorded_at = clock_timestamp(), \
        due_at = clock_timestamp() + $6 * interval '1 millisecond'",
    fence!(),
    marked!("$7")
);

pub(super) const RENEW: &str = concat!(
    "UPDATE idem_operations SET due_at = clock_timestamp() + $4 * interval '1 millisecond'",
    fence!()
);

pub(super) const HAND_OVER: &str = concat!(
    "UPDATE idem_operations SET due_at = clock_timestamp() + $4 * interval '1 millisecond', \
        tries = greatest(tries - $5, 0)",
    fence!()
);

/// The record is its last attempt's.
pub(super) const COMPLETE: &str = concat!(
    "WITH ended AS (DELETE FROM idem_operations",
    fence!(),
    marked!("$11"),
    " RETURNING id, owner) \
     UPDATE idem_keys k SET state = 1, owner = ended.owner, status = $4, headers = $5, body = $6, \
        sealed = $7, resources = $8, completed_at = statement_timestamp(), \
        expires_at = statement_timestamp() + $9 * interval '1 millisecond', \
        retain_until = statement_timestamp() + $10 * interval '1 millisecond' \
       FROM ended WHERE k.id = ended.id RETURNING ",
    ms!("k.expires_at")
);

pub(super) const PARK: &str = concat!(
    "WITH parked AS (UPDATE idem_operations \
        SET parked_at = clock_timestamp(), due_at = NULL, reason = $4",
    fence!(),
    " RETURNING id) \
     UPDATE idem_keys k SET state = 2 FROM parked WHERE k.id = parked.id"
);

pub(super) const ALARM: &str = "\
    WITH parked AS (UPDATE idem_operations \
        SET attempt = attempt + 1, parked_at = coalesce(parked_at, clock_timestamp()), \
            due_at = NULL, reason = $2 WHERE id = $1 RETURNING id) \
    UPDATE idem_keys k SET state = 2 FROM parked WHERE k.id = parked.id";

pub(super) const RELEASE: &str = concat!(
    "WITH ended AS (DELETE FROM idem_operations",
    fence!(),
    " AND journal IS NULL RETURNING id) \
     DELETE FROM idem_keys k USING ended WHERE k.id = ended.id"
);

/// The rows are locked once, in their order, before any is written: a subquery in the update's own condition could be run
/// again. The answer's order is the one in which they were due.
pub(super) const TAKE_OVER: &str = concat!(
    "WITH due AS MATERIALIZED ( \
        SELECT id, due_at FROM idem_operations \
         WHERE due_at <= statement_timestamp() AND operation = ANY($1) \
         ORDER BY due_at LIMIT $4 FOR UPDATE SKIP LOCKED), \
      taken AS ( \
        UPDATE idem_operations o SET attempt = o.attempt + 1, tries = o.tries + 1, owner = $2, \
            due_at = clock_timestamp() + $3 * interval '1 millisecond' \
          FROM due WHERE o.id = due.id RETURNING o.*, due.due_at AS was_due) \
     SELECT ",
    columns!(),
    " FROM taken o ORDER BY o.was_due"
);

pub(super) const ORPHANS: &str = "\
    SELECT operation, count(*) FROM idem_operations \
     WHERE due_at <= statement_timestamp() AND operation <> ALL($1) \
     GROUP BY operation ORDER BY operation";

pub(super) const UNRESOLVED: &str = "\
    SELECT count(*) FILTER (WHERE due_at <= statement_timestamp()), \
           count(*) FILTER (WHERE parked_at IS NULL), \
           count(*) FILTER (WHERE parked_at IS NOT NULL), \
           coalesce((date_part('epoch', statement_timestamp() - min(created_at)) * 1000)::bigint, 0) \
      FROM idem_operations";

pub(super) const LIST: &str = concat!(
    "SELECT ",
    columns!(),
    " FROM idem_operations o \
     WHERE ($1::text IS NULL OR o.operation = $1) AND ($2::text IS NULL OR o.scope = $2) \
       AND ($3::boolean IS NULL OR (o.parked_at IS NOT NULL) = $3) \
       AND o.created_at <= statement_timestamp() - $4 * interval '1 millisecond' \
       AND ($5::bigint IS NULL OR (o.created_at, o.id) > \
            (timestamptz 'epoch' + $5 * interval '1 millisecond', $6::bytea)) \
     ORDER BY o.created_at, o.id LIMIT $7"
);

pub(super) const INSPECT: &str = concat!(
    "SELECT ",
    columns!(),
    " FROM idem_operations o WHERE o.id = $1"
);

pub(super) const DECIDE: &str = "\
    WITH decided AS ( \
        UPDATE idem_operations SET attempt = attempt + 1, tries = 0, due_at = clock_timestamp(), \
            parked_at = NULL, reason = NULL, journal = coalesce($3, journal), \
            journal_sealed = coalesce($4, journal_sealed), \
            recorded_at = CASE WHEN $3 IS NULL THEN recorded_at ELSE clock_timestamp() END \
         WHERE id = $1 AND attempt = $2 RETURNING id), \
      noted AS ( \
        INSERT INTO idem_audit (id, at, actor, action, reason, detail) \
        SELECT id, clock_timestamp(), $5, $6, $7, $8 FROM decided) \
    UPDATE idem_keys k SET state = 0 FROM decided WHERE k.id = decided.id";

pub(super) const AUDIT: &str = concat!(
    "SELECT ",
    ms!("at"),
    ", actor, action, reason, detail FROM idem_audit WHERE id = $1 ORDER BY entry"
);
