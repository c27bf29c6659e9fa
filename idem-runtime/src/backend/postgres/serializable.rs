//! A claim at SERIALIZABLE.
//!
//! A look for a key that is not there locks the page of the index on which it would be, so that PostgreSQL can tell whether
//! it would have been found had the transactions run one after the other. Of two transactions that looked on one page
//! and then stored a record on it, one fails (40001) and runs again. The records of a small table are on a few pages, and keys
//! that are led by their time are on the last one whatever the table's size: every transaction would fail with
//! every other.
//!
//! So the look is a statement of its own here, before the transaction. That is as right: what is committed between the look and the record's
//! insert is found by the unique index, which takes no such lock.

use sqlx::postgres::PgConnection;
use sqlx::{AssertSqlSafe, SqlSafeStr};

use super::{fused, pooling};
use crate::scope::RecordId;

/// Whether a key has a record.
pub(super) async fn is_there(connection: &mut PgConnection, id: &RecordId) -> sqlx::Result<bool> {
    let text = format!(
        "SELECT EXISTS (SELECT FROM idem_keys WHERE id = {})",
        fused::bytes(id.as_bytes())
    );
    pooling::scalar(connection, AssertSqlSafe(text).into_sql_str()).await
}
