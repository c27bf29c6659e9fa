-- Messages that commit with an effect and are published afterwards. A row goes when its publisher confirms it, unless
-- delivered ones are kept.
CREATE TABLE idem_outbox (
    position     INTEGER PRIMARY KEY AUTOINCREMENT,
    id           BLOB NOT NULL UNIQUE,          -- a UUID of version 7: its 16 bytes
    topic        TEXT NOT NULL,
    ordering_key TEXT,
    lane         INTEGER NOT NULL,              -- of the ordering key: one relay's at a time
    content_type TEXT NOT NULL,
    headers      TEXT,                          -- names and values, as JSON
    payload      BLOB NOT NULL,
    staged_at    INTEGER NOT NULL,              -- milliseconds since 1970, as all times
    state        INTEGER NOT NULL,              -- 0 pending, 1 delayed, 2 failed, 3 delivered, 4 dead
    state_at     INTEGER NOT NULL,              -- until when it waits, or since when it is delivered or dead
    attempts     INTEGER NOT NULL DEFAULT 0,
    reason       TEXT                           -- why the last attempt failed
) STRICT;

CREATE INDEX idem_outbox_pending ON idem_outbox (position, lane) WHERE state = 0;
CREATE INDEX idem_outbox_waiting ON idem_outbox (state_at) WHERE state IN (1, 2);
CREATE INDEX idem_outbox_blocking ON idem_outbox (ordering_key, position) WHERE state = 2;
CREATE INDEX idem_outbox_delivered ON idem_outbox (state_at) WHERE state = 3;
CREATE INDEX idem_outbox_dead ON idem_outbox (position) WHERE state = 4;

-- Which relay reads a lane.
CREATE TABLE idem_outbox_lanes (
    lane        INTEGER PRIMARY KEY,
    relay       BLOB,                           -- NULL: nobody's
    lease_until INTEGER
) STRICT;

INSERT INTO idem_outbox_lanes (lane)
WITH RECURSIVE lanes (lane) AS (SELECT 0 UNION ALL SELECT lane + 1 FROM lanes WHERE lane < 63)
SELECT lane FROM lanes;

-- Which relays there are, to share the lanes among them.
CREATE TABLE idem_outbox_relays (
    relay       BLOB PRIMARY KEY NOT NULL,
    lease_until INTEGER NOT NULL
) STRICT;
