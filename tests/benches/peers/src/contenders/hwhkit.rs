//! `hwhkit`, a kit for web services: its layer keeps answers in Redis. It is used here without the rest of the kit.

use ::hwhkit::production::idempotency::IdempotencyLayer;
use axum::Router;
use axum::routing::post;
use hwhkit_config::AppConfig;
use hwhkit_core::{AppContext, IntegrationProvider};
use hwhkit_integration_redis::{RedisHandle, RedisProvider};

use super::{BoxError, Setup, unprotected};

/// What its keys begin with.
pub(super) const NAMESPACE: &str = "hwhkit:idem:";

pub(super) async fn router(setup: Setup) -> Result<Router, BoxError> {
    let mut config = AppConfig::default();
    config.integrations.redis.enabled = true;
    config.integrations.redis.url = setup.redis_url;
    let mut context = AppContext::default();
    RedisProvider.init(&mut context, &config).await?;
    let handle = context
        .get::<RedisHandle>()
        .ok_or("the provider made no handle")?;
    let layer = IdempotencyLayer::new((*handle).clone());
    Ok(Router::new()
        .route("/orders", post(unprotected::order))
        .with_state(setup.pool)
        .layer(layer))
}
