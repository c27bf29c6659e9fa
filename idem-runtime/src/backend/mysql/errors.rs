//! The server's errors, and what they mean.

use super::super::Fault;

/// The server's number of an error.
pub(super) fn number(error: &sqlx::Error) -> Option<u16> {
    match error {
        sqlx::Error::Database(error) => error
            .try_downcast_ref::<sqlx::mysql::MySqlDatabaseError>()
            .map(sqlx::mysql::MySqlDatabaseError::number),
        _ => None,
    }
}

/// Another transaction holds the row, or has just changed it.
pub(super) fn lock_not_won(error: &sqlx::Error) -> bool {
    matches!(number(error), Some(1205 | 1213 | 1020 | 3572))
}

/// A command, or a column of a table, that the user may not use.
pub(in super::super) fn denied(number: u16) -> bool {
    matches!(number, 1142 | 1143)
}

/// There is no such table.
pub(super) fn is_missing_table(error: &sqlx::Error) -> bool {
    number(error) == Some(1146)
}

/// There is no such table, or no such column of one.
pub(in super::super) fn missing(number: u16) -> bool {
    matches!(number, 1146 | 1054)
}

/// By number: SQLSTATE is too coarse here.
pub(in super::super) fn fault(number: u16, code: Option<&str>) -> Fault {
    match (number, code) {
        // Lock wait time-out, deadlock, snapshot changed; Galera reports certification as a deadlock.
        (1205 | 1213 | 1020, _) | (_, Some("40001")) => Fault::RunAgain,
        (_, Some(code)) if code.starts_with("23") => Fault::Constraint,
        _ => Fault::Store,
    }
}
