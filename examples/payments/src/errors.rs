//! What can go wrong, and what each error leaves of the request's idempotency key.

use axum::Json;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use idem_runtime::Disposition;
use idem_runtime::operations::OperationsError;
use serde_json::json;

use crate::gateway::Declined;

/// Every handler's error. What the derive says of a key holds while no step has committed; after that the answer is stored, since
/// the key can't be let go, but for an error that may pass: `transient` and `source` leave the payment to recovery.
#[derive(Debug, thiserror::Error, Disposition)]
pub enum ApiError {
    /// The first step said no, and left nothing: the client corrects its request and sends it again, with the same key.
    #[error("there is no such item in stock")]
    #[disposition(validation)]
    NotInStock,

    /// The provider said no. The answer is stored, and a retry is told the same: who wants to pay with another card makes
    /// another request, with another key.
    #[error(transparent)]
    #[disposition(rejection)]
    NotPaid(#[from] Declined),

    /// The key made an order so long ago that its record is gone.
    #[error("an order was made with this key before; look at your orders")]
    #[disposition(validation)]
    AlreadyOrdered,

    /// `source` lets the framework see the error underneath: after a deadlock or a serialization failure it runs the step
    /// again by itself.
    #[error("the database failed; try again")]
    #[disposition(source)]
    Database(#[source] sqlx::Error),

    #[error("the database failed; try again")]
    #[disposition(transient)]
    Operations(#[from] OperationsError),
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
            Self::NotInStock => StatusCode::UNPROCESSABLE_ENTITY,
            Self::NotPaid(_) => StatusCode::PAYMENT_REQUIRED,
            Self::AlreadyOrdered => StatusCode::CONFLICT,
            Self::Database(_) | Self::Operations(_) => StatusCode::SERVICE_UNAVAILABLE,
        }
    }
}

/// Problem details (RFC 9457), as the framework's own error answers are.
impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        match &self {
            Self::Database(error) => tracing::error!(%error, "the database failed"),
            Self::Operations(error) => tracing::error!(%error, "the database failed"),
            _ => {}
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
