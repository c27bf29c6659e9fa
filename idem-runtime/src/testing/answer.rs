//! An answer as it can be compared.

use std::fmt;

use axum::response::Response;
use bytes::Bytes;
use http::{Extensions, HeaderMap, StatusCode, header};

use crate::problem::Code;
use crate::response::{CapturedResponse, HeaderPolicy, IDEMPOTENT_REPLAYED};

/// Bodies are shown up to this many bytes.
const SHOWN: usize = 300;
/// A test's answers may be of any size.
const NO_LIMIT: usize = usize::MAX;

/// An answer that was read whole.
#[derive(Clone, Debug)]
pub struct Answer {
    /// Its status.
    pub status: StatusCode,
    /// Its header fields, all of them.
    pub headers: HeaderMap,
    /// Its body.
    pub body: Bytes,
}

impl Answer {
    pub(super) async fn read(response: Response) -> Result<Answer, String> {
        let (parts, body) = response.into_parts();
        let body = axum::body::to_bytes(body, NO_LIMIT)
            .await
            .map_err(|error| format!("its body broke off: {error}"))?;
        Ok(Answer {
            status: parts.status,
            headers: parts.headers,
            body,
        })
    }

    /// Whether it is marked as a replay.
    #[must_use]
    pub fn is_replay(&self) -> bool {
        self.headers
            .get(IDEMPOTENT_REPLAYED)
            .is_some_and(|value| value == "true")
    }

    /// Whether it is a success or a redirect.
    pub(super) fn succeeded(&self) -> bool {
        self.status.is_success() || self.status.is_redirection()
    }

    /// Whether it asks for the same request again: 409 or 503.
    pub(super) fn puts_off(&self) -> bool {
        matches!(
            self.status,
            StatusCode::CONFLICT | StatusCode::SERVICE_UNAVAILABLE
        ) && !self.is_unknown()
    }

    /// Whether it says that the operation's outcome is unknown: no retry changes that.
    pub(super) fn is_unknown(&self) -> bool {
        #[derive(serde::Deserialize)]
        struct Problem {
            code: String,
        }
        let problem = serde_json::from_slice::<Problem>(&self.body);
        self.status == StatusCode::CONFLICT
            && problem.is_ok_and(|problem| problem.code == Code::OutcomeUnknown.as_str())
    }

    pub(super) fn has_retry_after(&self) -> bool {
        self.headers.contains_key(header::RETRY_AFTER)
    }

    /// What a later answer to the same request has otherwise, of what must be the same.
    pub(super) fn difference(&self, later: &Answer, policy: &HeaderPolicy) -> Option<&'static str> {
        if self.status != later.status {
            Some("status")
        } else if self.body != later.body {
            Some("body")
        } else if self.kept(policy) != later.kept(policy) {
            Some("set of header fields")
        } else {
            None
        }
    }

    /// The fields that a replay keeps; `None` where they can't be stored.
    fn kept(&self, policy: &HeaderPolicy) -> Option<HeaderMap> {
        let captured = CapturedResponse {
            status: self.status,
            headers: self.headers.clone(),
            body: Bytes::new(),
            extensions: Extensions::new(),
        };
        let replayed = captured.stored(policy).into_response(None).ok()?;
        Some(replayed.into_parts().0.headers)
    }
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = &self.body[..self.body.len().min(SHOWN)];
        write!(f, "{}", self.status)?;
        for (name, value) in &self.headers {
            write!(f, ", {name}: {}", String::from_utf8_lossy(value.as_bytes()))?;
        }
        write!(f, ", body {:?}", String::from_utf8_lossy(shown))?;
        match self.body.len().checked_sub(SHOWN) {
            Some(more) if more > 0 => write!(f, " and {more} bytes more"),
            _ => Ok(()),
        }
    }
}
