-- One row an operation with recovery points, from its claim to its completion: what is not resolved.
CREATE TABLE idem_operations (
    id             bytea PRIMARY KEY,           -- its key's
    scope          text NOT NULL,
    operation      text NOT NULL,
    operation_id   bytea NOT NULL,              -- the UUID's 16 bytes
    definition     integer NOT NULL,            -- of the handler that began it
    attempt        integer NOT NULL DEFAULT 1,  -- what an attempt writes says which it is
    owner          bytea NOT NULL,              -- the attempt's own, drawn at its beginning
    tries          integer NOT NULL DEFAULT 1,  -- attempts that did not end in order
    inputs         bytea NOT NULL,              -- the handler's arguments
    inputs_sealed  boolean NOT NULL,            -- they are encrypted
    journal        bytea,                       -- of its steps; NULL before the first is recorded
    journal_sealed boolean NOT NULL DEFAULT false,
    created_at     timestamptz NOT NULL,        -- whole milliseconds: a page of a list ends at one
    recorded_at    timestamptz NOT NULL,        -- when the journal was last written
    due_at         timestamptz,                 -- when the lease ends; NULL while the outcome is unknown
    parked_at      timestamptz,                 -- since when it is unknown
    reason         text                         -- why
) WITH (fillfactor = 50,                        -- a step's record stays in its page, and out of the indexes
        vacuum_truncate = off);

-- The planner goes by the size of the file, and keeps the plan: one of a few pages would be read whole for each statement, also
-- when it has become large. So it is never small.
INSERT INTO idem_operations (id, scope, operation, operation_id, definition, owner, inputs, inputs_sealed, created_at, recorded_at)
SELECT sha256(convert_to(n::text, 'UTF8')), '', '', '', 0, '', convert_to(repeat('-', 1500), 'UTF8'), false, now(), now()
  FROM generate_series(1, 128) n;
DELETE FROM idem_operations;

CREATE INDEX idem_operations_due_at ON idem_operations (due_at) WHERE due_at IS NOT NULL;

-- What operators did. It outlives operation and key, and holds nothing of either but the key's digest.
CREATE TABLE idem_audit (
    entry  bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id     bytea NOT NULL,                      -- the key's
    at     timestamptz NOT NULL,
    actor  text NOT NULL,
    action text NOT NULL,
    reason text NOT NULL,
    detail text                                 -- as JSON
);

CREATE INDEX idem_audit_id ON idem_audit (id, entry);
