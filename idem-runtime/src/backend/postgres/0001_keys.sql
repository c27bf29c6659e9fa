-- One row a key. Effects commit with it, so a row that is completed proves its effect.
CREATE TABLE IF NOT EXISTS idem_schema (
    version    bigint PRIMARY KEY,
    applied_at timestamptz NOT NULL DEFAULT now()
);

CREATE TABLE idem_keys (
    id                  bytea PRIMARY KEY,          -- a digest of scope and key, led by the time of a UUIDv7 or ULID
    scope               text NOT NULL,              -- who owns the key; for erasure and listing
    operation           text NOT NULL,
    state               smallint NOT NULL,          -- 0 started, 1 completed, 2 unknown
    attempt             integer NOT NULL DEFAULT 1,
    owner               bytea NOT NULL,             -- the request that wrote the row
    fingerprint_version smallint NOT NULL,
    fingerprint         bytea NOT NULL,
    fingerprint_options text,                       -- what it counts and ignores besides
    status              integer NOT NULL,
    headers             bytea,                      -- NULL once erased, or rebuilt on replay
    body                bytea,
    sealed              boolean NOT NULL DEFAULT false, -- headers and body are encrypted
    resources           text,                       -- what the operation made, as JSON
    created_at          timestamptz NOT NULL,
    completed_at        timestamptz NOT NULL,
    expires_at          timestamptz,                -- NULL unless completed
    retain_until        timestamptz                 -- expires_at and the tombstone's lifetime
) WITH (autovacuum_vacuum_scale_factor = 0.02,      -- a sweep's dead rows, before they are a fifth of a large table
        autovacuum_analyze_scale_factor = 0.02);

-- Expiry follows insertion closely, and a block range index costs a tenth of a B-tree's writes.
CREATE INDEX idem_keys_expires_at ON idem_keys USING brin (expires_at) WITH (autosummarize = on);
