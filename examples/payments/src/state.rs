//! What the handlers and the recovery worker share.

use std::error::Error;
use std::time::Duration;

use axum::extract::FromRef;
use idem_runtime::problem::UriReference;
use idem_runtime::{External, Idempotency};
use sqlx::Pool;

use crate::auth::Tokens;
use crate::database::{self, Db};
use crate::gateway::Gateway;

/// The router's state, and the recovery worker's: a handler that runs again without its request takes its clients from here.
#[derive(Clone, FromRef)]
pub struct AppState {
    pub idempotency: Idempotency<Db>,
    pub pool: Pool<Db>,
    pub gateway: External<Gateway>,
    pub tokens: Tokens,
}

impl AppState {
    /// Makes the tables that are missing, ours and the framework's, and checks what would fail later.
    pub async fn start(
        pool: Pool<Db>,
        gateway: Gateway,
    ) -> Result<Self, Box<dyn Error + Send + Sync>> {
        database::create_tables(&pool).await?;
        let idempotency = Idempotency::builder(pool.clone())
            // A crash holds a payment up for so long; a process that is paused for longer loses it to another.
            .lease(Duration::from_secs(5))
            .wait(database::ACQUIRE_TIMEOUT)
            .status_link(UriReference::parse("/operations")?)
            .build()?;
        idempotency.migrate().await?;
        idempotency.check().await?;
        Ok(Self {
            idempotency,
            pool,
            gateway: External::new(gateway),
            tokens: Tokens,
        })
    }
}
