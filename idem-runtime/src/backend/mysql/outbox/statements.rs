//! The statements, in the order of the methods.

pub(super) const STAGE: &str = concat!(
    "INSERT INTO idem_outbox \
       (id, topic, ordering_key, lane, content_type, headers, payload, state, staged_at, state_at) \
     VALUES (?, ?, ?, ?, ?, ?, ?, ?, ",
    now!(),
    ", ",
    now!(),
    " + ?)"
);

pub(super) const HERE: &str = concat!(
    "INSERT INTO idem_outbox_relays (relay, lease_until) VALUES (?, ",
    now!(),
    " + ?) ON DUPLICATE KEY UPDATE lease_until = VALUES(lease_until)"
);

pub(super) const GONE: &str = concat!(
    "SELECT relay FROM idem_outbox_relays WHERE lease_until <= ",
    now!(),
    " FOR UPDATE SKIP LOCKED"
);

pub(super) const RELAYS: &str = concat!(
    "SELECT count(*) FROM idem_outbox_relays WHERE lease_until > ",
    now!()
);

pub(super) const RENEW_LANES: &str = concat!(
    "UPDATE idem_outbox_lanes SET lease_until = ",
    now!(),
    " + ? WHERE relay = ?"
);

pub(super) const OWN_LANES: &str = "SELECT lane FROM idem_outbox_lanes WHERE relay = ?";

pub(super) const FREE_LANES: &str = concat!(
    "SELECT lane FROM idem_outbox_lanes WHERE relay IS NULL OR lease_until <= ",
    now!(),
    " ORDER BY lane LIMIT ? FOR UPDATE SKIP LOCKED"
);

pub(super) const TAKE_LANES: &str = concat!(
    "UPDATE idem_outbox_lanes SET relay = ?, lease_until = ",
    now!(),
    " + ? WHERE (? >> lane) & 1 = 1"
);

pub(super) const GIVE_LANES: &str = "\
    UPDATE idem_outbox_lanes SET relay = NULL, lease_until = NULL \
     WHERE relay = ? AND (? >> lane) & 1 = 1";

pub(super) const LEAVE: &str = "DELETE FROM idem_outbox_relays WHERE relay = ?";

macro_rules! message {
    () => {
        "o.position, o.id, o.lane, o.topic, o.ordering_key, o.content_type, o.headers, o.payload, o.state, \
         o.state_at, o.attempts, o.staged_at AS staged_ms"
    };
}

macro_rules! due {
    ($state:literal) => {
        concat!(
            "SELECT * FROM (SELECT ",
            message!(),
            " FROM idem_outbox o WHERE o.state = ",
            $state,
            " AND o.state_at <= ",
            now!()
        )
    };
}

/// Each state by itself: of two at once the server sorts all that are due.
pub(super) const FETCH_FAILED: &str = due!("2");

pub(super) const FETCH_DELAYED: &str = concat!(") failed UNION ALL ", due!("1"));

pub(super) const FETCH_PENDING: &str = concat!(
    ") waiting UNION ALL SELECT * FROM (SELECT ",
    message!(),
    " FROM idem_outbox o WHERE o.state = 0 AND o.position > "
);

pub(super) const NOT_BLOCKED: &str = " AND NOT EXISTS (SELECT 1 FROM idem_outbox b \
     WHERE b.blocking = o.ordering_key AND b.position < o.position)";

/// These messages, read by their positions alone: of a small table the optimizer would rather read all rows, and wait for
/// the requests that are staging.
macro_rules! chosen_messages {
    () => {
        "JSON_TABLE(?, '$[*]' COLUMNS (position BIGINT PATH '$')) AS chosen \
         STRAIGHT_JOIN idem_outbox AS o FORCE INDEX (PRIMARY) ON o.position = chosen.position"
    };
}

pub(super) const DELETE_DELIVERED: &str =
    concat!("DELETE o FROM ", chosen_messages!(), " WHERE o.state <> 3");

pub(super) const KEEP_DELIVERED: &str = concat!(
    "UPDATE ",
    chosen_messages!(),
    " SET o.state = 3, o.state_at = ",
    now!(),
    ", o.reason = NULL, o.attempts = o.attempts + 1 WHERE o.state <> 3"
);

/// What another relay has said meanwhile stands.
pub(super) const FAIL: &str = concat!(
    "UPDATE idem_outbox SET state = ?, state_at = ",
    now!(),
    " + ?, attempts = attempts + 1, reason = ? \
     WHERE position = ? AND attempts = ? AND state IN (0, 1, 2)"
);

pub(super) const OLD: &str = concat!(
    "SELECT position FROM idem_outbox WHERE state = 3 AND state_at <= ",
    now!(),
    " - ? ORDER BY state_at LIMIT ? FOR UPDATE SKIP LOCKED"
);

pub(super) const SWEEP: &str = concat!("DELETE o FROM ", chosen_messages!());

macro_rules! seen {
    () => {
        concat!(
            "SELECT position, id, topic, ordering_key, content_type, headers, state, attempts, \
               reason, CAST(LENGTH(payload) AS SIGNED) AS size, staged_at AS staged_ms, \
               state_at AS state_ms, CAST(",
            now!(),
            " AS SIGNED) AS now_ms"
        )
    };
}

pub(super) const LIST: &str = concat!(seen!(), " FROM idem_outbox WHERE TRUE");

pub(super) const SHOW: &str = concat!(seen!(), ", payload FROM idem_outbox WHERE id = ?");

/// One that failed keeps its place: its key waits for it.
pub(super) const REQUEUE: &str = concat!(
    "UPDATE idem_outbox SET state = CASE WHEN state = 2 THEN 2 ELSE 1 END, state_at = ",
    now!(),
    ", attempts = 0, reason = NULL WHERE id = ? AND state <> 3 AND state <> 0"
);

pub(super) const DROP: &str = "DELETE FROM idem_outbox WHERE id = ? AND state <> 3";

pub(super) const COUNT: &str = concat!(
    "SELECT state, COUNT(*), CAST(",
    now!(),
    " - MIN(staged_at) AS SIGNED) FROM idem_outbox GROUP BY state"
);
