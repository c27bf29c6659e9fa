//! MySQL and MariaDB.

use std::str::FromStr;

use sqlx::mysql::MySqlConnectOptions;

pub type Db = sqlx::MySql;

pub(super) const DATABASE: &str = "MySQL and MariaDB";
pub(super) const SCHEMES: &[&str] = &["mysql", "mariadb"];
pub(super) const DEFAULT_URL: Option<&str> = None;
pub(super) const EXAMPLE_URL: &str = "mysql://user:password@localhost/orders";

pub(super) fn connect_options(url: &str) -> sqlx::Result<MySqlConnectOptions> {
    MySqlConnectOptions::from_str(url)
}

// Names in a binary collation: by default a change from `ann` to `Ann` is none.
pub(super) const SCHEMA: &[&str] = &[
    "CREATE TABLE IF NOT EXISTS accounts (
        id       VARCHAR(64) COLLATE utf8mb4_bin PRIMARY KEY,
        credit   BIGINT NOT NULL CHECK (credit >= 0),
        name     VARCHAR(100) COLLATE utf8mb4_bin NOT NULL,
        revision BIGINT NOT NULL DEFAULT 1
    ) ENGINE = InnoDB CHARACTER SET utf8mb4",
    // No foreign key to accounts: the shared lock that it takes there would turn into an exclusive one when
    // the credit is taken, and two orders of one account deadlock on that.
    "CREATE TABLE IF NOT EXISTS orders (
        id           BINARY(16) PRIMARY KEY,
        operation_id BINARY(16) UNIQUE,  -- NULL where the client chose the id
        account      VARCHAR(64) COLLATE utf8mb4_bin NOT NULL,
        item         VARCHAR(64) COLLATE utf8mb4_bin NOT NULL,
        quantity     BIGINT NOT NULL,
        total        BIGINT NOT NULL,
        status       VARCHAR(8) COLLATE utf8mb4_bin NOT NULL CHECK (status IN ('open', 'paid')),
        placed_at    TIMESTAMP(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6),
        INDEX orders_by_account (account, placed_at)
    ) ENGINE = InnoDB CHARACTER SET utf8mb4",
    "CREATE TABLE IF NOT EXISTS notifications (
        operation_id BINARY(16) PRIMARY KEY,
        account      VARCHAR(64) COLLATE utf8mb4_bin NOT NULL
    ) ENGINE = InnoDB CHARACTER SET utf8mb4",
    "INSERT INTO accounts (id, credit, name) VALUES ('alice', 1000000, 'Alice'), ('bob', 5000, 'Bob')
     ON DUPLICATE KEY UPDATE id = id",
];

// Not `INSERT IGNORE`, which ignores other errors too.
pub(super) const INSERT_ORDER: &str = "
    INSERT INTO orders (id, operation_id, account, item, quantity, total, status)
    VALUES (?, ?, ?, ?, ?, ?, ?)
    ON DUPLICATE KEY UPDATE id = id";

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
