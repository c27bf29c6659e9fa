//! What can go wrong, and what each error leaves of the request's idempotency key.

use axum::Json;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use idem_runtime::Disposition;
use serde_json::json;

/// Every handler's error.
#[derive(Debug, thiserror::Error, Disposition)]
pub enum ApiError {
    #[error("there is no such item")]
    #[disposition(validation)]
    NoSuchItem,

    /// The key made an order so long ago that its record is gone.
    #[error("an order was made with this key before; look at your orders")]
    #[disposition(validation)]
    AlreadyOrdered,

    /// A message that can't be staged is among them: then the order is not made either.
    #[error("the database failed; try again")]
    #[disposition(source)]
    Database(#[source] sqlx::Error),
}

impl From<sqlx::Error> for ApiError {
    fn from(error: sqlx::Error) -> Self {
        match error.as_database_error() {
            Some(database) if database.is_unique_violation() => Self::AlreadyOrdered,
            _ => Self::Database(error),
        }
    }
}

impl ApiError {
    fn status(&self) -> StatusCode {
        match self {
            Self::NoSuchItem => StatusCode::UNPROCESSABLE_ENTITY,
            Self::AlreadyOrdered => StatusCode::CONFLICT,
            Self::Database(_) => StatusCode::SERVICE_UNAVAILABLE,
        }
    }
}

/// Problem details (RFC 9457), as the framework's own error answers are.
impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        if let Self::Database(error) = &self {
            tracing::error!(%error, "the database failed");
        }
        let status = self.status();
        let problem = json!({
            "status": status.as_u16(),
            "title": status.canonical_reason(),
            "detail": self.to_string(),
        });
        let media_type = [(CONTENT_TYPE, "application/problem+json")];
        (status, media_type, Json(problem)).into_response()
    }
}
