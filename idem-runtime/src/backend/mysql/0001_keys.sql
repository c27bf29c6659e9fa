CREATE TABLE IF NOT EXISTS idem_schema (
    version    BIGINT PRIMARY KEY,
    applied_at DATETIME NOT NULL DEFAULT CURRENT_TIMESTAMP
) ENGINE = InnoDB;

-- One row a key. Effects commit with it, so a row that is completed proves its effect.
CREATE TABLE IF NOT EXISTS idem_keys (
    id                  BINARY(32) PRIMARY KEY,     -- a digest of scope and key, led by the time of a UUIDv7 or ULID
    scope               VARBINARY(1024) NOT NULL,   -- who owns the key; for erasure and listing
    operation           VARBINARY(255) NOT NULL,
    state               SMALLINT NOT NULL,          -- 0 started, 1 completed, 2 unknown
    attempt             INT NOT NULL DEFAULT 1,
    owner               BINARY(16) NOT NULL,        -- the request that wrote the row
    fingerprint_version SMALLINT NOT NULL,
    fingerprint         BINARY(32) NOT NULL,
    fingerprint_options BLOB,                       -- what it counts and ignores besides
    status              INT NOT NULL,
    headers             MEDIUMBLOB,                 -- NULL once erased, or rebuilt on replay
    body                LONGBLOB,
    sealed              BOOLEAN NOT NULL DEFAULT FALSE, -- headers and body are encrypted
    resources           BLOB,                       -- what the operation made, as JSON
    created_at          BIGINT NOT NULL,            -- milliseconds since 1970, as all times
    completed_at        BIGINT NOT NULL,
    expires_at          BIGINT,                     -- NULL unless completed
    retain_until        BIGINT,                     -- expires_at and the tombstone's lifetime
    KEY idem_keys_expires_at (expires_at)
) ENGINE = InnoDB;
