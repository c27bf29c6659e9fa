-- One row a message that a consumer processed. Effects commit with it.
CREATE TABLE IF NOT EXISTS idem_inbox (
    id           BINARY(32) PRIMARY KEY,    -- SHA-256 of the length-prefixed consumer, source and message id
    consumer     VARBINARY(255) NOT NULL,
    source       VARBINARY(255) NOT NULL,
    owner        BINARY(16) NOT NULL,       -- the attempt that wrote the row
    state        SMALLINT NOT NULL,         -- 1 processed, 2 unknown; from 3: entered once, twice, …
    processed_at BIGINT NOT NULL,           -- milliseconds since 1970, as all times
    expires_at   BIGINT NOT NULL,
    KEY idem_inbox_expires_at (expires_at)
) ENGINE = InnoDB;
