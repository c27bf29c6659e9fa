//! MySQL and MariaDB.

use std::str::FromStr;

use sqlx::mysql::MySqlConnectOptions;

pub type Db = sqlx::MySql;

pub(super) const DATABASE: &str = "MySQL and MariaDB";
pub(super) const SCHEMES: &[&str] = &["mysql", "mariadb"];
pub(super) const EXAMPLE_URL: &str = "mysql://user:password@localhost/notifications";

pub(super) fn default_url(_: &str) -> Option<String> {
    None
}

pub(super) fn connect_options(url: &str) -> sqlx::Result<MySqlConnectOptions> {
    MySqlConnectOptions::from_str(url)
}

pub(super) const SHOP: &[&str] = &[
    "CREATE TABLE IF NOT EXISTS accounts (
        name   VARCHAR(64) PRIMARY KEY NOT NULL,
        orders BIGINT NOT NULL
    )",
    "CREATE TABLE IF NOT EXISTS orders (
        id      BINARY(16) PRIMARY KEY NOT NULL,
        account VARCHAR(64) NOT NULL,
        number  BIGINT NOT NULL,
        item    VARCHAR(64) NOT NULL,
        cents   BIGINT NOT NULL,
        UNIQUE (account, number)
    )",
    "INSERT IGNORE INTO accounts (name, orders) VALUES ('alice', 0), ('bob', 0)",
];

/// No column of it is unique: that an order is entered once is the inbox's doing.
pub(super) const LEDGER: &[&str] = &["CREATE TABLE IF NOT EXISTS ledger (
        position BIGINT AUTO_INCREMENT PRIMARY KEY,
        order_id BINARY(16) NOT NULL,
        account  VARCHAR(64) NOT NULL,
        number   BIGINT NOT NULL,
        cents    BIGINT NOT NULL,
        total    BIGINT NOT NULL
    )"];

/// The same holds here.
pub(super) const RECEIVER: &[&str] = &[
    "CREATE TABLE IF NOT EXISTS deliveries (
        position BIGINT AUTO_INCREMENT PRIMARY KEY,
        message  VARCHAR(64) NOT NULL
    )",
    "CREATE TABLE IF NOT EXISTS counted (
        position BIGINT AUTO_INCREMENT PRIMARY KEY,
        message  VARCHAR(64) NOT NULL,
        order_id BINARY(16) NOT NULL,
        cents    BIGINT NOT NULL
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
