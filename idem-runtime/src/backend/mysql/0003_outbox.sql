-- Messages that commit with an effect and are published afterwards. A row goes when its publisher confirms it, unless
-- delivered ones are kept.
CREATE TABLE IF NOT EXISTS idem_outbox (
    position     BIGINT AUTO_INCREMENT PRIMARY KEY,
    id           BINARY(16) NOT NULL,           -- a UUID of version 7
    topic        VARBINARY(255) NOT NULL,
    ordering_key VARBINARY(255),
    lane         SMALLINT NOT NULL,             -- of the ordering key: one relay's at a time
    content_type VARBINARY(255) NOT NULL,
    headers      MEDIUMBLOB,                    -- names and values, as JSON
    payload      LONGBLOB NOT NULL,
    staged_at    BIGINT NOT NULL,               -- milliseconds since 1970, as all times
    state        SMALLINT NOT NULL,             -- 0 pending, 1 delayed, 2 failed, 3 delivered, 4 dead
    state_at     BIGINT NOT NULL,               -- until when it waits, or since when it is delivered or dead
    attempts     INT NOT NULL DEFAULT 0,
    reason       MEDIUMBLOB,                    -- why the last attempt failed
    blocking     VARBINARY(255) AS (CASE WHEN state = 2 THEN ordering_key END) VIRTUAL,
    UNIQUE KEY idem_outbox_id (id),
    KEY idem_outbox_state (state, position, lane),
    KEY idem_outbox_state_at (state, state_at),
    KEY idem_outbox_blocking (blocking, position)
) ENGINE = InnoDB;

-- Which relay reads a lane.
CREATE TABLE IF NOT EXISTS idem_outbox_lanes (
    lane        SMALLINT PRIMARY KEY,
    relay       BINARY(16),                     -- NULL: nobody's
    lease_until BIGINT
) ENGINE = InnoDB;

INSERT IGNORE INTO idem_outbox_lanes (lane)
WITH RECURSIVE lanes (lane) AS (SELECT 0 UNION ALL SELECT lane + 1 FROM lanes WHERE lane < 63)
SELECT lane FROM lanes;

-- Which relays there are, to share the lanes among them.
CREATE TABLE IF NOT EXISTS idem_outbox_relays (
    relay       BINARY(16) PRIMARY KEY,
    lease_until BIGINT NOT NULL
) ENGINE = InnoDB;
