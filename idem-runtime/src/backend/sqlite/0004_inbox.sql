-- One row a message that a consumer processed. Effects commit with it.
CREATE TABLE idem_inbox (
    id           BLOB PRIMARY KEY NOT NULL, -- SHA-256 of the length-prefixed consumer, source and message id
    consumer     TEXT NOT NULL,
    source       TEXT NOT NULL,
    owner        BLOB NOT NULL,             -- the attempt that wrote the row
    state        INTEGER NOT NULL,          -- 1 processed, 2 unknown; from 3: entered once, twice, …
    processed_at INTEGER NOT NULL,          -- milliseconds since 1970, as all times
    expires_at   INTEGER NOT NULL
) STRICT;

CREATE INDEX idem_inbox_expires_at ON idem_inbox (expires_at);
