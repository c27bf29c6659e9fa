//! The statements, in the order of the methods.

/// A time in milliseconds since 1970.
macro_rules! ms {
    ($time:literal) => {
        concat!("(date_part('epoch', ", $time, ") * 1000)::bigint")
    };
}

/// What commits with staged messages says so here.
pub(super) const CHANNEL: &str = "idem_outbox";

/// The transaction has its number before the message has its position: a relay may then conclude from the numbers of running
/// transactions that no message is still to appear before a position. One notification a transaction is sent, however many
/// are asked for.
macro_rules! stage {
    ($returning:literal) => {
        concat!(
            "INSERT INTO idem_outbox \
               (id, topic, ordering_key, lane, content_type, headers, payload, staged_at, state, state_at) \
             SELECT $1, $2, $3, $4, $5, $6, $7, statement_timestamp(), $8, \
                    statement_timestamp() + $9 * interval '1 millisecond' \
              WHERE pg_current_xact_id() IS NOT NULL",
            $returning
        )
    };
}

pub(super) const STAGE: &str = stage!("");

pub(super) const STAGE_AND_NOTIFY: &str = stage!(" RETURNING pg_notify('idem_outbox', '') IS NULL");

/// Answers how many others there are.
pub(super) const ENLIST: &str = "\
    WITH gone AS ( \
        DELETE FROM idem_outbox_relays WHERE relay IN ( \
            SELECT relay FROM idem_outbox_relays \
             WHERE lease_until <= statement_timestamp() AND relay <> $1 FOR UPDATE SKIP LOCKED)), \
      here AS ( \
        INSERT INTO idem_outbox_relays (relay, lease_until) \
        VALUES ($1, statement_timestamp() + $2 * interval '1 millisecond') \
        ON CONFLICT (relay) DO UPDATE SET lease_until = excluded.lease_until) \
    SELECT count(*) FROM idem_outbox_relays \
     WHERE lease_until > statement_timestamp() AND relay <> $1";

pub(super) const RENEW_LANES: &str = "\
    UPDATE idem_outbox_lanes SET lease_until = statement_timestamp() + $2 * interval '1 millisecond' \
     WHERE relay = $1 RETURNING lane";

pub(super) const TAKE_LANES: &str = "\
    WITH free AS MATERIALIZED ( \
        SELECT lane FROM idem_outbox_lanes \
         WHERE relay IS NULL OR lease_until <= statement_timestamp() \
         ORDER BY lane LIMIT $3 FOR UPDATE SKIP LOCKED) \
    UPDATE idem_outbox_lanes l \
       SET relay = $1, lease_until = statement_timestamp() + $2 * interval '1 millisecond' \
      FROM free WHERE l.lane = free.lane";

pub(super) const GIVE_LANES: &str = "\
    UPDATE idem_outbox_lanes SET relay = NULL, lease_until = NULL \
     WHERE relay = $1 AND ($2::bigint >> lane::int) & 1 = 1";

pub(super) const LEAVE: &str = "DELETE FROM idem_outbox_relays WHERE relay = $1";

/// Where transactions stand, and whether any key waits for a failed message, once for all rows. Transactions are told by their
/// numbers; those of subtransactions are greater than their own.
pub(super) const FETCH: &str = "\
    seen AS MATERIALIZED ( \
        SELECT pg_snapshot_xmin(s)::text::bigint AS oldest, pg_snapshot_xmax(s)::text::bigint AS next, \
               (SELECT true FROM idem_outbox b WHERE b.state = 2 AND b.ordering_key IS NOT NULL \
                 ORDER BY b.ordering_key LIMIT 1) IS NOT NULL AS blocked \
          FROM pg_current_snapshot() s) \
    SELECT m.id, m.position, m.lane, m.topic, m.ordering_key, m.content_type, m.headers, m.payload, \
        m.state, m.attempts, m.staged_at, \
        (SELECT oldest FROM seen) AS oldest_transaction, (SELECT next FROM seen) AS next_transaction, \
        (SELECT blocked FROM seen) AS blocked FROM (";

pub(super) const FETCH_DUE: &str = "\
    SELECT * FROM (SELECT * FROM idem_outbox o \
     WHERE (o.state + 0) IN (1, 2) AND o.state_at <= statement_timestamp()";

/// The position is asked for in a subquery, as all that differs from batch to batch: what the planner does not know it plans
/// for once, and not again for each batch, which takes it longer than reading one does.
pub(super) const FETCH_PENDING: &str = ") due \
    UNION ALL SELECT * FROM (SELECT * FROM idem_outbox o WHERE o.state = 0 AND o.position > (SELECT ";

