//! What the handlers with steps of the UI tests take and answer.
#![allow(dead_code, unused_imports)]

pub use std::time::Duration;

pub use axum::{
    Form, Json, Router,
    extract::{FromRef, FromRequestParts, Path, Query, State},
    http::{HeaderMap, StatusCode, request::Parts},
    response::{IntoResponse, Response},
    routing::post,
};
pub use idem_runtime::{
    EffectFree, External, Idempotency, Scope, Steps, Tx, idempotent,
    steps::{CallFailure, Classify, DownstreamKey, Reconciled, Retry, Unclassified},
};
pub use serde::{Deserialize, Serialize};
pub use sqlx::Sqlite;

#[derive(Clone, Debug, EffectFree, Scope, Serialize, Deserialize)]
pub struct Account(pub u64);

impl<S: Send + Sync> FromRequestParts<S> for Account {
    type Rejection = StatusCode;

    async fn from_request_parts(_: &mut Parts, _: &S) -> Result<Self, StatusCode> {
        Ok(Account(1))
    }
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct NewCharge {
    pub cents: i64,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Charge {
    pub id: String,
}

#[derive(Debug, Serialize, Deserialize)]
pub struct Declined;

pub enum GatewayError {
    Declined,
    NoAnswer,
}

impl Classify for GatewayError {
    type Refusal = Declined;

    fn classify(self) -> CallFailure<Declined> {
        match self {
            GatewayError::Declined => CallFailure::Refused(Declined),
            GatewayError::NoAnswer => CallFailure::Unknown("no answer".to_owned()),
        }
    }
}

pub struct Gateway;

impl Gateway {
    pub async fn charge(&self, _: &DownstreamKey, _: &NewCharge) -> Result<Charge, GatewayError> {
        Err(GatewayError::NoAnswer)
    }

    pub async fn find(&self, _: &DownstreamKey) -> Result<Reconciled<Charge>, GatewayError> {
        Ok(Reconciled::Absent)
    }

    pub async fn notify(&self, _: &DownstreamKey) -> std::io::Result<()> {
        Ok(())
    }
}

#[derive(Clone, FromRef)]
pub struct AppState {
    pub idempotency: Idempotency<Sqlite>,
    pub gateway: External<Gateway>,
}

#[derive(Debug)]
pub enum ApiError {
    Database(sqlx::Error),
    Declined,
}

impl From<sqlx::Error> for ApiError {
    fn from(error: sqlx::Error) -> Self {
        ApiError::Database(error)
    }
}

impl From<Declined> for ApiError {
    fn from(_: Declined) -> Self {
        ApiError::Declined
    }
}

impl From<idem_runtime::steps::Never> for ApiError {
    fn from(never: idem_runtime::steps::Never) -> Self {
        match never {}
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        StatusCode::PAYMENT_REQUIRED.into_response()
    }
}
