//! The statements, in the order of the methods.

pub(super) const START_KEY: &str = concat!(
    "INSERT INTO idem_keys \
       (id, scope, operation, state, owner, fingerprint_version, fingerprint, fingerprint_options, \
        status, created_at, completed_at) \
     SELECT ?1, ?2, ?3, 0, ?4, ?5, ?6, ?7, 0, t.now, t.now FROM (SELECT ",
    now!(),
    " AS now) t WHERE true \
     ON CONFLICT (id) DO UPDATE SET \
        scope = excluded.scope, operation = excluded.operation, state = 0, \
        attempt = idem_keys.attempt + 1, owner = excluded.owner, \
        fingerprint_version = excluded.fingerprint_version, fingerprint = excluded.fingerprint, \
        fingerprint_options = excluded.fingerprint_options, status = 0, headers = NULL, body = NULL, \
        sealed = 0, resources = NULL, created_at = excluded.created_at, \
        completed_at = excluded.completed_at, expires_at = NULL, retain_until = NULL \
      WHERE idem_keys.state = 1 AND idem_keys.retain_until <= ",
    now!(),
    " RETURNING attempt > 1 AS took_over, created_at"
);

pub(super) const START_OPERATION: &str = "\
    INSERT INTO idem_operations \
       (id, scope, operation, operation_id, definition, owner, inputs, inputs_sealed, created_at, \
        recorded_at, due_at) \
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?9, ?9 + ?10)";

/// The first three parameters.
macro_rules! fence {
    () => {
        " WHERE id = ?1 AND attempt = ?2 AND owner = ?3 AND parked_at IS NULL"
    };
}

pub(super) const RECORD: &str = concat!(
    "UPDATE idem_operations SET journal = ?4, journal_sealed = ?5, recorded_at = ",
    now!(),
    ", due_at = ?6 + ",
    now!(),
    fence!()
);

pub(super) const RENEW: &str = concat!(
    "UPDATE idem_operations SET due_at = ?4 + ",
    now!(),
    fence!()
);

pub(super) const HAND_OVER: &str = concat!(
    "UPDATE idem_operations SET tries = max(tries - ?5, 0), due_at = ?4 + ",
    now!(),
    fence!()
);

pub(super) const END: &str = concat!("DELETE FROM idem_operations", fence!());

/// The record is its last attempt's.
pub(super) const COMPLETE: &str = concat!(
    "UPDATE idem_keys SET state = 1, owner = ?2, status = ?3, headers = ?4, body = ?5, sealed = ?6, \
        resources = ?7, completed_at = t.now, expires_at = t.now + ?8, retain_until = t.now + ?9 \
       FROM (SELECT ",
    now!(),
    " AS now) t WHERE id = ?1 RETURNING expires_at"
);

pub(super) const PARK: &str = concat!(
    "UPDATE idem_operations SET due_at = NULL, reason = ?4, parked_at = ",
    now!(),
    fence!()
);

pub(super) const ALARM: &str = concat!(
    "UPDATE idem_operations SET attempt = attempt + 1, due_at = NULL, reason = ?2, \
        parked_at = coalesce(parked_at, ",
    now!(),
    ") WHERE id = ?1"
);

pub(super) const SET_STATE: &str = "UPDATE idem_keys SET state = ?2 WHERE id = ?1";

pub(super) const RELEASE: &str = concat!(
    "DELETE FROM idem_operations",
    fence!(),
    " AND journal IS NULL"
);

pub(super) const RELEASE_KEY: &str = "DELETE FROM idem_keys WHERE id = ?1";

macro_rules! select {
    ($($rest:expr),* $(,)?) => {
        concat!("SELECT o.*, ", now!(), " AS now_ms FROM idem_operations o ", $($rest),*)
    };
}

/// Goes on with names.
pub(super) const DUE: &str = select!("WHERE due_at <= ", now!(), " AND operation IN (");

pub(super) const TAKE_OVER: &str = "\
    UPDATE idem_operations SET attempt = attempt + 1, tries = tries + 1, owner = ?2, due_at = ?3 \
     WHERE id = ?1";

/// Goes on with names.
pub(super) const ORPHANS: &str = concat!(
    "SELECT operation, count(*) FROM idem_operations WHERE due_at <= ",
    now!()
);

pub(super) const UNRESOLVED: &str = concat!(
    "SELECT count(*) FILTER (WHERE due_at <= ",
    now!(),
    "), count(*) FILTER (WHERE parked_at IS NULL), count(*) FILTER (WHERE parked_at IS NOT NULL), \
        coalesce(",
    now!(),
    " - min(created_at), 0) FROM idem_operations"
);

/// Goes on with the other conditions.
pub(super) const LIST: &str = select!("WHERE created_at <= ", now!(), " - ");

pub(super) const INSPECT: &str = select!("WHERE id = ?1");

pub(super) const DECIDE: &str = concat!(
    "UPDATE idem_operations SET attempt = attempt + 1, tries = 0, parked_at = NULL, reason = NULL, \
        journal = coalesce(?3, journal), journal_sealed = coalesce(?4, journal_sealed), \
        recorded_at = CASE WHEN ?3 IS NULL THEN recorded_at ELSE t.now END, due_at = t.now \
       FROM (SELECT ",
    now!(),
    " AS now) t WHERE id = ?1 AND attempt = ?2"
);

pub(in crate::backend) const NOTE: &str = concat!(
    "INSERT INTO idem_audit (id, actor, action, reason, detail, at) VALUES (?1, ?2, ?3, ?4, ?5, ",
    now!(),
    ")"
);

pub(super) const AUDIT: &str = "\
    SELECT at, actor, action, reason, detail FROM idem_audit WHERE id = ?1 ORDER BY entry";
