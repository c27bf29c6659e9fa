//! The schema's versions.

use sqlx::sqlite::SqliteConnection;
use sqlx::{AssertSqlSafe, Executor, SqlSafeStr, Sqlite};
use sqlx_core::transaction::TransactionManager;

use super::super::{Backend, TABLES};
use super::Manager;

pub(super) async fn migrate(connection: &mut SqliteConnection) -> sqlx::Result<i64> {
    Manager::begin(connection, Some("BEGIN IMMEDIATE".into_sql_str())).await?;
    let migrated = apply(connection).await;
    match migrated {
        Ok(version) => {
            Manager::commit(connection).await?;
            Ok(version)
        }
        Err(error) => {
            Manager::rollback(connection).await?;
            Err(error)
        }
    }
}

pub(super) async fn schema_version(connection: &mut SqliteConnection) -> sqlx::Result<Option<i64>> {
    let there: i64 =
        sqlx::query_scalar("SELECT count(*) FROM sqlite_master WHERE name = 'idem_schema'")
            .fetch_one(&mut *connection)
            .await?;
    if there == 0 {
        return Ok(None);
    }
    sqlx::query_scalar("SELECT max(version) FROM idem_schema")
        .fetch_one(connection)
        .await
}

async fn apply(connection: &mut SqliteConnection) -> sqlx::Result<i64> {
    let mut version = schema_version(connection).await?.unwrap_or(0);
    for migration in Sqlite::MIGRATIONS
        .iter()
        .skip(usize::try_from(version).unwrap_or(0))
    {
        version += 1;
        connection.execute(AssertSqlSafe(*migration)).await?;
        sqlx::query("INSERT INTO idem_schema (version) VALUES (?1)")
            .bind(version)
            .execute(&mut *connection)
            .await?;
    }
    Ok(version)
}

pub(super) async fn missing_tables(
    connection: &mut SqliteConnection,
) -> sqlx::Result<Vec<&'static str>> {
    let mut missing = Vec::new();
    for table in TABLES {
        let found: i64 = sqlx::query_scalar("SELECT count(*) FROM sqlite_master WHERE name = ?1")
            .bind(table)
            .fetch_one(&mut *connection)
            .await?;
        if found == 0 {
            missing.push(table);
        }
    }
    Ok(missing)
}
