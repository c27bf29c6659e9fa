//! SQLite: an embedded file.

use std::str::FromStr;

use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode};

pub type Db = sqlx::Sqlite;

pub(super) const DATABASE: &str = "SQLite";
pub(super) const SCHEMES: &[&str] = &["sqlite"];
pub(super) const DEFAULT_URL: Option<&str> = Some("sqlite:payments.db");
pub(super) const EXAMPLE_URL: &str = "sqlite:payments.db";

pub(super) fn connect_options(url: &str) -> sqlx::Result<SqliteConnectOptions> {
    // With a write-ahead log, readers and the one writer don't wait for each other.
    Ok(SqliteConnectOptions::from_str(url)?
        .create_if_missing(true)
        .journal_mode(SqliteJournalMode::Wal)
        .foreign_keys(true))
}

pub(super) const SCHEMA: &[&str] = &[
    "CREATE TABLE IF NOT EXISTS items (
        name  TEXT PRIMARY KEY NOT NULL,
        price INTEGER NOT NULL,
        stock INTEGER NOT NULL CHECK (stock >= 0)
    )",
    "CREATE TABLE IF NOT EXISTS orders (
        id        BLOB PRIMARY KEY NOT NULL,
        account   TEXT NOT NULL,
        item      TEXT NOT NULL,
        total     INTEGER NOT NULL,
        status    TEXT NOT NULL CHECK (status IN ('reserved', 'paid', 'cancelled')),
        placed_at TEXT NOT NULL DEFAULT CURRENT_TIMESTAMP
    )",
    "CREATE INDEX IF NOT EXISTS orders_by_account ON orders (account, placed_at)",
    "CREATE TABLE IF NOT EXISTS receipts (
        order_id BLOB PRIMARY KEY NOT NULL REFERENCES orders (id),
        payment  TEXT NOT NULL
    )",
    "INSERT INTO items (name, price, stock) VALUES ('book', 1500, 1000), ('lamp', 4500, 1000)
     ON CONFLICT (name) DO NOTHING",
];

pub(super) const TAKE_FROM_STOCK: &str =
    "UPDATE items SET stock = stock - 1 WHERE name = ? AND stock > 0";

pub(super) const RETURN_TO_STOCK: &str = "UPDATE items SET stock = stock + 1 WHERE name = ?";

pub(super) const PRICE: &str = "SELECT price FROM items WHERE name = ?";

pub(super) const INSERT_ORDER: &str =
    "INSERT INTO orders (id, account, item, total, status) VALUES (?, ?, ?, ?, 'reserved')";

pub(super) const SET_STATUS: &str = "UPDATE orders SET status = ? WHERE id = ?";

pub(super) const INSERT_RECEIPT: &str = "INSERT INTO receipts (order_id, payment) VALUES (?, ?)";

pub(super) const LIST_ORDERS: &str = "
    SELECT id, item, total, status FROM orders WHERE account = ?
    ORDER BY placed_at DESC, id LIMIT 100";
