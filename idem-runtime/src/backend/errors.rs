//! What a database's errors mean.

/// What a database error means for the attempt that met it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Serialization failure or deadlock: run again.
    RunAgain,
    /// The transaction was aborted by an earlier error that the handler swallowed (PostgreSQL).
    Aborted,
    /// A constraint failed at the commit: the handler's fault, and it would fail again.
    Constraint,
    /// Anything else: the store is out of reach or broken.
    Store,
}

/// Codes and not backends: a handler's error may come from any database that is compiled in.
pub(crate) fn fault(error: &sqlx::Error) -> Fault {
    let sqlx::Error::Database(error) = error else {
        return Fault::Store;
    };
    #[cfg(feature = "mysql")]
    if let Some(error) = error.try_downcast_ref::<sqlx::mysql::MySqlDatabaseError>() {
        return super::mysql::fault(error.number(), error.code());
    }
    #[cfg(feature = "sqlite")]
    if let Some(error) = error.try_downcast_ref::<sqlx::sqlite::SqliteError>() {
        return super::sqlite::fault(error);
    }
    match error.code().as_deref() {
        Some("40001" | "40P01") => Fault::RunAgain,
        Some("25P02") => Fault::Aborted,
        Some(code) if code.starts_with("23") => Fault::Constraint,
        _ => Fault::Store,
    }
}

/// Whether the database asks for the transaction to be run again.
pub(crate) fn asks_to_run_again(error: &sqlx::Error) -> bool {
    fault(error) == Fault::RunAgain
}

/// Whether the database was out of reach, or on its way down: nobody's fault, and over some day.
pub(crate) fn is_outage(error: &sqlx::Error) -> bool {
    match error {
        sqlx::Error::Io(_)
        | sqlx::Error::Tls(_)
        | sqlx::Error::Protocol(_)
        | sqlx::Error::PoolTimedOut
        | sqlx::Error::PoolClosed
        | sqlx::Error::WorkerCrashed => true,
        // Connection exceptions, a lack of resources, an operator's intervention: of PostgreSQL, and what others took from it.
        sqlx::Error::Database(error) => error.code().is_some_and(|code| {
            code.len() == 5
                && ["08", "53", "57"]
                    .iter()
                    .any(|class| code.starts_with(class))
        }),
        _ => false,
    }
}

/// Whether the database's user may not do it.
pub(crate) fn is_denied(error: &sqlx::Error) -> bool {
    let sqlx::Error::Database(error) = error else {
        return false;
    };
    #[cfg(feature = "mysql")]
    if let Some(error) = error.try_downcast_ref::<sqlx::mysql::MySqlDatabaseError>() {
        return super::mysql::denied(error.number());
    }
    // `insufficient_privilege` of PostgreSQL
    error.code().as_deref() == Some("42501")
}

/// Whether a table, or a column of one, is not there.
pub(crate) fn is_missing(error: &sqlx::Error) -> bool {
    let sqlx::Error::Database(error) = error else {
        return false;
    };
    #[cfg(feature = "mysql")]
    if let Some(error) = error.try_downcast_ref::<sqlx::mysql::MySqlDatabaseError>() {
        return super::mysql::missing(error.number());
    }
    #[cfg(feature = "sqlite")]
    if let Some(error) = error.try_downcast_ref::<sqlx::sqlite::SqliteError>() {
        return super::sqlite::missing(error);
    }
    // `undefined_table` and `undefined_column` of PostgreSQL
    matches!(error.code().as_deref(), Some("42P01" | "42703"))
}

/// Whether a statement failed since a handler had dropped what the connection had prepared: another connection serves.
pub(crate) fn is_stale(error: &sqlx::Error) -> bool {
    // `invalid_sql_statement_name` of PostgreSQL
    matches!(error, sqlx::Error::Database(error) if error.code().as_deref() == Some("26000"))
}
