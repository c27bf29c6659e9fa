//! The schema's versions.

use sqlx::postgres::PgConnection;
use sqlx::{AssertSqlSafe, Connection, Executor, Postgres};

use super::super::{Backend, TABLES};

pub(super) async fn migrate(connection: &mut PgConnection) -> sqlx::Result<i64> {
    let mut transaction = connection.begin().await?;
    // "idem" in ASCII: one process migrates, the others wait for it.
    transaction
        .execute("SELECT pg_advisory_xact_lock(1768187245)")
        .await?;
    transaction
        .execute("CREATE TABLE IF NOT EXISTS idem_schema (version bigint PRIMARY KEY, applied_at timestamptz NOT NULL DEFAULT now())")
        .await?;
    let found: Option<i64> = sqlx::query_scalar("SELECT max(version) FROM idem_schema")
        .fetch_one(&mut *transaction)
        .await?;
    let mut version = found.unwrap_or(0);
    for migration in Postgres::MIGRATIONS
        .iter()
        .skip(usize::try_from(version).unwrap_or(0))
    {
        version += 1;
        transaction.execute(AssertSqlSafe(*migration)).await?;
        sqlx::query("INSERT INTO idem_schema (version) VALUES ($1)")
            .bind(version)
            .execute(&mut *transaction)
            .await?;
    }
    transaction.commit().await?;
    Ok(version)
}

pub(super) async fn schema_version(connection: &mut PgConnection) -> sqlx::Result<Option<i64>> {
    let there: bool = sqlx::query_scalar("SELECT to_regclass('idem_schema') IS NOT NULL")
        .fetch_one(&mut *connection)
        .await?;
    if !there {
        return Ok(None);
    }
    sqlx::query_scalar("SELECT max(version) FROM idem_schema")
        .fetch_one(connection)
        .await
}

/// `to_regclass` shows also what the user may not read.
pub(super) async fn missing_tables(
    connection: &mut PgConnection,
) -> sqlx::Result<Vec<&'static str>> {
    let mut missing = Vec::new();
    for table in TABLES {
        let there: bool = sqlx::query_scalar("SELECT to_regclass($1) IS NOT NULL")
            .bind(table)
            .fetch_one(&mut *connection)
            .await?;
        if !there {
            missing.push(table);
        }
    }
    Ok(missing)
}
