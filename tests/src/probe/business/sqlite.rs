//! SQLite.

use std::str::FromStr;
use std::sync::OnceLock;
use std::time::Duration;

use sqlx::pool::PoolOptions;
use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection, SqliteJournalMode};
use sqlx::{ConnectOptions, Connection, Executor, Sqlite, SqlitePool};

use super::{Business, Config, Effect, Fault, Row};

static POOL: OnceLock<SqlitePool> = OnceLock::new();

impl Business for Sqlite {
    async fn connect(options: PoolOptions<Self>, config: &Config) -> sqlx::Result<SqlitePool> {
        let connect = SqliteConnectOptions::from_str(&config.database_url)?
            .create_if_missing(true)
            .journal_mode(SqliteJournalMode::Wal);
        options.connect_with(connect).await
    }

    async fn create_tables(pool: &SqlitePool) -> sqlx::Result<()> {
        pool.execute(
            "CREATE TABLE IF NOT EXISTS effects (
                 id INTEGER PRIMARY KEY AUTOINCREMENT,
                 account TEXT NOT NULL, key_digest TEXT NOT NULL,
                 path TEXT NOT NULL, query TEXT NOT NULL, body TEXT NOT NULL) STRICT",
        )
        .await?;
        pool.execute("CREATE TABLE IF NOT EXISTS once (n INTEGER PRIMARY KEY) STRICT")
            .await?;
        pool.execute("INSERT OR IGNORE INTO once VALUES (1)")
            .await?;
        pool.execute(
            "CREATE TABLE IF NOT EXISTS later (
                 n INTEGER REFERENCES once (n) DEFERRABLE INITIALLY DEFERRED) STRICT",
        )
        .await?;
        Ok(())
    }

    async fn write(connection: &mut SqliteConnection, effect: &Effect<'_>) -> sqlx::Result<i64> {
        sqlx::query_scalar(
            "INSERT INTO effects (account, key_digest, path, query, body)
             VALUES (?1, ?2, ?3, ?4, ?5) RETURNING id",
        )
        .bind(effect.account)
        .bind(effect.key_digest)
        .bind(effect.path)
        .bind(effect.query)
        .bind(String::from_utf8_lossy(effect.body))
        .fetch_one(connection)
        .await
    }

    async fn read(url: &str, account: &str) -> sqlx::Result<Vec<Row>> {
        let mut connection = SqliteConnection::connect(url).await?;
        let rows = sqlx::query_as(
            "SELECT id, key_digest, path, query, body FROM effects WHERE account = ?1 ORDER BY id",
        )
        .bind(account)
        .fetch_all(&mut connection)
        .await?;
        connection.close().await?;
        Ok(rows)
    }

    async fn violate(connection: &mut SqliteConnection) -> sqlx::Result<()> {
        connection.execute("INSERT INTO once VALUES (1)").await?;
        Ok(())
    }

    async fn violate_later(connection: &mut SqliteConnection) -> sqlx::Result<()> {
        connection.execute("INSERT INTO later VALUES (2)").await?;
        Ok(())
    }

    /// A real SQLITE_BUSY, of a database of its own that another connection is writing to.
    async fn conflict(_: &mut SqliteConnection, _: Fault) -> sqlx::Result<()> {
        let directory = tempfile::TempDir::new().map_err(sqlx::Error::Io)?;
        let options = SqliteConnectOptions::new()
            .filename(directory.path().join("busy.db"))
            .create_if_missing(true)
            .busy_timeout(Duration::ZERO);
        let mut writer = options.connect().await?;
        writer.execute("BEGIN IMMEDIATE").await?;
        let mut second = options.connect().await?;
        second.execute("BEGIN IMMEDIATE").await?;
        Ok(())
    }

    async fn end_transaction(connection: &mut SqliteConnection, _: bool) -> sqlx::Result<()> {
        // The framework refuses it; a careless handler does not look.
        let _ = connection.execute("COMMIT").await;
        Ok(())
    }

    async fn dawdle(connection: &mut SqliteConnection) -> sqlx::Result<()> {
        connection
            .execute(
                "WITH RECURSIVE numbers (n) AS (
                     SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < 2000000000)
                 SELECT count(*) FROM numbers",
            )
            .await?;
        Ok(())
    }

    fn static_pool() -> &'static OnceLock<SqlitePool> {
        &POOL
    }
}
