-- One row an operation with recovery points, from its claim to its completion: what is not resolved.
CREATE TABLE IF NOT EXISTS idem_operations (
    id             BINARY(32) PRIMARY KEY,      -- its key's
    scope          VARBINARY(1024) NOT NULL,
    operation      VARBINARY(255) NOT NULL,
    operation_id   BINARY(16) NOT NULL,         -- the UUID's bytes
    definition     INT NOT NULL,                -- of the handler that began it
    attempt        INT NOT NULL DEFAULT 1,      -- what an attempt writes says which it is
    owner          BINARY(16) NOT NULL,         -- the attempt's own, drawn at its beginning
    tries          INT NOT NULL DEFAULT 1,      -- attempts that did not end in order
    inputs         LONGBLOB NOT NULL,           -- the handler's arguments
    inputs_sealed  BOOLEAN NOT NULL,            -- they are encrypted
    journal        LONGBLOB,                    -- of its steps; NULL before the first is recorded
    journal_sealed BOOLEAN NOT NULL DEFAULT FALSE,
    created_at     BIGINT NOT NULL,             -- milliseconds since 1970, as all times
    recorded_at    BIGINT NOT NULL,             -- when the journal was last written
    due_at         BIGINT,                      -- when the lease ends; NULL while the outcome is unknown
    parked_at      BIGINT,                      -- since when it is unknown
    reason         MEDIUMBLOB,                  -- why
    KEY idem_operations_due_at (due_at),
    KEY idem_operations_created_at (created_at, id)
) ENGINE = InnoDB;

-- What operators did. It outlives operation and key, and holds nothing of either but the key's digest.
CREATE TABLE IF NOT EXISTS idem_audit (
    entry  BIGINT AUTO_INCREMENT PRIMARY KEY,
    id     BINARY(32) NOT NULL,                 -- the key's
    at     BIGINT NOT NULL,
    actor  BLOB NOT NULL,
    action VARBINARY(255) NOT NULL,
    reason MEDIUMBLOB NOT NULL,
    detail MEDIUMBLOB,                          -- as JSON
    KEY idem_audit_id (id, entry)
) ENGINE = InnoDB;
