//! What `POST /charges` is made of: what its caller asks for, and how it treats its provider.

use std::time::Duration;

use axum::extract::FromRequestParts;
use axum::http::StatusCode;
use axum::http::request::Parts;
use idem_runtime::steps::Retry;
use idem_runtime::{Backend, EffectFree, External, Steps};
use serde::{Deserialize, Serialize};

use super::ask::{Ask, Fault};
use super::business::{Business, Effect};
use super::failure::Failure;
use super::gates;
use super::gateway::{Charge, Gateway, NoCharge, Order};

/// What the provider is known to do, and how long all of it may take.
#[derive(Clone, Debug, EffectFree)]
pub(crate) struct ChargePolicy {
    pub(crate) key_lifetime: Option<Duration>,
    pub(crate) reconcile: bool,
    pub(crate) call_timeout: Option<Duration>,
    pub(crate) in_flight_limit: Option<Duration>,
}

/// What the caller asks for, as data: an attempt that has no request is asked the same.
#[derive(Clone, Debug, Serialize, Deserialize, EffectFree)]
pub(crate) struct ChargeAsk {
    key_digest: String,
    provider_fault: Option<String>,
    sleep_ms: u64,
    gate: Option<String>,
    status: u16,
    error: Option<u16>,
    panics: bool,
}

impl<S: Sync> FromRequestParts<S> for ChargeAsk {
    type Rejection = std::convert::Infallible;

    async fn from_request_parts(
        parts: &mut Parts,
        state: &S,
    ) -> Result<ChargeAsk, Self::Rejection> {
        let ask = Ask::from_request_parts(parts, state).await?;
        let fault = parts.headers.get("x-probe-provider-fault");
        Ok(ChargeAsk {
            key_digest: ask.key_digest,
            provider_fault: fault.and_then(|value| Some(value.to_str().ok()?.to_owned())),
            sleep_ms: u64::try_from(ask.sleep.as_millis()).unwrap_or(u64::MAX),
            gate: ask.gate,
            status: ask.status.as_u16(),
            error: ask.error.map(|status| status.as_u16()),
            panics: ask.fault == Some(Fault::Panic),
        })
    }
}

impl ChargeAsk {
    pub(crate) fn status(&self) -> StatusCode {
        StatusCode::from_u16(self.status).unwrap_or(StatusCode::CREATED)
    }

    /// What is asked for after the charge and before the last step.
    pub(crate) async fn act(&self) -> Result<(), Failure> {
        assert!(!self.panics, "asked to");
        tokio::time::sleep(Duration::from_millis(self.sleep_ms)).await;
        if let Some(gate) = &self.gate {
            gates::pass(gate).await;
        }
        match self.error.map(StatusCode::from_u16) {
            Some(Ok(status)) => Err(Failure::Refused(status)),
            _ => Ok(()),
        }
    }

    /// The provider is sent the body, byte for byte.
    pub(crate) fn order(&self, body: &serde_json::Value) -> Order {
        Order {
            body: body.to_string(),
            fault: self.provider_fault.clone(),
        }
    }

    /// Writes the row of one step.
    pub(crate) async fn write<DB: Business>(
        &self,
        connection: &mut DB::Connection,
        account: &str,
        path: &str,
        body: &str,
    ) -> Result<i64, Failure> {
        let effect = Effect {
            account,
            key_digest: &self.key_digest,
            path,
            query: "",
            body: body.as_bytes(),
        };
        Ok(DB::write(connection, &effect).await?)
    }
}

/// The external step: the same call under each of the four declarations.
pub(crate) async fn charge<DB: Backend>(
    steps: &mut Steps<DB, Failure>,
    gateway: &External<Gateway>,
    policy: &ChargePolicy,
    order: Order,
) -> Result<Charge, NoCharge> {
    let mut step = steps
        .external("charge", gateway, order)
        .retry(Retry::times(3));
    if let Some(timeout) = policy.call_timeout {
        step = step.timeout(timeout);
    }
    if let Some(limit) = policy.in_flight_limit {
        step = step.in_flight_limit(limit);
    }
    match (policy.key_lifetime, policy.reconcile) {
        (Some(lifetime), true) => {
            let step = step.key_lifetime(lifetime).reconcile(Gateway::find);
            step.call(Gateway::charge).await
        }
        (Some(lifetime), false) => step.key_lifetime(lifetime).call(Gateway::charge).await,
        (None, true) => step.reconcile(Gateway::find).call(Gateway::charge).await,
        (None, false) => step.at_most_once().call(Gateway::charge).await,
    }
}
