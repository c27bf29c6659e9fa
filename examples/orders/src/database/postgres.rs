//! PostgreSQL.

use std::str::FromStr;

use sqlx::postgres::PgConnectOptions;

pub type Db = sqlx::Postgres;

pub(super) const DATABASE: &str = "PostgreSQL";
pub(super) const SCHEMES: &[&str] = &["postgres", "postgresql"];
pub(super) const DEFAULT_URL: Option<&str> = None;
pub(super) const EXAMPLE_URL: &str = "postgres://user:password@localhost/orders";

pub(super) fn connect_options(url: &str) -> sqlx::Result<PgConnectOptions> {
    PgConnectOptions::from_str(url)
}

pub(super) const SCHEMA: &[&str] = &[
    "CREATE TABLE IF NOT EXISTS accounts (
        id       TEXT PRIMARY KEY NOT NULL,
        credit   BIGINT NOT NULL CHECK (credit >= 0),
        name     TEXT NOT NULL,
        revision BIGINT NOT NULL DEFAULT 1
    )",
    "CREATE TABLE IF NOT EXISTS orders (
        id           UUID PRIMARY KEY NOT NULL,
        operation_id UUID UNIQUE,  -- NULL where the client chose the id
        account      TEXT NOT NULL REFERENCES accounts (id),
        item         TEXT NOT NULL,
        quantity     BIGINT NOT NULL,
        total        BIGINT NOT NULL,
        status       TEXT NOT NULL CHECK (status IN ('open', 'paid')),
        placed_at    TIMESTAMPTZ NOT NULL DEFAULT now()
    )",
    "CREATE INDEX IF NOT EXISTS orders_by_account ON orders (account, placed_at)",
    "CREATE TABLE IF NOT EXISTS notifications (
        operation_id UUID PRIMARY KEY NOT NULL,
        account      TEXT NOT NULL REFERENCES accounts (id)
    )",
    "INSERT INTO accounts (id, credit, name) VALUES ('alice', 1000000, 'Alice'), ('bob', 5000, 'Bob')
     ON CONFLICT (id) DO NOTHING",
];

pub(super) const INSERT_ORDER: &str = "
    INSERT INTO orders (id, operation_id, account, item, quantity, total, status)
    VALUES ($1, $2, $3, $4, $5, $6, $7)
    ON CONFLICT DO NOTHING";

pub(super) const FIND_OPERATION: &str =
    "SELECT id, item, quantity, total, status FROM orders WHERE operation_id = $1";

pub(super) const FIND_ORDER: &str =
    "SELECT id, item, quantity, total, status FROM orders WHERE id = $1 AND account = $2";

pub(super) const LIST_ORDERS: &str = "
    SELECT id, item, quantity, total, status FROM orders WHERE account = $1
    ORDER BY placed_at DESC, id LIMIT 100";

pub(super) const PAY_ORDER: &str =
    "UPDATE orders SET status = 'paid' WHERE id = $1 AND account = $2 AND status = 'open'";

pub(super) const TAKE_CREDIT: &str =
    "UPDATE accounts SET credit = credit - $1 WHERE id = $2 AND credit >= $3";

pub(super) const FIND_PROFILE: &str = "SELECT name, revision FROM accounts WHERE id = $1";

pub(super) const SET_NAME: &str =
    "UPDATE accounts SET name = $1, revision = revision + 1 WHERE id = $2 AND name <> $3";

pub(super) const REPLACE_PROFILE: &str =
    "UPDATE accounts SET name = $1, revision = revision + 1 WHERE id = $2 AND revision = $3";

pub(super) const NEXT_REVISION: &str = "UPDATE accounts SET revision = revision + 1 WHERE id = $1";

pub(super) const FIND_NOTIFICATION: &str =
    "SELECT account FROM notifications WHERE operation_id = $1";

pub(super) const INSERT_NOTIFICATION: &str =
    "INSERT INTO notifications (operation_id, account) VALUES ($1, $2)";
