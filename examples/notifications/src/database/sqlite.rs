//! SQLite: an embedded file.

use std::str::FromStr;

use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode};

pub type Db = sqlx::Sqlite;

pub(super) const DATABASE: &str = "SQLite";
pub(super) const SCHEMES: &[&str] = &["sqlite"];
pub(super) const EXAMPLE_URL: &str = "sqlite:notifications.db";

/// The address of a part's own database.
pub(super) fn default_url(part: &str) -> Option<String> {
    Some(format!("sqlite:{part}.db"))
}

pub(super) fn connect_options(url: &str) -> sqlx::Result<SqliteConnectOptions> {
    // With a write-ahead log, readers and the one writer don't wait for each other.
    Ok(SqliteConnectOptions::from_str(url)?
        .create_if_missing(true)
        .journal_mode(SqliteJournalMode::Wal)
        .foreign_keys(true))
}

pub(super) const SHOP: &[&str] = &[
    "CREATE TABLE IF NOT EXISTS accounts (
        name   TEXT PRIMARY KEY NOT NULL,
        orders INTEGER NOT NULL
    )",
    "CREATE TABLE IF NOT EXISTS orders (
        id      BLOB PRIMARY KEY NOT NULL,
        account TEXT NOT NULL,
        number  INTEGER NOT NULL,
        item    TEXT NOT NULL,
        cents   INTEGER NOT NULL,
        UNIQUE (account, number)
    )",
    "INSERT INTO accounts (name, orders) VALUES ('alice', 0), ('bob', 0)
     ON CONFLICT (name) DO NOTHING",
];

/// No column of it is unique: that an order is entered once is the inbox's doing.
pub(super) const LEDGER: &[&str] = &["CREATE TABLE IF NOT EXISTS ledger (
        position INTEGER PRIMARY KEY AUTOINCREMENT,
        order_id BLOB NOT NULL,
        account  TEXT NOT NULL,
        number   INTEGER NOT NULL,
        cents    INTEGER NOT NULL,
        total    INTEGER NOT NULL
    )"];

/// The same holds here.
pub(super) const RECEIVER: &[&str] = &[
    "CREATE TABLE IF NOT EXISTS deliveries (
        position INTEGER PRIMARY KEY AUTOINCREMENT,
        message  TEXT NOT NULL
    )",
    "CREATE TABLE IF NOT EXISTS counted (
        position INTEGER PRIMARY KEY AUTOINCREMENT,
        message  TEXT NOT NULL,
        order_id BLOB NOT NULL,
        cents    INTEGER NOT NULL
    )",
];

pub(super) const COUNT_ORDER: &str = "UPDATE accounts SET orders = orders + 1 WHERE name = ?";

pub(super) const ORDERS_OF: &str = "SELECT orders FROM accounts WHERE name = ?";

pub(super) const INSERT_ORDER: &str =
    "INSERT INTO orders (id, account, number, item, cents) VALUES (?, ?, ?, ?, ?)";

pub(super) const LIST_ORDERS: &str = "
    SELECT id, number, item, cents FROM orders WHERE account = ? ORDER BY number LIMIT 100";

pub(super) const TOTAL_OF: &str =
    "SELECT total FROM ledger WHERE account = ? ORDER BY position DESC LIMIT 1";

pub(super) const INSERT_ENTRY: &str =
    "INSERT INTO ledger (order_id, account, number, cents, total) VALUES (?, ?, ?, ?, ?)";

pub(super) const NOTE_DELIVERY: &str = "INSERT INTO deliveries (message) VALUES (?)";

pub(super) const COUNT: &str = "INSERT INTO counted (message, order_id, cents) VALUES (?, ?, ?)";
