//! PostgreSQL.

use std::str::FromStr;

use sqlx::postgres::PgConnectOptions;

pub type Db = sqlx::Postgres;

pub(super) const DATABASE: &str = "PostgreSQL";
pub(super) const SCHEMES: &[&str] = &["postgres", "postgresql"];
pub(super) const EXAMPLE_URL: &str = "postgres://user:password@localhost/notifications";

pub(super) fn default_url(_: &str) -> Option<String> {
    None
}

pub(super) fn connect_options(url: &str) -> sqlx::Result<PgConnectOptions> {
    PgConnectOptions::from_str(url)
}

pub(super) const SHOP: &[&str] = &[
    "CREATE TABLE IF NOT EXISTS accounts (
        name   TEXT PRIMARY KEY NOT NULL,
        orders BIGINT NOT NULL
    )",
    "CREATE TABLE IF NOT EXISTS orders (
        id      UUID PRIMARY KEY NOT NULL,
        account TEXT NOT NULL,
        number  BIGINT NOT NULL,
        item    TEXT NOT NULL,
        cents   BIGINT NOT NULL,
        UNIQUE (account, number)
    )",
    "INSERT INTO accounts (name, orders) VALUES ('alice', 0), ('bob', 0)
     ON CONFLICT (name) DO NOTHING",
];

/// No column of it is unique: that an order is entered once is the inbox's doing.
pub(super) const LEDGER: &[&str] = &["CREATE TABLE IF NOT EXISTS ledger (
        position BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        order_id UUID NOT NULL,
        account  TEXT NOT NULL,
        number   BIGINT NOT NULL,
        cents    BIGINT NOT NULL,
        total    BIGINT NOT NULL
    )"];

/// The same holds here.
pub(super) const RECEIVER: &[&str] = &[
    "CREATE TABLE IF NOT EXISTS deliveries (
        position BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        message  TEXT NOT NULL
    )",
    "CREATE TABLE IF NOT EXISTS counted (
        position BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        message  TEXT NOT NULL,
        order_id UUID NOT NULL,
        cents    BIGINT NOT NULL
    )",
];

pub(super) const COUNT_ORDER: &str = "UPDATE accounts SET orders = orders + 1 WHERE name = $1";

pub(super) const ORDERS_OF: &str = "SELECT orders FROM accounts WHERE name = $1";

pub(super) const INSERT_ORDER: &str =
    "INSERT INTO orders (id, account, number, item, cents) VALUES ($1, $2, $3, $4, $5)";

pub(super) const LIST_ORDERS: &str = "
    SELECT id, number, item, cents FROM orders WHERE account = $1 ORDER BY number LIMIT 100";

pub(super) const TOTAL_OF: &str =
    "SELECT total FROM ledger WHERE account = $1 ORDER BY position DESC LIMIT 1";

pub(super) const INSERT_ENTRY: &str =
    "INSERT INTO ledger (order_id, account, number, cents, total) VALUES ($1, $2, $3, $4, $5)";

pub(super) const NOTE_DELIVERY: &str = "INSERT INTO deliveries (message) VALUES ($1)";

pub(super) const COUNT: &str = "INSERT INTO counted (message, order_id, cents) VALUES ($1, $2, $3)";
