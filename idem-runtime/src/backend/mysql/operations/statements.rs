//! The statements, in the order of the methods.

/// What is left of the record that the claim took over.
pub(super) const CLEAR_KEY: &str = "\
    UPDATE idem_keys SET status = 0, headers = NULL, body = NULL, sealed = FALSE, resources = NULL, \
       completed_at = 0 WHERE id = ?";

pub(super) const START_OPERATION: &str = "\
    INSERT INTO idem_operations \
       (scope, operation, operation_id, definition, owner, inputs, inputs_sealed, created_at, \
        recorded_at, due_at, id) \
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)";

/// The last three parameters.
macro_rules! fence {
    () => {
        " WHERE id = ? AND attempt = ? AND owner = ? AND parked_at IS NULL"
    };
}

pub(super) const RECORD: &str = concat!(
    "UPDATE idem_operations SET journal = ?, journal_sealed = ?, recorded_at = ",
    now!(),
    ", due_at = ? + ",
    now!(),
    fence!()
);

pub(super) const RENEW: &str =
    concat!("UPDATE idem_operations SET due_at = ? + ", now!(), fence!());

pub(super) const HAND_OVER: &str = concat!(
    "UPDATE idem_operations SET tries = GREATEST(tries - ?, 0), due_at = ? + ",
    now!(),
    fence!()
);

pub(super) const END: &str = concat!("DELETE FROM idem_operations", fence!());

/// The record is its last attempt's. An update answers no rows, but the one number that `LAST_INSERT_ID` is given.
pub(super) const COMPLETE: &str = concat!(
    "UPDATE idem_keys JOIN (SELECT ",
    now!(),
    " AS now) t SET state = 1, owner = ?, status = ?, headers = ?, body = ?, sealed = ?, \
        resources = ?, completed_at = LAST_INSERT_ID(t.now), expires_at = t.now + ?, \
        retain_until = t.now + ? WHERE id = ?"
);

pub(super) const PARK: &str = concat!(
    "UPDATE idem_operations SET due_at = NULL, reason = ?, parked_at = ",
    now!(),
    fence!()
);

pub(super) const ALARM: &str = concat!(
    "UPDATE idem_operations SET attempt = attempt + 1, due_at = NULL, reason = ?, \
        parked_at = COALESCE(parked_at, ",
    now!(),
    ") WHERE id = ?"
);

pub(super) const SET_STATE: &str = "UPDATE idem_keys SET state = ? WHERE id = ?";

pub(super) const RELEASE: &str = concat!(
    "DELETE FROM idem_operations",
    fence!(),
    " AND journal IS NULL"
);

pub(super) const RELEASE_KEY: &str = "DELETE FROM idem_keys WHERE id = ?";

macro_rules! select {
    ($($rest:expr),* $(,)?) => {
        concat!(
            "SELECT o.*, CAST(",
            now!(),
            " AS SIGNED) AS now_ms FROM idem_operations o ",
            $($rest),*
        )
    };
}

/// By the index, whatever the optimizer thinks of a small table: a sort would lock every row that is due. Goes on with names.
pub(super) const DUE: &str = select!(
    "FORCE INDEX (idem_operations_due_at) WHERE due_at <= ",
    now!(),
    " AND operation IN ("
);

/// Goes on with ids.
pub(super) const TAKE_OVER: &str = "\
    UPDATE idem_operations SET attempt = attempt + 1, tries = tries + 1, owner = ";

/// Goes on with names.
pub(super) const ORPHANS: &str = concat!(
    "SELECT operation, COUNT(*) FROM idem_operations WHERE due_at <= ",
    now!()
);

pub(super) const UNRESOLVED: &str = concat!(
    "SELECT CAST(COALESCE(SUM(due_at <= ",
    now!(),
    "), 0) AS SIGNED), CAST(COALESCE(SUM(parked_at IS NULL), 0) AS SIGNED), \
        CAST(COALESCE(SUM(parked_at IS NOT NULL), 0) AS SIGNED), CAST(COALESCE(",
    now!(),
    " - MIN(created_at), 0) AS SIGNED) FROM idem_operations"
);

/// Goes on with the other conditions.
pub(super) const LIST: &str = select!("WHERE created_at <= ", now!(), " - ");

pub(super) const INSPECT: &str = select!("WHERE id = ?");

pub(super) const DECIDE: &str = concat!(
    "UPDATE idem_operations JOIN (SELECT ",
    now!(),
    " AS now) t SET attempt = attempt + 1, tries = 0, parked_at = NULL, reason = NULL, \
        journal = COALESCE(?, journal), journal_sealed = COALESCE(?, journal_sealed), \
        recorded_at = IF(?, t.now, recorded_at), due_at = t.now WHERE id = ? AND attempt = ?"
);

pub(in crate::backend) const NOTE: &str = concat!(
    "INSERT INTO idem_audit (actor, action, reason, detail, id, at) VALUES (?, ?, ?, ?, ?, ",
    now!(),
    ")"
);

pub(super) const AUDIT: &str = "\
    SELECT at, actor, action, reason, detail FROM idem_audit WHERE id = ? ORDER BY entry";
