//! A Galera cluster, of MariaDB or of MySQL: each node takes writes, and a commit is certified against those of all others.
//!
//! Two transactions that take one key, or write one row, on two nodes both run to their commit, of which one fails as the victim
//! of a deadlock (1213) and runs again. So a claim needs no more than the primary key here as well. What needs more is a
//! statement that only looks: a node applies what the others have committed some moments later, unless the session says that
//! it waits (`wsrep_sync_wait`). The framework's own statements outside a handler's transaction wait, and those
//! inside don't: their commit is certified.

use sqlx::mysql::{MySqlConnection, MySqlRow};
use sqlx::{Executor, Row};

/// Whether this server is a node of such a cluster. One that knows nothing of them has no such variable.
pub(super) async fn is_node(connection: &mut MySqlConnection) -> sqlx::Result<bool> {
    let row: Option<MySqlRow> = sqlx::query("SHOW VARIABLES LIKE 'wsrep_on'")
        .fetch_optional(connection)
        .await?;
    let says: Option<String> = row.map(|row| row.try_get(1)).transpose()?;
    Ok(says.is_some_and(|says| says == "ON"))
}

/// From here on, this session's statements wait for what other nodes committed before: reads (1), updates and deletes (2),
/// inserts (4).
pub(super) async fn wait_for_others(connection: &mut MySqlConnection) -> sqlx::Result<()> {
    let wait = "SET @idem_sync_wait = @@SESSION.wsrep_sync_wait, \
        SESSION wsrep_sync_wait = @@SESSION.wsrep_sync_wait | 7";
    connection.execute(wait).await.map(drop)
}

/// As the application had it.
pub(super) async fn wait_no_more(connection: &mut MySqlConnection) -> sqlx::Result<()> {
    let as_before = "SET SESSION wsrep_sync_wait = @idem_sync_wait";
    connection.execute(as_before).await.map(drop)
}
