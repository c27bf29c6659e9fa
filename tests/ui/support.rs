//! What the handlers of the UI tests take and answer.
#![allow(dead_code, unused_imports)]

pub use axum::{
    Json, Router,
    extract::{FromRef, FromRequest, FromRequestParts, Path, Query, State},
    http::{StatusCode, request::Parts},
    response::{IntoResponse, Response},
    routing::post,
};
pub use idem_runtime::{AssertEffectFree, Disposition, EffectFree, External, Idempotency, IdempotentHandler, Scope, Tx, idempotent};
pub use serde::{Deserialize, Serialize};
pub use sqlx::{Postgres, Sqlite, SqliteConnection};

#[derive(Clone, Debug, EffectFree, Scope)]
pub struct AccountId(pub u64);

/// Who calls, as some authentication found out.
#[derive(Clone, Debug, EffectFree, Scope)]
pub struct Account(pub AccountId);

impl<S: Send + Sync> FromRequestParts<S> for Account {
    type Rejection = StatusCode;

    async fn from_request_parts(_: &mut Parts, _: &S) -> Result<Self, StatusCode> {
        Ok(Account(AccountId(1)))
    }
}

#[derive(Clone, EffectFree)]
pub struct Pricing {
    pub cents: u64,
}

#[derive(Clone, FromRef)]
pub struct AppState {
    pub idempotency: Idempotency<Sqlite>,
    pub pricing: Pricing,
}

#[derive(Deserialize)]
pub struct NewOrder {
    pub item: String,
}

#[derive(Serialize)]
pub struct Order {
    pub item: String,
    pub cents: u64,
}

#[derive(Debug)]
pub struct ApiError;

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        StatusCode::BAD_REQUEST.into_response()
    }
}

impl From<sqlx::Error> for ApiError {
    fn from(_: sqlx::Error) -> Self {
        ApiError
    }
}

pub async fn insert_order(db: &mut SqliteConnection, new: &NewOrder) -> sqlx::Result<()> {
    sqlx::query("INSERT INTO orders (item) VALUES (?)")
        .bind(&new.item)
        .execute(db)
        .await?;
    Ok(())
}
