//! The statements, in the order of the methods.

pub(super) const STAGE: &str = concat!(
    "INSERT INTO idem_outbox \
       (id, topic, ordering_key, lane, content_type, headers, payload, staged_at, state, state_at) \
     SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7, t.now, ?8, t.now + ?9 FROM (SELECT ",
    now!(),
    " AS now) t"
);

pub(super) const GONE: &str = concat!(
    "DELETE FROM idem_outbox_relays WHERE lease_until <= ",
    now!()
);

pub(super) const HERE: &str = concat!(
    "INSERT INTO idem_outbox_relays (relay, lease_until) VALUES (?1, ",
    now!(),
    " + ?2) ON CONFLICT (relay) DO UPDATE SET lease_until = excluded.lease_until"
);

pub(super) const RELAYS: &str = "SELECT count(*) FROM idem_outbox_relays";

pub(super) const RENEW_LANES: &str = concat!(
    "UPDATE idem_outbox_lanes SET lease_until = ",
    now!(),
    " + ?2 WHERE relay = ?1 RETURNING lane"
);

pub(super) const TAKE_LANES: &str = concat!(
    "UPDATE idem_outbox_lanes SET relay = ?1, lease_until = ",
    now!(),
    " + ?2 WHERE lane IN ( \
        SELECT lane FROM idem_outbox_lanes WHERE relay IS NULL OR lease_until <= ",
    now!(),
    " ORDER BY lane LIMIT ?3)"
);

pub(super) const GIVE_LANES: &str = "\
    UPDATE idem_outbox_lanes SET relay = NULL, lease_until = NULL \
     WHERE relay = ?1 AND (?2 >> lane) & 1 = 1";

pub(super) const LEAVE: &str = "DELETE FROM idem_outbox_relays WHERE relay = ?1";

macro_rules! message {
    () => {
        "o.position, o.id, o.lane, o.topic, o.ordering_key, o.content_type, o.headers, o.payload, o.state, \
         o.state_at, o.attempts, o.staged_at AS staged_ms"
    };
}

pub(super) const FETCH_DUE: &str = concat!(
    "SELECT * FROM (SELECT ",
    message!(),
    " FROM idem_outbox o WHERE o.state IN (1, 2) AND o.state_at <= ",
    now!()
);

pub(super) const FETCH_PENDING: &str = concat!(
    ") UNION ALL SELECT * FROM (SELECT ",
    message!(),
    " FROM idem_outbox o WHERE o.state = 0 AND o.position > "
);

pub(super) const NOT_BLOCKED: &str = " AND NOT EXISTS (SELECT 1 FROM idem_outbox b \
     WHERE b.state = 2 AND b.ordering_key = o.ordering_key AND b.position < o.position)";

pub(super) const DELETE_DELIVERED: &str =
    "DELETE FROM idem_outbox WHERE state <> 3 AND position IN (";

pub(super) const KEEP_DELIVERED: &str = concat!(
    "UPDATE idem_outbox SET state = 3, state_at = ",
    now!(),
    ", reason = NULL, attempts = attempts + 1 WHERE state <> 3 AND position IN ("
);

/// What another relay has said meanwhile stands.
pub(super) const FAIL: &str = concat!(
    "UPDATE idem_outbox SET state = CASE WHEN ?3 IS NULL THEN 4 ELSE 2 END, state_at = ",
    now!(),
    " + coalesce(?3, 0), attempts = attempts + 1, reason = ?4 \
     WHERE position = ?1 AND attempts = ?2 AND state IN (0, 1, 2)"
);

pub(super) const SWEEP: &str = concat!(
    "DELETE FROM idem_outbox WHERE position IN ( \
        SELECT position FROM idem_outbox WHERE state = 3 AND state_at <= ",
    now!(),
    " - ?1 ORDER BY state_at LIMIT ?2)"
);

macro_rules! seen {
    () => {
        concat!(
            "SELECT position, id, topic, ordering_key, content_type, headers, state, attempts, \
               reason, length(payload) AS size, staged_at AS staged_ms, state_at AS state_ms, ",
            now!(),
            " AS now_ms"
        )
    };
}

pub(super) const LIST: &str = concat!(
    seen!(),
    " FROM idem_outbox \
     WHERE (?1 IS NULL OR state = ?1) AND (?2 IS NULL OR topic = ?2) \
       AND (?3 IS NULL OR ordering_key = ?3) AND (?4 IS NULL OR position > ?4) \
     ORDER BY position LIMIT ?5"
);

pub(super) const SHOW: &str = concat!(seen!(), ", payload FROM idem_outbox WHERE id = ?1");

/// One that failed keeps its place: its key waits for it.
pub(super) const REQUEUE: &str = concat!(
    "UPDATE idem_outbox SET state = CASE WHEN state = 2 THEN 2 ELSE 1 END, state_at = ",
    now!(),
    ", attempts = 0, reason = NULL WHERE id = ?1 AND state <> 3 AND state <> 0"
);

pub(super) const DROP: &str = "DELETE FROM idem_outbox WHERE id = ?1 AND state <> 3";

pub(super) const COUNT: &str = concat!(
    "SELECT state, count(*), ",
    now!(),
    " - min(staged_at) FROM idem_outbox GROUP BY state"
);
