-- Messages that commit with an effect and are published afterwards. A row goes when its publisher confirms it, unless
-- delivered ones are kept.
CREATE TABLE idem_outbox (
    id           bytea PRIMARY KEY,             -- a UUID of version 7: its 16 bytes
    position     bigint GENERATED ALWAYS AS IDENTITY, -- in the order of staging, not of commits
    topic        text NOT NULL,
    ordering_key text,
    lane         smallint NOT NULL,             -- of the ordering key: one relay's at a time
    content_type text NOT NULL,
    headers      text,                          -- names and values, as JSON
    payload      bytea NOT NULL,
    staged_at    timestamptz NOT NULL,
    state        smallint NOT NULL,             -- 0 pending, 1 delayed, 2 failed, 3 delivered, 4 dead
    state_at     timestamptz NOT NULL,          -- until when it waits, or since when it is delivered or dead
    attempts     integer NOT NULL DEFAULT 0,
    reason       text                           -- why the last attempt failed
) WITH (autovacuum_vacuum_scale_factor = 0.02);

CREATE INDEX idem_outbox_pending ON idem_outbox (position, lane) WHERE state = 0;
-- Not `state IN (1, 2)`: the planner would look here, too, whether a key has a failed message.
CREATE INDEX idem_outbox_waiting ON idem_outbox (state_at) WHERE (state + 0) IN (1, 2);
CREATE INDEX idem_outbox_blocking ON idem_outbox (ordering_key, position) WHERE state = 2 AND ordering_key IS NOT NULL;
CREATE INDEX idem_outbox_delivered ON idem_outbox (state_at) WHERE state = 3;
CREATE INDEX idem_outbox_dead ON idem_outbox (position) WHERE state = 4;

-- Which relay reads a lane.
CREATE TABLE idem_outbox_lanes (
    lane        smallint PRIMARY KEY,
    relay       bytea,                          -- NULL: nobody's
    lease_until timestamptz
);

INSERT INTO idem_outbox_lanes (lane) SELECT generate_series(0, 63);

-- Which relays there are, to share the lanes among them.
CREATE TABLE idem_outbox_relays (
    relay       bytea PRIMARY KEY,
    lease_until timestamptz NOT NULL
);
