-- One row a key. Effects commit with it, so a row that is completed proves its effect.
CREATE TABLE IF NOT EXISTS idem_schema (
    version    INTEGER PRIMARY KEY,
    applied_at TEXT NOT NULL DEFAULT (datetime('now'))
) STRICT;

CREATE TABLE idem_keys (
    id                  BLOB PRIMARY KEY NOT NULL,  -- a digest of scope and key, led by the time of a UUIDv7 or ULID
    scope               TEXT NOT NULL,              -- who owns the key; for erasure and listing
    operation           TEXT NOT NULL,
    state               INTEGER NOT NULL,           -- 0 started, 1 completed, 2 unknown
    attempt             INTEGER NOT NULL DEFAULT 1,
    owner               BLOB NOT NULL,              -- the request that wrote the row
    fingerprint_version INTEGER NOT NULL,
    fingerprint         BLOB NOT NULL,
    fingerprint_options TEXT,                       -- what it counts and ignores besides
    status              INTEGER NOT NULL,
    headers             BLOB,                       -- NULL once erased, or rebuilt on replay
    body                BLOB,
    sealed              INTEGER NOT NULL DEFAULT 0, -- headers and body are encrypted
    resources           TEXT,                       -- what the operation made, as JSON
    created_at          INTEGER NOT NULL,           -- milliseconds since 1970, as all times
    completed_at        INTEGER NOT NULL,
    expires_at          INTEGER,                    -- NULL unless completed
    retain_until        INTEGER                     -- expires_at and the tombstone's lifetime
) STRICT;

CREATE INDEX idem_keys_expires_at ON idem_keys (expires_at) WHERE expires_at IS NOT NULL;
