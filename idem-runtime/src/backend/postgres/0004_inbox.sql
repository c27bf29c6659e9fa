-- One row a message that a consumer processed. Effects commit with it.
CREATE TABLE idem_inbox (
    id           bytea PRIMARY KEY,         -- SHA-256 of the length-prefixed consumer, source and message id
    consumer     text NOT NULL,
    source       text NOT NULL,
    owner        bytea NOT NULL,            -- the attempt that wrote the row
    state        smallint NOT NULL,         -- 1 processed, 2 unknown; from 3: entered once, twice, …
    processed_at timestamptz NOT NULL,
    expires_at   timestamptz NOT NULL
);

CREATE INDEX idem_inbox_expires_at ON idem_inbox (expires_at);
