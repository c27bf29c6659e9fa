//! The schema's versions.

use sqlx::mysql::MySqlConnection;
use sqlx::{AssertSqlSafe, Executor, MySql};

use super::super::{Backend, TABLES, asks_to_run_again, is_denied};
use super::errors::is_missing_table;

pub(super) async fn migrate(connection: &mut MySqlConnection) -> sqlx::Result<i64> {
    // DDL commits by itself here, so a lock of the session keeps the other processes waiting.
    let locked: Option<i64> = sqlx::query_scalar("SELECT GET_LOCK('idem_schema', 60)")
        .fetch_one(&mut *connection)
        .await?;
    if locked != Some(1) {
        return Err(sqlx::Error::Protocol(
            "another process has been migrating idem's schema for a minute".into(),
        ));
    }
    let migrated = apply(&mut *connection).await;
    connection
        .execute("SELECT RELEASE_LOCK('idem_schema')")
        .await?;
    migrated
}

pub(super) async fn schema_version(connection: &mut MySqlConnection) -> sqlx::Result<Option<i64>> {
    // Not `information_schema`: it hides what the user may not see.
    let version = sqlx::query_scalar("SELECT max(version) FROM idem_schema")
        .fetch_one(connection)
        .await;
    match version {
        Err(error) if is_missing_table(&error) => Ok(None),
        version => version,
    }
}

async fn apply(connection: &mut MySqlConnection) -> sqlx::Result<i64> {
    let mut version = schema_version(connection).await?.unwrap_or(0);
    for migration in MySql::MIGRATIONS
        .iter()
        .skip(usize::try_from(version).unwrap_or(0))
    {
        version += 1;
        connection.execute(AssertSqlSafe(*migration)).await?;
        note(connection, version).await?;
    }
    Ok(version)
}

/// The lock is one node's: on another of a cluster a process may be doing the same, each of whose statements finds what is
/// there already.
async fn note(connection: &mut MySqlConnection, version: i64) -> sqlx::Result<()> {
    let mut tries = 0;
    loop {
        let noted = sqlx::query("INSERT IGNORE INTO idem_schema (version) VALUES (?)")
            .bind(version)
            .execute(&mut *connection)
            .await;
        match noted {
            Err(error) if asks_to_run_again(&error) && tries < 5 => tries += 1,
            noted => return noted.map(drop),
        }
    }
}

pub(super) async fn missing_tables(
    connection: &mut MySqlConnection,
) -> sqlx::Result<Vec<&'static str>> {
    let mut missing = Vec::new();
    for table in TABLES {
        let look = format!("SELECT 1 FROM {table} LIMIT 0");
        match connection.execute(AssertSqlSafe(look)).await {
            Ok(_) => {}
            Err(error) if is_missing_table(&error) => missing.push(table),
            Err(error) if is_denied(&error) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(missing)
}
