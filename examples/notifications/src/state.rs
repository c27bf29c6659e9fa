//! What the shop's handlers share.

use std::error::Error;

use axum::extract::FromRef;
use idem_runtime::Idempotency;
use sqlx::Pool;

use crate::auth::Tokens;
use crate::database::{self, Db, Tables};

/// The router's state.
#[derive(Clone, FromRef)]
pub struct AppState {
    pub idempotency: Idempotency<Db>,
    pub pool: Pool<Db>,
    pub tokens: Tokens,
}

impl AppState {
    /// Makes the tables that are missing, and checks what would fail later.
    pub async fn start(pool: Pool<Db>) -> Result<Self, Box<dyn Error + Send + Sync>> {
        Ok(Self {
            idempotency: open(&pool, Tables::Shop).await?,
            pool,
            tokens: Tokens,
        })
    }
}

/// Makes the tables that are missing, a part's and the framework's. Each part does so in its own database.
pub async fn open(
    pool: &Pool<Db>,
    tables: Tables,
) -> Result<Idempotency<Db>, Box<dyn Error + Send + Sync>> {
    database::create_tables(pool, tables).await?;
    let idempotency = Idempotency::builder(pool.clone())
        .wait(database::ACQUIRE_TIMEOUT)
        .build()?;
    idempotency.migrate().await?;
    idempotency.check().await?;
    Ok(idempotency)
}
