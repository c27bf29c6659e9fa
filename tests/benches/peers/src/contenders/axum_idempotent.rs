//! `axum-idempotent`: a layer that keeps answers in the caller's session. Its README has the layers in this order, and the key from
//! its header. The session's store is the one for PostgreSQL; the one for Redis needs Redis 7.4, which Debian 12 has not.

use std::sync::Arc;

use axum::Router;
use axum::http::StatusCode;
use axum::routing::post;
use axum_idempotent::{IdempotentLayer, IdempotentOptions};
use ruts::store::Ttl;
use ruts::store::postgres::{PostgresStore, PostgresStoreBuilder};
use ruts::{CookieOptions, Session, SessionLayer};
use sqlx_of_ruts::postgres::PgPoolOptions;
use tower_cookies::CookieManagerLayer;

use super::{BoxError, Setup, unprotected};

const DAY: u32 = 24 * 60 * 60;

pub(super) async fn router(setup: Setup) -> Result<Router, BoxError> {
    let pool = PgPoolOptions::new()
        .max_connections(setup.connections)
        .test_before_acquire(false)
        .connect(&setup.postgres_url)
        .await?;
    let store = PostgresStoreBuilder::new(pool)
        .create_table(setup.migrates)
        .build()
        .await?;
    let options = IdempotentOptions::default()
        .use_idempotency_key_header(Some("Idempotency-Key"), true)
        .expire_after(DAY.into());
    let cookie = CookieOptions::build()
        .name("session")
        .max_age(DAY.into())
        .path("/");
    Ok(Router::new()
        .route("/orders", post(unprotected::order))
        .with_state(setup.pool)
        .layer(IdempotentLayer::<PostgresStore>::new(options))
        // Not idempotent: it makes the session.
        .route("/login", post(log_in))
        .layer(SessionLayer::new(Arc::new(store)).with_cookie_options(cookie))
        .layer(CookieManagerLayer::new()))
}

/// An answer is kept only for a request that has a session.
async fn log_in(session: Session<PostgresStore>) -> StatusCode {
    let Ok(ttl) = Ttl::new(DAY.into()) else {
        return StatusCode::INTERNAL_SERVER_ERROR;
    };
    match session.set("user", &1, ttl, None).await {
        Ok(_) => StatusCode::NO_CONTENT,
        Err(_) => StatusCode::INTERNAL_SERVER_ERROR,
    }
}
