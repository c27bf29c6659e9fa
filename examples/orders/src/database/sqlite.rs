//! SQLite: an embedded file.

use std::str::FromStr;

use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode};

pub type Db = sqlx::Sqlite;

pub(super) const DATABASE: &str = "SQLite";
pub(super) const SCHEMES: &[&str] = &["sqlite"];
pub(super) const DEFAULT_URL: Option<&str> = Some("sqlite:orders.db");
pub(super) const EXAMPLE_URL: &str = "sqlite:orders.db";

pub(super) fn connect_options(url: &str) -> sqlx::Result<SqliteConnectOptions> {
    // With a write-ahead log, readers and the one writer don't wait for each other.
    Ok(SqliteConnectOptions::from_str(url)?
        .create_if_missing(true)
        .journal_mode(SqliteJournalMode::Wal)
        .foreign_keys(true))
}

pub(super) const SCHEMA: &[&str] = &[
    "CREATE TABLE IF NOT EXISTS accounts (
        id       TEXT PRIMARY KEY NOT NULL,
        credit   INTEGER NOT NULL CHECK (credit >= 0),
        name     TEXT NOT NULL,
        revision INTEGER NOT NULL DEFAULT 1
    )",
    "CREATE TABLE IF NOT EXISTS orders (
        id           BLOB PRIMARY KEY NOT NULL,
        operation_id BLOB UNIQUE,  -- NULL where the client chose the id
        account      TEXT NOT NULL REFERENCES accounts (id),
        item         TEXT NOT NULL,
        quantity     INTEGER NOT NULL,
        total        INTEGER NOT NULL,
        status       TEXT NOT NULL CHECK (status IN ('open', 'paid')),
        placed_at    TEXT NOT NULL DEFAULT CURRENT_TIMESTAMP
    )",
    "CREATE INDEX IF NOT EXISTS orders_by_account ON orders (account, placed_at)",
    "CREATE TABLE IF NOT EXISTS notifications (
        operation_id BLOB PRIMARY KEY NOT NULL,
        account      TEXT NOT NULL REFERENCES accounts (id)
    )",
    "INSERT INTO accounts (id, credit, name) VALUES ('alice', 1000000, 'Alice'), ('bob', 5000, 'Bob')
     ON CONFLICT (id) DO NOTHING",
];

pub(super) const INSERT_ORDER: &str = "
    INSERT INTO orders (id, operation_id, account, item, quantity, total, status)
    VALUES (?, ?, ?, ?, ?, ?, ?)
    ON CONFLICT DO NOTHING";

pub(super) const FIND_OPERATION: &str =
    "SELECT id, item, quantity, total, status FROM orders WHERE operation_id = ?";

pub(super) const FIND_ORDER: &str =
    "SELECT id, item, quantity, total, status FROM orders WHERE id = ? AND account = ?";

pub(super) const LIST_ORDERS: &str = "
    SELECT id, item, quantity, total, status FROM orders WHERE account = ?
    ORDER BY placed_at DESC, id LIMIT 100";

pub(super) const PAY_ORDER: &str =
    "UPDATE orders SET status = 'paid' WHERE id = ? AND account = ? AND status = 'open'";

pub(super) const TAKE_CREDIT: &str =
    "UPDATE accounts SET credit = credit - ? WHERE id = ? AND credit >= ?";

pub(super) const FIND_PROFILE: &str = "SELECT name, revision FROM accounts WHERE id = ?";

pub(super) const SET_NAME: &str =
    "UPDATE accounts SET name = ?, revision = revision + 1 WHERE id = ? AND name <> ?";

pub(super) const REPLACE_PROFILE: &str =
    "UPDATE accounts SET name = ?, revision = revision + 1 WHERE id = ? AND revision = ?";

pub(super) const NEXT_REVISION: &str = "UPDATE accounts SET revision = revision + 1 WHERE id = ?";

pub(super) const FIND_NOTIFICATION: &str =
    "SELECT account FROM notifications WHERE operation_id = ?";

pub(super) const INSERT_NOTIFICATION: &str =
    "INSERT INTO notifications (operation_id, account) VALUES (?, ?)";
