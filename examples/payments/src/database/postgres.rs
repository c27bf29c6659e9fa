//! PostgreSQL.

use std::str::FromStr;

use sqlx::postgres::PgConnectOptions;

pub type Db = sqlx::Postgres;

pub(super) const DATABASE: &str = "PostgreSQL";
pub(super) const SCHEMES: &[&str] = &["postgres", "postgresql"];
pub(super) const DEFAULT_URL: Option<&str> = None;
pub(super) const EXAMPLE_URL: &str = "postgres://user:password@localhost/payments";

pub(super) fn connect_options(url: &str) -> sqlx::Result<PgConnectOptions> {
    PgConnectOptions::from_str(url)
}

pub(super) const SCHEMA: &[&str] = &[
    "CREATE TABLE IF NOT EXISTS items (
        name  TEXT PRIMARY KEY NOT NULL,
        price BIGINT NOT NULL,
        stock BIGINT NOT NULL CHECK (stock >= 0)
    )",
    "CREATE TABLE IF NOT EXISTS orders (
        id        UUID PRIMARY KEY NOT NULL,
        account   TEXT NOT NULL,
        item      TEXT NOT NULL,
        total     BIGINT NOT NULL,
        status    TEXT NOT NULL CHECK (status IN ('reserved', 'paid', 'cancelled')),
        placed_at TIMESTAMPTZ NOT NULL DEFAULT now()
    )",
    "CREATE INDEX IF NOT EXISTS orders_by_account ON orders (account, placed_at)",
    "CREATE TABLE IF NOT EXISTS receipts (
        order_id UUID PRIMARY KEY NOT NULL REFERENCES orders (id),
        payment  TEXT NOT NULL
    )",
    "INSERT INTO items (name, price, stock) VALUES ('book', 1500, 1000), ('lamp', 4500, 1000)
     ON CONFLICT (name) DO NOTHING",
];

pub(super) const TAKE_FROM_STOCK: &str =
    "UPDATE items SET stock = stock - 1 WHERE name = $1 AND stock > 0";

pub(super) const RETURN_TO_STOCK: &str = "UPDATE items SET stock = stock + 1 WHERE name = $1";

pub(super) const PRICE: &str = "SELECT price FROM items WHERE name = $1";

pub(super) const INSERT_ORDER: &str =
    "INSERT INTO orders (id, account, item, total, status) VALUES ($1, $2, $3, $4, 'reserved')";

pub(super) const SET_STATUS: &str = "UPDATE orders SET status = $1 WHERE id = $2";

pub(super) const INSERT_RECEIPT: &str = "INSERT INTO receipts (order_id, payment) VALUES ($1, $2)";

pub(super) const LIST_ORDERS: &str = "
    SELECT id, item, total, status FROM orders WHERE account = $1
    ORDER BY placed_at DESC, id LIMIT 100";
