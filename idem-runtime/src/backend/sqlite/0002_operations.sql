-- One row an operation with recovery points, from its claim to its completion: what is not resolved.
CREATE TABLE idem_operations (
    id             BLOB PRIMARY KEY NOT NULL,   -- its key's
    scope          TEXT NOT NULL,
    operation      TEXT NOT NULL,
    operation_id   BLOB NOT NULL,               -- the UUID's 16 bytes
    definition     INTEGER NOT NULL,            -- of the handler that began it
    attempt        INTEGER NOT NULL DEFAULT 1,  -- what an attempt writes says which it is
    owner          BLOB NOT NULL,               -- the attempt's own, drawn at its beginning
    tries          INTEGER NOT NULL DEFAULT 1,  -- attempts that did not end in order
    inputs         BLOB NOT NULL,               -- the handler's arguments
    inputs_sealed  INTEGER NOT NULL,            -- they are encrypted
    journal        BLOB,                        -- of its steps; NULL before the first is recorded
    journal_sealed INTEGER NOT NULL DEFAULT 0,
    created_at     INTEGER NOT NULL,            -- milliseconds since 1970, as all times
    recorded_at    INTEGER NOT NULL,            -- when the journal was last written
    due_at         INTEGER,                     -- when the lease ends; NULL while the outcome is unknown
    parked_at      INTEGER,                     -- since when it is unknown
    reason         TEXT                         -- why
) STRICT;

CREATE INDEX idem_operations_due_at ON idem_operations (due_at) WHERE due_at IS NOT NULL;
CREATE INDEX idem_operations_created_at ON idem_operations (created_at, id);

-- What operators did. It outlives operation and key, and holds nothing of either but the key's digest.
CREATE TABLE idem_audit (
    entry  INTEGER PRIMARY KEY,
    id     BLOB NOT NULL,                       -- the key's
    at     INTEGER NOT NULL,
    actor  TEXT NOT NULL,
    action TEXT NOT NULL,
    reason TEXT NOT NULL,
    detail TEXT                                 -- as JSON
) STRICT;

CREATE INDEX idem_audit_id ON idem_audit (id, entry);
