//! The statements of a key's record.

/// The columns of a record, in the order in which [`super::rows`] reads them.
macro_rules! columns {
    () => {
        "r.state, r.owner, r.fingerprint_version, r.fingerprint, r.fingerprint_options, r.status, \
         r.headers, r.body, r.sealed, r.resources, \
         (date_part('epoch', r.expires_at) * 1000)::bigint AS expires_ms, \
         CASE WHEN r.expires_at IS NULL OR r.expires_at > statement_timestamp() THEN 0 \
              WHEN r.retain_until > statement_timestamp() THEN 1 ELSE 2 END AS standing"
    };
}

/// Any isolation. Own statement, own snapshot.
pub(super) const LOOK: &str = concat!("SELECT ", columns!(), " FROM idem_keys r WHERE r.id = $1");

/// The same, for the key's owner.
pub(super) const LOOK_OWNED: &str = concat!(
    "SELECT ",
    columns!(),
    " FROM idem_keys r WHERE r.id = $1 AND r.scope = $2"
);

/// Any isolation. Several records at once.
pub(super) const LOOK_TOGETHER: &str = concat!(
    "SELECT ",
    columns!(),
    ", r.id FROM idem_keys r WHERE r.id = ANY($1)"
);

/// READ COMMITTED: the snapshot is this statement's, taken before the lock. Above it: the
/// transaction's, and this is its first statement. Either may miss a record that was committed while
/// this statement waited for nothing; [`COMPLETE`] finds it.
///
/// A key that was looked for before, as the last argument says, is not looked for again: see [`super::serializable`]. Then what was committed since
/// is missed, too.
pub(super) const CLAIM: &str = "\
    SELECT pg_backend_pid() AS process, \
       CASE WHEN l.won THEN pg_current_xact_id()::text END AS transaction, \
       CASE WHEN $4 IS NULL THEN EXISTS (SELECT FROM idem_keys WHERE id = $1) ELSE $4 END AS found \
      FROM (SELECT pg_try_advisory_xact_lock($2, $3) AS won) l";

/// The same without the lock, which is won by all.
pub(super) const CLAIM_UNLOCKED: &str = "\
    SELECT pg_backend_pid() AS process, pg_current_xact_id()::text AS transaction, \
       CASE WHEN $2 IS NULL THEN EXISTS (SELECT FROM idem_keys WHERE id = $1) ELSE $2 END AS found";

macro_rules! insert {
    ($($rest:literal),*) => {
        concat!(
            "INSERT INTO idem_keys AS k \
               (id, scope, operation, owner, fingerprint_version, fingerprint, fingerprint_options, \
                status, headers, body, sealed, resources, state, created_at, completed_at, \
                expires_at, retain_until) \
             SELECT $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $15, now(), \
                statement_timestamp(), \
                statement_timestamp() + $13 * interval '1 millisecond', \
                statement_timestamp() + $14 * interval '1 millisecond' ",
            $($rest,)*
            " RETURNING (date_part('epoch', expires_at) * 1000)::bigint"
        )
    };
}

/// Replaces a record whose retention is over and never any other.
macro_rules! replace {
    ($condition:literal) => {
        insert!(
            $condition,
            " ON CONFLICT (id) DO UPDATE SET \
                scope = excluded.scope, operation = excluded.operation, state = excluded.state, \
                attempt = k.attempt + 1, owner = excluded.owner, \
                fingerprint_version = excluded.fingerprint_version, \
                fingerprint = excluded.fingerprint, \
                fingerprint_options = excluded.fingerprint_options, status = excluded.status, \
                headers = excluded.headers, body = excluded.body, sealed = excluded.sealed, \
                resources = excluded.resources, created_at = excluded.created_at, \
                completed_at = excluded.completed_at, expires_at = excluded.expires_at, \
                retain_until = excluded.retain_until \
              WHERE k.state = 1 AND k.retain_until <= statement_timestamp()"
        )
    };
}

/// For a key without a record, and only if this is still the claim's transaction. Any isolation: a record
/// that another attempt committed meanwhile is a unique violation, whatever the snapshot. Not `ON CONFLICT`,
/// which inserts speculatively and writes a second time to confirm.
pub(super) const COMPLETE: &str = insert!("WHERE pg_current_xact_id_if_assigned()::text = $16");

/// The same where the claim left a mark.
pub(super) const COMPLETE_MARKED: &str = insert!("WHERE current_setting('idem.claim', true) = $16");

/// The same for a key whose record is past its retention. At REPEATABLE READ and above a record that the
/// snapshot can't see raises 40001.
pub(super) const COMPLETE_OVER: &str =
    replace!("WHERE pg_current_xact_id_if_assigned()::text = $16");

/// Cancels what the holders of advisory locks run. The view shows the two integers as unsigned ones.
pub(super) const CANCEL_HOLDERS: &str = "\
    SELECT pg_cancel_backend(pid) FROM pg_locks \
     WHERE locktype = 'advisory' AND granted AND objsubid = 2 \
       AND database = (SELECT oid FROM pg_database WHERE datname = current_database())";

/// In no transaction: for answers whose effect was rolled back, and for `unknown`.
pub(super) const SETTLE_ALONE: &str = replace!("");
