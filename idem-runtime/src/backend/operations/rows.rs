//! Rows of `idem_operations` as they are read, whatever the database.

use sqlx::{ColumnIndex, Decode, Row, Type};
use uuid::Uuid;

use super::OperationRow;
use crate::scope::RecordId;

/// Reads a row by the names of its columns. `text` reads a column of text, which some databases keep as bytes.
pub(in crate::backend) fn operation<R: Row>(
    row: &R,
    text: fn(&R, &'static str) -> sqlx::Result<Option<String>>,
) -> sqlx::Result<OperationRow>
where
    &'static str: ColumnIndex<R>,
    for<'r> i32: Decode<'r, R::Database> + Type<R::Database>,
    for<'r> i64: Decode<'r, R::Database> + Type<R::Database>,
    for<'r> bool: Decode<'r, R::Database> + Type<R::Database>,
    for<'r> Vec<u8>: Decode<'r, R::Database> + Type<R::Database>,
{
    let id: Vec<u8> = row.try_get("id")?;
    let operation_id: Vec<u8> = row.try_get("operation_id")?;
    let owner: Vec<u8> = row.try_get("owner")?;
    Ok(OperationRow {
        id: RecordId::from_slice(&id).ok_or_else(|| malformed("key's digest"))?,
        scope: text(row, "scope")?.unwrap_or_default(),
        operation: text(row, "operation")?.unwrap_or_default(),
        operation_id: Uuid::from_slice(&operation_id).map_err(|_| malformed("operation's id"))?,
        definition: row.try_get("definition")?,
        attempt: row.try_get("attempt")?,
        owner: owner.try_into().map_err(|_| malformed("owner"))?,
        tries: row.try_get("tries")?,
        inputs: row.try_get("inputs")?,
        inputs_sealed: row.try_get("inputs_sealed")?,
        journal: row.try_get("journal")?,
        journal_sealed: row.try_get("journal_sealed")?,
        created_at: row.try_get("created_at")?,
        recorded_at: row.try_get("recorded_at")?,
        due_at: row.try_get("due_at")?,
        parked_at: row.try_get("parked_at")?,
        reason: text(row, "reason")?,
        now: row.try_get("now_ms")?,
    })
}

fn malformed(what: &str) -> sqlx::Error {
    sqlx::Error::Decode(format!("a stored {what} has another length than it should").into())
}
