//! The errors that handlers return.

use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use idem_runtime::Disposition;

use super::gateway::NoCharge;

/// The error of most handlers. Its `source()` shows the database's error.
#[derive(Debug)]
pub(crate) enum Failure {
    /// Asked for.
    Refused(StatusCode),
    Database(sqlx::Error),
    /// The provider took no money.
    NoCharge(NoCharge),
}

impl From<NoCharge> for Failure {
    fn from(no_charge: NoCharge) -> Failure {
        Failure::NoCharge(no_charge)
    }
}

impl From<sqlx::Error> for Failure {
    fn from(error: sqlx::Error) -> Failure {
        Failure::Database(error)
    }
}

impl std::fmt::Display for Failure {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Failure::Refused(status) => write!(formatter, "refused with {status}, as asked"),
            Failure::Database(_) => write!(formatter, "the business statement failed"),
            Failure::NoCharge(why) => write!(formatter, "nothing was charged: {}", why.message),
        }
    }
}

impl std::error::Error for Failure {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Failure::Refused(_) | Failure::NoCharge(_) => None,
            Failure::Database(error) => Some(error),
        }
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        let status = match &self {
            Failure::Refused(status) => *status,
            Failure::Database(_) => StatusCode::INTERNAL_SERVER_ERROR,
            Failure::NoCharge(why) => {
                StatusCode::from_u16(why.status).unwrap_or(StatusCode::BAD_GATEWAY)
            }
        };
        (status, self.to_string()).into_response()
    }
}

/// An error type with the three dispositions.
#[derive(Debug, Disposition)]
pub(crate) enum Declared {
    #[disposition(validation)]
    Invalid,
    #[disposition(rejection)]
    Declined,
    #[disposition(transient)]
    Busy,
    #[disposition(transient)]
    Other(#[allow(dead_code, reason = "seen in its Debug form")] Failure),
}

impl From<Failure> for Declared {
    fn from(failure: Failure) -> Declared {
        match failure {
            Failure::Refused(StatusCode::BAD_REQUEST) => Declared::Invalid,
            Failure::Refused(StatusCode::PAYMENT_REQUIRED) => Declared::Declined,
            Failure::Refused(StatusCode::SERVICE_UNAVAILABLE) => Declared::Busy,
            other => Declared::Other(other),
        }
    }
}

impl IntoResponse for Declared {
    fn into_response(self) -> Response {
        let status = match &self {
            Declared::Invalid => StatusCode::BAD_REQUEST,
            Declared::Declined => StatusCode::PAYMENT_REQUIRED,
            Declared::Busy => StatusCode::SERVICE_UNAVAILABLE,
            Declared::Other(_) => StatusCode::INTERNAL_SERVER_ERROR,
        };
        (status, format!("{self:?}")).into_response()
    }
}
