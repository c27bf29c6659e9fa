//! PostgreSQL.

use std::str::FromStr;
use std::sync::OnceLock;

use sqlx::pool::PoolOptions;
use sqlx::postgres::{PgConnectOptions, PgConnection};
use sqlx::{Connection, Executor, PgPool, Postgres};

use super::{Business, Config, Effect, Fault, Row};

static POOL: OnceLock<PgPool> = OnceLock::new();

impl Business for Postgres {
    async fn connect(options: PoolOptions<Self>, config: &Config) -> sqlx::Result<PgPool> {
        let mut connect = PgConnectOptions::from_str(&config.database_url)?;
        // A pooler takes no options of a session.
        if let Some(isolation) = config.isolation
            && !config.transaction_pooling
        {
            connect = connect.options([(
                "default_transaction_isolation",
                isolation.as_sql().to_lowercase(),
            )]);
        }
        options.connect_with(connect).await
    }

    async fn create_tables(pool: &PgPool) -> sqlx::Result<()> {
        let mut transaction = pool.begin().await?;
        // Two probes that start at once would both create them.
        transaction
            .execute("SELECT pg_advisory_xact_lock(7)")
            .await?;
        transaction
            .execute(
                "CREATE TABLE IF NOT EXISTS effects (
                     id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
                     account text NOT NULL, key_digest text NOT NULL,
                     path text NOT NULL, query text NOT NULL, body text NOT NULL)",
            )
            .await?;
        transaction
            .execute("CREATE TABLE IF NOT EXISTS once (n bigint PRIMARY KEY)")
            .await?;
        transaction
            .execute(
                "CREATE TABLE IF NOT EXISTS late (
                     n bigint UNIQUE DEFERRABLE INITIALLY DEFERRED)",
            )
            .await?;
        transaction
            .execute("INSERT INTO once VALUES (1) ON CONFLICT DO NOTHING")
            .await?;
        transaction.commit().await
    }

    async fn write(connection: &mut PgConnection, effect: &Effect<'_>) -> sqlx::Result<i64> {
        sqlx::query_scalar(
            "INSERT INTO effects (account, key_digest, path, query, body)
             VALUES ($1, $2, $3, $4, $5) RETURNING id",
        )
        .bind(effect.account)
        .bind(effect.key_digest)
        .bind(effect.path)
        .bind(effect.query)
        .bind(String::from_utf8_lossy(effect.body).replace('\0', ""))
        .fetch_one(connection)
        .await
    }

    async fn read(url: &str, account: &str) -> sqlx::Result<Vec<Row>> {
        let mut connection = PgConnection::connect(url).await?;
        // As every statement of an application's behind a pooler: in a transaction, and without a name.
        let mut reading = connection.begin().await?;
        let rows = sqlx::query_as(
            "SELECT id, key_digest, path, query, body FROM effects WHERE account = $1 ORDER BY id",
        )
        .bind(account)
        .persistent(false)
        .fetch_all(&mut *reading)
        .await?;
        reading.commit().await?;
        connection.close().await?;
        Ok(rows)
    }

    async fn violate(connection: &mut PgConnection) -> sqlx::Result<()> {
        connection.execute("INSERT INTO once VALUES (1)").await?;
        Ok(())
    }

    async fn violate_later(connection: &mut PgConnection) -> sqlx::Result<()> {
        connection
            .execute("INSERT INTO late VALUES (1), (1)")
            .await?;
        Ok(())
    }

    async fn conflict(connection: &mut PgConnection, fault: Fault) -> sqlx::Result<()> {
        let statement = match fault {
            Fault::Deadlock => "DO $$ BEGIN RAISE EXCEPTION USING ERRCODE = '40P01'; END $$",
            _ => "DO $$ BEGIN RAISE EXCEPTION USING ERRCODE = '40001'; END $$",
        };
        connection.execute(statement).await?;
        Ok(())
    }

    async fn end_transaction(connection: &mut PgConnection, chain: bool) -> sqlx::Result<()> {
        let statement = if chain { "COMMIT AND CHAIN" } else { "COMMIT" };
        connection.execute(statement).await?;
        Ok(())
    }

    async fn dawdle(connection: &mut PgConnection) -> sqlx::Result<()> {
        connection.execute("SELECT pg_sleep(60)").await?;
        Ok(())
    }

    fn static_pool() -> &'static OnceLock<PgPool> {
        &POOL
    }
}
