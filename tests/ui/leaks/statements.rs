//! Statements that end or begin a transaction, in literals.
#![allow(unused)]

#[path = "../support.rs"]
mod support;
use support::*;

use sqlx::{AssertSqlSafe, Executor, MySql};

#[idempotent(scope = "account")]
async fn ends(tx: &mut Tx<Postgres>, account: Account) -> Result<StatusCode, ApiError> {
    sqlx::query("  /* all done */ commit;").execute(&mut *tx).await?;
    sqlx::raw_sql("DELETE FROM orders; COMMIT; BEGIN").execute(&mut **tx).await?;
    tx.execute("END TRANSACTION").await?;
    tx.execute(AssertSqlSafe("ROLLBACK WORK")).await?;
    (&mut **tx).execute("ABORT -- never mind").await?;
    sqlx::QueryBuilder::<Postgres>::new("COMMIT AND CHAIN").build().execute(&mut *tx).await?;
    sqlx::query_scalar::<_, i64>("PREPARE TRANSACTION 'orders'").fetch_one(&mut *tx).await?;
    Ok(StatusCode::CREATED)
}

#[idempotent(scope = "account")]
async fn begins(tx: &mut Tx<Postgres>, account: Account) -> Result<StatusCode, ApiError> {
    tx.execute("START TRANSACTION ISOLATION LEVEL SERIALIZABLE").await?;
    sqlx::query("SET TRANSACTION READ ONLY").execute(&mut *tx).await?;
    tx.savepoint(async |part| {
        part.execute("BEGIN").await?;
        Ok::<_, ApiError>(())
    })
    .await?;
    Ok(StatusCode::CREATED)
}

#[idempotent(scope = "account")]
async fn commits_by_itself(tx: &mut Tx<MySql>, account: Account) -> Result<StatusCode, ApiError> {
    sqlx::query("TRUNCATE TABLE orders").execute(&mut *tx).await?;
    tx.execute("CREATE INDEX by_item ON orders (item)").await?;
    tx.execute("LOCK TABLES orders WRITE").await?;
    tx.execute("SET autocommit = 1").await?;
    tx.execute("XA END 'orders'").await?;
    Ok(StatusCode::CREATED)
}

fn main() {}
