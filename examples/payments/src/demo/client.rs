//! A client that sends one payment under one key, as often as it takes.

use std::fmt;
use std::time::Duration;

use axum::http::StatusCode;
use axum::http::header::LINK;
use reqwest::Response;
use uuid::Uuid;

use super::Result;

#[derive(Clone)]
pub(super) struct Request {
    http: reqwest::Client,
    path: &'static str,
    source: &'static str,
    key: String,
}

impl Request {
    pub(super) fn new(path: &'static str, source: &'static str) -> Result<Self> {
        Ok(Self {
            http: reqwest::Client::builder().no_proxy().build()?,
            path,
            source,
            key: Uuid::new_v4().to_string(),
        })
    }

    pub(super) async fn send(&self, server: &str) -> Result<Answer, reqwest::Error> {
        let response = self
            .http
            .post(format!("{server}{}", self.path))
            .bearer_auth("alice-token")
            .header("idempotency-key", format!("\"{}\"", self.key))
            .json(&serde_json::json!({ "item": "book", "source": self.source }))
            .send()
            .await?;
        Answer::read(response).await
    }

    /// Sends it until the answer is there: 409 says that it is not.
    pub(super) async fn until_answered(&self, server: &str) -> Result<Answer> {
        loop {
            let answer = self.send(server).await?;
            if answer.status != StatusCode::CONFLICT {
                return Ok(answer);
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }

    pub(super) async fn get(&self, server: &str, path: &str) -> Result<Answer, reqwest::Error> {
        let request = self.http.get(format!("{server}{path}"));
        Answer::read(request.bearer_auth("alice-token").send().await?).await
    }
}

pub(super) struct Answer {
    pub(super) status: StatusCode,
    fields: String,
    body: String,
}

impl Answer {
    async fn read(response: Response) -> Result<Self, reqwest::Error> {
        let mut fields = String::new();
        if response.headers().contains_key("idempotent-replayed") {
            fields.push_str(" Idempotent-Replayed");
        }
        for link in response.headers().get_all(LINK) {
            fields.push_str(&format!(" Link: {}", link.to_str().unwrap_or_default()));
        }
        Ok(Self {
            status: response.status(),
            fields,
            body: response.text().await?,
        })
    }
}

impl Answer {
    /// Where the operation's state is to be seen.
    pub(super) fn status_link(&self) -> Option<&str> {
        let (_, link) = self.fields.split_once("Link: <")?;
        let (path, relation) = link.split_once('>')?;
        relation.contains("rel=\"status\"").then_some(path)
    }
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{} {}", self.status.as_u16(), self.fields, self.body)
    }
}
