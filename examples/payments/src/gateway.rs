//! The provider's client, and what its errors say of the effect.

use std::error::Error;
use std::iter;
use std::time::Duration;

use axum::http::StatusCode;
use axum::http::header::RETRY_AFTER;
use idem_runtime::steps::{CallFailure, Classify, DownstreamKey, Reconciled};
use reqwest::redirect::Policy;
use reqwest::{Client, RequestBuilder, Response};
use serde::{Deserialize, Serialize};
use serde_json::json;

/// What every attempt sends: it is stored before the first call.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Bill {
    pub source: String,
    pub cents: i64,
}

/// What the provider answers, as far as we need it: it is stored as the step's result.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Payment {
    pub id: String,
}

/// No money moved, and none will. Stored too, so that a handler which runs again is told the same.
#[derive(Clone, Debug, Serialize, Deserialize, thiserror::Error)]
#[error("nothing was paid: {code}")]
pub struct Declined {
    /// `card_declined` and the like are the provider's; `provider_unavailable` is ours.
    pub code: String,
}

/// The provider's HTTP interface. In the state it is an [`External`](idem_runtime::External), which only a step opens.
#[derive(Debug)]
pub struct Gateway {
    http: Client,
    url: String,
}

impl Gateway {
    pub fn new(url: impl Into<String>) -> reqwest::Result<Self> {
        // A redirect would have the client send a payment a second time by itself.
        let http = Client::builder().redirect(Policy::none()).build()?;
        Ok(Self {
            http,
            url: url.into(),
        })
    }

    /// A repeat with the same key changes nothing, and is answered the same.
    pub async fn charge(&self, key: &DownstreamKey, bill: &Bill) -> Result<Payment, GatewayError> {
        let request = self.http.post(format!("{}/charges", self.url)).json(bill);
        pay(request.header("Idempotency-Key", key.to_string())).await
    }

    /// Each call is a debit. The key is our reference for it.
    pub async fn debit(&self, key: &DownstreamKey, bill: &Bill) -> Result<Payment, GatewayError> {
        let body =
            json!({ "source": bill.source, "cents": bill.cents, "reference": key.to_string() });
        pay(self.http.post(format!("{}/debits", self.url)).json(&body)).await
    }

    /// Asks for the debit with our reference.
    pub async fn find_debit(
        &self,
        key: &DownstreamKey,
    ) -> Result<Reconciled<Payment>, GatewayError> {
        let answer = send(self.http.get(format!("{}/debits/{key}", self.url))).await?;
        match answer.status() {
            StatusCode::OK => read(answer).await.map(Reconciled::Found),
            StatusCode::NOT_FOUND => Ok(Reconciled::Absent),
            status => Err(GatewayError::Unexpected(status)),
        }
    }

    /// Each call is a redemption.
    pub async fn redeem(&self, bill: &Bill) -> Result<Payment, GatewayError> {
        pay(self
            .http
            .post(format!("{}/redemptions", self.url))
            .json(bill))
        .await
    }
}

async fn pay(request: RequestBuilder) -> Result<Payment, GatewayError> {
    let answer = send(request).await?;
    match answer.status() {
        StatusCode::CREATED => read(answer).await,
        StatusCode::PAYMENT_REQUIRED => Err(GatewayError::Declined(read(answer).await?)),
        StatusCode::TOO_MANY_REQUESTS => Err(GatewayError::Busy(retry_after(&answer))),
        status => Err(GatewayError::Unexpected(status)),
    }
}

async fn send(request: RequestBuilder) -> Result<Response, GatewayError> {
    request.send().await.map_err(|error| {
        if error.is_connect() {
            GatewayError::NotSent(error)
        } else {
            GatewayError::Lost(error)
        }
    })
}

async fn read<T: serde::de::DeserializeOwned>(answer: Response) -> Result<T, GatewayError> {
    answer.json().await.map_err(GatewayError::Lost)
}

fn retry_after(answer: &Response) -> Option<Duration> {
    let seconds = answer.headers().get(RETRY_AFTER)?.to_str().ok()?;
    seconds.parse().ok().map(Duration::from_secs)
}

/// What can go wrong with a call.
#[derive(Debug, thiserror::Error)]
pub enum GatewayError {
    #[error(transparent)]
    Declined(Declined),
    #[error("the provider is busy")]
    Busy(Option<Duration>),
    #[error("the provider can't be reached")]
    NotSent(#[source] reqwest::Error),
    #[error("the provider's answer is lost")]
    Lost(#[source] reqwest::Error),
    #[error("the provider answered {0}")]
    Unexpected(StatusCode),
}

/// Which errors are proof that no money moved. Only what the provider's documentation says, or what was never sent; all
/// else, a 500 and a time-out among it, is unknown.
impl Classify for GatewayError {
    type Refusal = Declined;

    fn classify(self) -> CallFailure<Declined> {
        let unavailable = || Declined {
            code: "provider_unavailable".to_owned(),
        };
        match self {
            Self::Declined(declined) => CallFailure::Refused(declined),
            Self::Busy(after) => CallFailure::NotYet {
                refusal: unavailable(),
                after,
            },
            Self::NotSent(_) => CallFailure::NotYet {
                refusal: unavailable(),
                after: None,
            },
            Self::Lost(_) | Self::Unexpected(_) => CallFailure::Unknown(with_causes(&self)),
        }
    }
}

/// The text of an error and of what caused it: an operator reads it.
fn with_causes(error: &dyn Error) -> String {
    let causes = iter::successors(Some(error), |&error| error.source());
    let texts: Vec<String> = causes.map(ToString::to_string).collect();
    texts.join(": ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_the_provider_documents_proves_that_no_money_moved() {
        for status in [200, 302, 400, 404, 409, 500, 502, 503, 504] {
            let status = StatusCode::from_u16(status).expect("it is a status");
            let failure = GatewayError::Unexpected(status).classify();
            assert!(matches!(failure, CallFailure::Unknown(_)), "{status}");
        }
        let code = "card_declined".to_owned();
        let declined = GatewayError::Declined(Declined { code }).classify();
        assert!(matches!(declined, CallFailure::Refused(_)));
    }
}
