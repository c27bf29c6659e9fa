//! MariaDB.

use std::str::FromStr;
use std::sync::OnceLock;

use sqlx::mysql::{MySqlConnectOptions, MySqlConnection};
use sqlx::pool::PoolOptions;
use sqlx::{AssertSqlSafe, Connection, Executor, MySql, MySqlPool};

use super::{Business, Config, Effect, Fault, Row};

static POOL: OnceLock<MySqlPool> = OnceLock::new();

impl Business for MySql {
    async fn connect(options: PoolOptions<Self>, config: &Config) -> sqlx::Result<MySqlPool> {
        let statement = config.isolation.map(|isolation| {
            let level = isolation.as_sql();
            format!("SET SESSION TRANSACTION ISOLATION LEVEL {level}")
        });
        options
            .after_connect(move |connection, _| {
                // This hook takes the guard's place, and does its work.
                idem_runtime::record_acquire();
                let statement = statement.clone();
                Box::pin(async move {
                    if let Some(statement) = statement {
                        connection.execute(AssertSqlSafe(statement)).await?;
                    }
                    Ok(())
                })
            })
            .connect_with(MySqlConnectOptions::from_str(&config.database_url)?)
            .await
    }

    async fn create_tables(pool: &MySqlPool) -> sqlx::Result<()> {
        pool.execute(
            "CREATE TABLE IF NOT EXISTS effects (
                 id bigint AUTO_INCREMENT PRIMARY KEY,
                 account varchar(100) NOT NULL, key_digest varchar(64) NOT NULL,
                 path text NOT NULL, query text NOT NULL, body longtext NOT NULL)",
        )
        .await?;
        pool.execute("CREATE TABLE IF NOT EXISTS once (n bigint PRIMARY KEY)")
            .await?;
        pool.execute("INSERT INTO once VALUES (1) ON DUPLICATE KEY UPDATE n = n")
            .await?;
        Ok(())
    }

    async fn write(connection: &mut MySqlConnection, effect: &Effect<'_>) -> sqlx::Result<i64> {
        let done = sqlx::query(
            "INSERT INTO effects (account, key_digest, path, query, body) VALUES (?, ?, ?, ?, ?)",
        )
        .bind(effect.account)
        .bind(effect.key_digest)
        .bind(effect.path)
        .bind(effect.query)
        .bind(String::from_utf8_lossy(effect.body))
        .execute(connection)
        .await?;
        Ok(i64::try_from(done.last_insert_id()).unwrap_or(i64::MAX))
    }

    async fn read(url: &str, account: &str) -> sqlx::Result<Vec<Row>> {
        let mut connection = MySqlConnection::connect(url).await?;
        // Of a cluster's node, what the others have committed; elsewhere it does nothing, or is not known.
        let _ = connection.execute("SET SESSION wsrep_sync_wait = 7").await;
        let rows = sqlx::query_as(
            "SELECT id, key_digest, path, query, body FROM effects WHERE account = ? ORDER BY id",
        )
        .bind(account)
        .fetch_all(&mut connection)
        .await?;
        connection.close().await?;
        Ok(rows)
    }

    async fn violate(connection: &mut MySqlConnection) -> sqlx::Result<()> {
        connection.execute("INSERT INTO once VALUES (1)").await?;
        Ok(())
    }

    /// MariaDB checks every constraint at once: there is nothing to leave for later.
    async fn violate_later(_: &mut MySqlConnection) -> sqlx::Result<()> {
        Ok(())
    }

    async fn conflict(connection: &mut MySqlConnection, fault: Fault) -> sqlx::Result<()> {
        // Only said, not meant: a real one would have rolled the transaction back.
        let statement = match fault {
            Fault::Deadlock => "SIGNAL SQLSTATE '40001' SET MYSQL_ERRNO = 1213",
            _ => "SIGNAL SQLSTATE '40001' SET MYSQL_ERRNO = 1020",
        };
        connection.execute(sqlx::raw_sql(statement)).await?;
        Ok(())
    }

    async fn end_transaction(connection: &mut MySqlConnection, chain: bool) -> sqlx::Result<()> {
        let statement = if chain { "COMMIT AND CHAIN" } else { "COMMIT" };
        connection.execute(statement).await?;
        Ok(())
    }

    async fn dawdle(connection: &mut MySqlConnection) -> sqlx::Result<()> {
        connection.execute("DO SLEEP(60)").await?;
        Ok(())
    }

    fn static_pool() -> &'static OnceLock<MySqlPool> {
        &POOL
    }
}
