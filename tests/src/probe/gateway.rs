//! The client of the fake payment provider.

use std::time::Duration;

use idem_runtime::steps::{CallFailure, Classify, DownstreamKey, Reconciled};
use reqwest::StatusCode;
use serde::{Deserialize, Serialize};

/// What is sent.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Order {
    pub(crate) body: String,
    /// What is to go wrong at the provider, the first time.
    pub(crate) fault: Option<String>,
}

/// Money that was taken, as the provider tells it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Charge {
    pub(crate) id: String,
}

/// No money was taken.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct NoCharge {
    pub(crate) message: String,
    /// What the caller is answered.
    pub(crate) status: u16,
}

/// What went wrong.
#[derive(Debug)]
pub(crate) enum GatewayError {
    Declined(String),
    Busy {
        status: StatusCode,
        after: Option<Duration>,
    },
    /// An answer that says nothing of the charge.
    Unclear(StatusCode),
    Client(reqwest::Error),
}

impl From<reqwest::Error> for GatewayError {
    fn from(error: reqwest::Error) -> GatewayError {
        GatewayError::Client(error)
    }
}

impl Classify for GatewayError {
    type Refusal = NoCharge;

    fn classify(self) -> CallFailure<NoCharge> {
        let unavailable = |message| NoCharge {
            message,
            status: StatusCode::SERVICE_UNAVAILABLE.as_u16(),
        };
        match self {
            GatewayError::Declined(message) => CallFailure::Refused(NoCharge {
                message,
                status: StatusCode::PAYMENT_REQUIRED.as_u16(),
            }),
            GatewayError::Busy { status, after } => CallFailure::NotYet {
                refusal: unavailable(format!("the provider answered {status}")),
                after,
            },
            GatewayError::Unclear(status) => {
                CallFailure::Unknown(format!("the provider answered {status}"))
            }
            GatewayError::Client(error) => match error.classify() {
                CallFailure::Refused(not_sent) => {
                    CallFailure::Refused(unavailable(not_sent.message))
                }
                CallFailure::NotYet { refusal, after } => CallFailure::NotYet {
                    refusal: unavailable(refusal.message),
                    after,
                },
                CallFailure::Unknown(reason) => CallFailure::Unknown(reason),
            },
        }
    }
}

/// The provider at `PROVIDER_URL`.
pub(crate) struct Gateway {
    client: reqwest::Client,
    base: String,
}

impl Gateway {
    pub(crate) fn new(base: &str) -> Result<Gateway, reqwest::Error> {
        let client = reqwest::Client::builder()
            .no_proxy()
            // A connection that is not made after a redirect would look like one that never was.
            .redirect(reqwest::redirect::Policy::none())
            .pool_max_idle_per_host(0)
            .build()?;
        Ok(Gateway {
            client,
            base: base.trim_end_matches('/').to_owned(),
        })
    }

    /// Takes money.
    pub(crate) async fn charge(
        &self,
        key: &DownstreamKey,
        order: &Order,
    ) -> Result<Charge, GatewayError> {
        let mut request = self
            .client
            .post(format!("{}/charge", self.base))
            .header("idempotency-key", key.to_string())
            .header("content-type", "application/json")
            .body(order.body.clone());
        if let Some(fault) = &order.fault {
            request = request.header("x-fault-once", fault);
        }
        let answer = request.send().await?;
        match answer.status() {
            status if status.is_success() => Ok(answer.json().await?),
            StatusCode::PAYMENT_REQUIRED => Err(GatewayError::Declined(answer.text().await?)),
            status @ (StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE) => {
                let after = answer.headers().get("retry-after");
                let seconds = after.and_then(|value| value.to_str().ok()?.parse().ok());
                Err(GatewayError::Busy {
                    status,
                    after: seconds.map(Duration::from_secs),
                })
            }
            status => Err(GatewayError::Unclear(status)),
        }
    }

    /// Asks whether money was taken.
    pub(crate) async fn find(
        &self,
        key: &DownstreamKey,
    ) -> Result<Reconciled<Charge>, GatewayError> {
        let url = format!("{}/charges/by-key/{key}", self.base);
        let answer = self.client.get(url).send().await?;
        match answer.status() {
            StatusCode::OK => Ok(Reconciled::Found(answer.json().await?)),
            StatusCode::NOT_FOUND => Ok(Reconciled::Absent),
            status => Err(GatewayError::Unclear(status)),
        }
    }
}
