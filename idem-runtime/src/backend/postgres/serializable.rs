//! A claim at SERIALIZABLE.
//!
//! A look for a key that is not there locks the page of the index on which it would be, so that PostgreSQL can tell whether
//! it would have been found had the transactions run one after the other. Of two transactions that looked on one page
//! and then stored a record on it, one fails (40001) and runs again. The records of a small table are on a few pages, and keys
//! that are led by their time are on the last one whatever the table's size: every transaction would fail with
//! every other.
//!
//! So the look is a transaction of its own here, at READ COMMITTED, which leaves no such lock, in the message that then begins the other one.
//! Nothing is lost by it: a record that is committed between the look and the insert of another is found by the unique
//! index, which takes no such lock either.

use sqlx::postgres::PgConnection;

use super::fused;
use crate::scope::RecordId;

/// Looks for a key, and begins with this text if it has no record. `false`: it has one, and no transaction is open.
pub(super) async fn begin_unseen(
    connection: &mut PgConnection,
    id: &RecordId,
    begin: &str,
) -> sqlx::Result<bool> {
    // The error's text is not constant, or else the planner would raise it.
    let text = format!(
        "BEGIN ISOLATION LEVEL READ COMMITTED; \
         SELECT CASE WHEN EXISTS (SELECT FROM idem_keys WHERE id = {id}) \
             THEN ('idem: the key is not free, seen by ' || pg_backend_pid())::integer END; \
         COMMIT; {begin}",
        id = fused::bytes(id.as_bytes())
    );
    let begun = fused::begin_with(connection, &text).await;
    if fused::is(&begun, fused::NOT_FREE) {
        return Ok(false);
    }
    begun.map(|()| true)
}
