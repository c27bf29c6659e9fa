//! A provider in this process, and what it and the handler say to each other.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use idem_runtime::Backend;
use idem_runtime::steps::{CallFailure, Classify, DownstreamKey, Reconciled};
use idem_tests::servers::TestDatabase;
use serde::{Deserialize, Serialize, Serializer, ser};
use sqlx::Pool;

use crate::plan::{Answer, Plans};

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Order {
    pub(crate) cents: i64,
}

/// The order as another version of the handler reads it.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct OtherOrder {
    pub(crate) euros: i64,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Charge {
    #[serde(serialize_with = "storable")]
    pub(crate) id: String,
}

/// The provider's refusal, and the handler's error.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Refused {
    #[serde(serialize_with = "storable")]
    pub(crate) code: String,
}

fn storable<S: Serializer>(text: &str, to: S) -> Result<S::Ok, S::Error> {
    match text {
        "unstorable" => Err(ser::Error::custom("it has no text")),
        text => to.serialize_str(text),
    }
}

impl From<sqlx::Error> for Refused {
    fn from(error: sqlx::Error) -> Self {
        Self {
            code: error.to_string(),
        }
    }
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        (StatusCode::PAYMENT_REQUIRED, self.code).into_response()
    }
}

pub(crate) enum ProviderError {
    Declined(&'static str),
    Lost,
}

impl Classify for ProviderError {
    type Refusal = Refused;

    fn classify(self) -> CallFailure<Refused> {
        match self {
            Self::Declined(code) => CallFailure::Refused(Refused {
                code: code.to_owned(),
            }),
            Self::Lost => CallFailure::Unknown("the connection was reset".to_owned()),
        }
    }
}

/// A provider in this process.
pub(crate) struct Provider<DB: Backend> {
    pub(crate) plans: Plans,
    pub(crate) database: Arc<TestDatabase>,
    pub(crate) pool: Pool<DB>,
    pub(crate) calls: Arc<AtomicU32>,
}

impl<DB: Backend> Provider<DB> {
    pub(crate) async fn charge(&self) -> Result<Charge, ProviderError> {
        self.calls.fetch_add(1, Ordering::SeqCst);
        let id = match self.plans.now().answer {
            Answer::Charged => "ch_17",
            Answer::Unstorable => "unstorable",
            Answer::UnstorableRefusal => return Err(ProviderError::Declined("unstorable")),
            Answer::Lost => return Err(ProviderError::Lost),
            Answer::TakenOver => {
                let stolen = "UPDATE idem_operations SET attempt = attempt + 1";
                self.database.execute(stolen).await.unwrap();
                "ch_17"
            }
            Answer::BesideThePool => {
                drop(self.pool.acquire().await.unwrap());
                "ch_17"
            }
        };
        Ok(Charge { id: id.to_owned() })
    }

    pub(crate) async fn find(
        &self,
        _: &DownstreamKey,
    ) -> Result<Reconciled<Charge>, ProviderError> {
        Ok(Reconciled::CannotTell(
            "two charges have this amount".to_owned(),
        ))
    }
}
