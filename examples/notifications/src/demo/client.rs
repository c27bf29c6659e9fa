//! A client that sends orders, each under a key of its own.

use std::fmt;

use axum::http::StatusCode;
use uuid::Uuid;

#[derive(Clone, Debug)]
pub(super) struct Client {
    http: reqwest::Client,
}

/// An order that was sent, and may be sent again.
#[derive(Clone, Debug)]
pub(super) struct Placed {
    pub(super) account: &'static str,
    item: &'static str,
    key: String,
}

#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: StatusCode,
    pub(super) replayed: bool,
    body: String,
}

impl Placed {
    pub(super) fn new(account: &'static str, item: &'static str) -> Self {
        Self {
            account,
            item,
            key: Uuid::new_v4().to_string(),
        }
    }

    /// In cents.
    pub(super) fn price(&self) -> i64 {
        match self.item {
            "book" => 1_500,
            _ => 4_500,
        }
    }
}

impl Client {
    pub(super) fn new() -> Result<Self, reqwest::Error> {
        let http = reqwest::Client::builder().no_proxy().build()?;
        Ok(Self { http })
    }

    pub(super) async fn send(&self, shop: &str, placed: &Placed) -> Result<Answer, reqwest::Error> {
        let response = self
            .http
            .post(format!("{shop}/orders"))
            .bearer_auth(format!("{}-token", placed.account))
            .header("idempotency-key", format!("\"{}\"", placed.key))
            .json(&serde_json::json!({ "item": placed.item }))
            .send()
            .await?;
        Ok(Answer {
            status: response.status(),
            replayed: response.headers().contains_key("idempotent-replayed"),
            body: response.text().await?,
        })
    }

    pub(super) async fn get<T: serde::de::DeserializeOwned>(
        &self,
        url: &str,
    ) -> Result<T, reqwest::Error> {
        let response = self.http.get(url).send().await?.error_for_status()?;
        response.json().await
    }
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let replayed = if self.replayed {
            " Idempotent-Replayed"
        } else {
            ""
        };
        write!(f, "{}{replayed} {}", self.status.as_u16(), self.body)
    }
}
