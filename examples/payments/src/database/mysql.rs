//! MySQL and MariaDB.

use std::str::FromStr;

use sqlx::mysql::MySqlConnectOptions;

pub type Db = sqlx::MySql;

pub(super) const DATABASE: &str = "MySQL and MariaDB";
pub(super) const SCHEMES: &[&str] = &["mysql", "mariadb"];
pub(super) const DEFAULT_URL: Option<&str> = None;
pub(super) const EXAMPLE_URL: &str = "mysql://user:password@localhost/payments";

pub(super) fn connect_options(url: &str) -> sqlx::Result<MySqlConnectOptions> {
    MySqlConnectOptions::from_str(url)
}

pub(super) const SCHEMA: &[&str] = &[
    "CREATE TABLE IF NOT EXISTS items (
        name  VARCHAR(64) COLLATE utf8mb4_bin PRIMARY KEY,
        price BIGINT NOT NULL,
        stock BIGINT NOT NULL CHECK (stock >= 0)
    ) ENGINE = InnoDB CHARACTER SET utf8mb4",
    "CREATE TABLE IF NOT EXISTS orders (
        id        BINARY(16) PRIMARY KEY,
        account   VARCHAR(64) COLLATE utf8mb4_bin NOT NULL,
        item      VARCHAR(64) COLLATE utf8mb4_bin NOT NULL,
        total     BIGINT NOT NULL,
        status    VARCHAR(16) COLLATE utf8mb4_bin NOT NULL CHECK (status IN ('reserved', 'paid', 'cancelled')),
        placed_at TIMESTAMP(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6),
        INDEX orders_by_account (account, placed_at)
    ) ENGINE = InnoDB CHARACTER SET utf8mb4",
    "CREATE TABLE IF NOT EXISTS receipts (
        order_id BINARY(16) PRIMARY KEY,
        payment  VARCHAR(64) COLLATE utf8mb4_bin NOT NULL,
        FOREIGN KEY (order_id) REFERENCES orders (id)
    ) ENGINE = InnoDB CHARACTER SET utf8mb4",
    "INSERT INTO items (name, price, stock) VALUES ('book', 1500, 1000), ('lamp', 4500, 1000)
     ON DUPLICATE KEY UPDATE name = name",
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
