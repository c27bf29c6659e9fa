//! What the handlers share.

use std::error::Error;

use axum::extract::FromRef;
use idem_runtime::{EffectFree, Idempotency};
use sqlx::Pool;

use crate::auth::Tokens;
use crate::database::{self, Db};

/// The router's state. `FromRef` hands out its fields, so that a handler names only what it needs. An
/// idempotent one can't take the pool, nor the whole state: a write through it would not be undone with its `tx`.
#[derive(Clone, FromRef)]
pub struct AppState {
    pub idempotency: Idempotency<Db>,
    pub pool: Pool<Db>,
    pub prices: Prices,
    pub tokens: Tokens,
}

impl AppState {
    /// Makes the tables that are missing, ours and the framework's, and checks what would fail later.
    pub async fn start(pool: Pool<Db>) -> Result<Self, Box<dyn Error + Send + Sync>> {
        database::create_tables(&pool).await?;
        let idempotency = Idempotency::new(pool.clone());
        idempotency.migrate().await?;
        idempotency.check().await?;
        Ok(Self {
            idempotency,
            pool,
            prices: Prices,
            tokens: Tokens,
        })
    }
}

/// What things cost. `EffectFree`: a handler that reads it leaves no effect behind.
#[derive(Clone, Copy, Debug, EffectFree)]
pub struct Prices;

impl Prices {
    /// The price of one piece, in cents.
    pub fn of(self, item: &str) -> Option<i64> {
        match item {
            "book" => Some(1_500),
            "lamp" => Some(4_500),
            "desk" => Some(25_000),
            _ => None,
        }
    }
}
