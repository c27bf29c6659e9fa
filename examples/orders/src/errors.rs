//! What can go wrong, and what each error leaves of the request's idempotency key.

use axum::Json;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use idem_runtime::Disposition;
use idem_runtime::routing::PreconditionFailed;
use serde_json::json;

/// Every handler's error. The derive is for the idempotent ones: whatever the error, the transaction is
/// rolled back; the attribute says whether the key may be used again.
#[derive(Debug, thiserror::Error, Disposition)]
pub enum ApiError {
    /// The client corrects its request and sends it again, with the same key.
    #[error("{0}")]
    #[disposition(validation)]
    Validation(&'static str),

    /// A decision, and it stands: the answer is stored, and a retry is told the same even if the credit
    /// has been raised since. Who wants another decision makes another request, with another key.
    #[error("the order costs {total} cents, more than the account's credit")]
    #[disposition(rejection)]
    Declined { total: i64 },

    #[error("there is no such order")]
    #[disposition(validation)]
    NoSuchOrder,

    /// The id or the key already stands for an order, and for another one than was sent.
    #[error("another order was made with this {0}; choose a new one")]
    #[disposition(validation)]
    Taken(&'static str),

    /// Its own text says what to do.
    #[error(transparent)]
    #[disposition(validation)]
    PreconditionFailed(#[from] PreconditionFailed),

    /// May work later, so the key is let go. `source` lets the framework see the error underneath: after a
    /// deadlock or a serialization failure it runs the handler again by itself.
    #[error("the database failed; try again")]
    #[disposition(source)]
    Database(#[from] sqlx::Error),
}

impl ApiError {
    fn status(&self) -> StatusCode {
        match self {
            Self::Validation(_) => StatusCode::UNPROCESSABLE_ENTITY,
            Self::Declined { .. } => StatusCode::PAYMENT_REQUIRED,
            Self::NoSuchOrder => StatusCode::NOT_FOUND,
            Self::Taken(_) => StatusCode::CONFLICT,
            Self::PreconditionFailed(_) => StatusCode::PRECONDITION_FAILED,
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