pub(super) const FETCH_END: &str = ") pending) m";

/// A scalar subquery, which is never made a join: one look into a small index for each row, whatever statistics say. Of
/// `coalesce` the planner expects that half of the rows pass; of `IS NULL`, that hardly any does, and then it sorts them all.
pub(super) const NOT_BLOCKED: &str = " AND (NOT (SELECT blocked FROM seen) OR coalesce( \
    (SELECT false FROM idem_outbox b \
      WHERE b.state = 2 AND b.ordering_key = o.ordering_key AND b.position < o.position LIMIT 1), true))";

/// The condition of what is settled as delivered. One that another relay has delivered and keeps stays as it is.
///
/// The commit does not wait until it is on disk: when a server loses its last commits, what they settled is published again, as
/// it is when a relay dies. What failed is not settled so: the messages that wait for it would overtake it.
macro_rules! delivered {
    () => {
        " WHERE state <> 3 AND (SELECT set_config('synchronous_commit', 'off', true)) IS NOT NULL \
            AND id = ANY ("
    };
}

pub(super) const DELETE_DELIVERED: &str = concat!("DELETE FROM idem_outbox", delivered!());

pub(super) const KEEP_DELIVERED: &str = concat!(
    "UPDATE idem_outbox SET state = 3, state_at = statement_timestamp(), reason = NULL, \
        attempts = attempts + 1",
    delivered!()
);

/// What another relay has said meanwhile stands.
pub(super) const FAIL: &str = "\
    UPDATE idem_outbox o \
       SET state = CASE WHEN f.delay IS NULL THEN 4 ELSE 2 END, \
           state_at = statement_timestamp() + coalesce(f.delay, 0) * interval '1 millisecond', \
           attempts = o.attempts + 1, reason = f.reason \
      FROM unnest($1::bytea[], $2::int[], $3::bigint[], $4::text[]) \
           AS f (id, attempts, delay, reason) \
     WHERE o.id = f.id AND o.attempts = f.attempts AND o.state IN (0, 1, 2)";

pub(super) const SWEEP: &str = "\
    DELETE FROM idem_outbox WHERE id = ANY (ARRAY( \
        SELECT id FROM idem_outbox \
         WHERE state = 3 AND state_at <= statement_timestamp() - $1 * interval '1 millisecond' \
         ORDER BY state_at LIMIT $2 FOR UPDATE SKIP LOCKED))";

macro_rules! seen {
    () => {
        concat!(
            "SELECT position, id, topic, ordering_key, content_type, headers, state, attempts, \
               reason, length(payload)::bigint AS size, ",
            ms!("staged_at"),
            " AS staged_ms, ",
            ms!("state_at"),
            " AS state_ms, ",
            ms!("clock_timestamp()"),
            " AS now_ms"
        )
    };
}

pub(super) const LIST: &str = concat!(
    seen!(),
    " FROM idem_outbox \
     WHERE ($1::smallint IS NULL OR state = $1) AND ($2::text IS NULL OR topic = $2) \
       AND ($3::text IS NULL OR ordering_key = $3) AND ($4::bigint IS NULL OR position > $4) \
     ORDER BY position LIMIT $5"
);

pub(super) const SHOW: &str = concat!(seen!(), ", payload FROM idem_outbox WHERE id = $1");

macro_rules! note {
    () => {
        "INSERT INTO idem_audit (id, at, actor, action, reason, detail) \
         SELECT $2, clock_timestamp(), $3, $4, $5, $6 FROM handled"
    };
}

/// One that failed keeps its place: its key waits for it.
pub(super) const REQUEUE: &str = concat!(
    "WITH handled AS ( \
        UPDATE idem_outbox SET state = CASE WHEN state = 2 THEN 2 ELSE 1 END, \
            state_at = statement_timestamp(), attempts = 0, reason = NULL \
         WHERE id = $1 AND state <> 3 AND state <> 0 RETURNING id) ",
    note!()
);

pub(super) const DROP: &str = concat!(
    "WITH handled AS (DELETE FROM idem_outbox WHERE id = $1 AND state <> 3 RETURNING id) ",
    note!()
);

pub(super) const COUNT: &str = "\
    SELECT state, count(*), \
           (date_part('epoch', statement_timestamp() - min(staged_at)) * 1000)::bigint \
      FROM idem_outbox GROUP BY state";
