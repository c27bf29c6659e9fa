//! Every error answer of the framework, as problem details
//! ([RFC 9457](https://www.rfc-editor.org/rfc/rfc9457)).
//!
//! No answer repeats a key, a body or a scope. Each `detail` says what to do next, and where it is
//! not known whether the operation took place, none suggests a new key: that could do it twice.

mod code;

use std::time::Duration;

use axum::{body::Body, response::Response};
use http::{HeaderMap, HeaderValue, header};
use serde::Serialize;

pub use self::code::Code;
use crate::{key::KeyError, region::Region, response};

const PROBLEM_JSON: HeaderValue = HeaderValue::from_static("application/problem+json");
const NO_STORE: HeaderValue = HeaderValue::from_static("no-store");
const DEFAULT_TYPE_BASE: &str = "urn:idem:problem:";

/// A URI or a reference to one (RFC 3986), which is safe inside the angle brackets of `Link`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UriReference(String);

impl UriReference {
    /// Accepts `text` when it consists of the characters that RFC 3986 allows in a URI.
    ///
    /// # Errors
    ///
    /// [`InvalidUri`], when it is empty or has another character, such as a space.
    pub fn parse(text: impl Into<String>) -> Result<UriReference, InvalidUri> {
        let text = text.into();
        let allowed =
            |byte: u8| byte.is_ascii_alphanumeric() || b"-._~:/?#[]@!$&'()*+,;=%".contains(&byte);
        if text.is_empty() || !text.bytes().all(allowed) {
            return Err(InvalidUri { text });
        }
        Ok(UriReference(text))
    }

    /// The text as given.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// With one more segment, whose characters are those of a URI.
    pub(crate) fn join(&self, segment: &str) -> Self {
        Self(format!("{}/{segment}", self.0.trim_end_matches('/')))
    }

    fn link(&self, relation: &str) -> HeaderValue {
        HeaderValue::try_from(format!("<{}>; rel=\"{relation}\"", self.0))
            .expect("a URI's characters are visible ASCII")
    }
}

/// A text that is not a URI.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not a URI: it is empty, or has characters that must be percent-encoded")]
pub struct InvalidUri {
    text: String,
}

/// What all answers of one service have in common.
///
/// ```
/// use idem_runtime::problem::ProblemStyle;
///
/// let style = ProblemStyle::default()
///     .type_base("https://api.example.com/problems/")?
///     .documentation("https://api.example.com/docs/idempotency")?;
/// # Ok::<(), idem_runtime::problem::InvalidUri>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProblemStyle {
    type_base: Option<UriReference>,
    documentation: Option<UriReference>,
}

impl ProblemStyle {
    /// What precedes the code in each `type`. The default is `urn:idem:problem:`.
    ///
    /// # Errors
    ///
    /// [`InvalidUri`], when `base` is not a URI.
    pub fn type_base(mut self, base: impl Into<String>) -> Result<ProblemStyle, InvalidUri> {
        self.type_base = Some(UriReference::parse(base)?);
        Ok(self)
    }

    /// Where clients read about the service's idempotency keys; sent as
    /// `Link: <…>; rel="describedby"`. There is no default.
    ///
    /// # Errors
    ///
    /// [`InvalidUri`], when `url` is not a URI.
    pub fn documentation(mut self, url: impl Into<String>) -> Result<ProblemStyle, InvalidUri> {
        self.documentation = Some(UriReference::parse(url)?);
        Ok(self)
    }

    fn problem_type(&self, code: Code) -> String {
        let base = self
            .type_base
            .as_ref()
            .map_or(DEFAULT_TYPE_BASE, UriReference::as_str);
        format!("{base}{code}")
    }
}

/// One error answer, before it has a [`ProblemStyle`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    code: Code,
    detail: Option<String>,
    retry_after: Option<Duration>,
    status_link: Option<UriReference>,
    expires: Option<i64>,
    region: Option<Region>,
}

impl Problem {
    /// The answer for `code`, with its default `detail`. Answers that ask for a later retry start
    /// with a `Retry-After` of one second.
    #[must_use]
    pub const fn new(code: Code) -> Problem {
        Problem {
            code,
            detail: None,
            retry_after: code.default_retry_after(),
            status_link: None,
            expires: None,
            region: None,
        }
    }

    /// What went wrong.
    #[must_use]
    pub const fn code(&self) -> Code {
        self.code
    }

    /// Replaces the `detail`. It must not hold the key, the body or the scope.
    #[must_use]
    pub fn detail(mut self, detail: impl Into<String>) -> Problem {
        self.detail = Some(detail.into());
        self
    }

    /// Sets `Retry-After` (RFC 9110, section 10.2.3), rounded up to whole seconds, at least one.
    #[must_use]
    pub fn retry_after(mut self, delay: Duration) -> Problem {
        self.retry_after = Some(delay);
        self
    }

    /// Adds `Link: <…>; rel="status"` (RFC 8631): where the operation's state is to be seen.
    #[must_use]
    pub fn status_link(mut self, link: UriReference) -> Problem {
        self.status_link = Some(link);
        self
    }

    /// Adds `Idempotency-Expires`: when the key's record expires, in milliseconds since the epoch.
    #[must_use]
    pub fn expires(mut self, epoch_milliseconds: i64) -> Problem {
        self.expires = Some(epoch_milliseconds);
        self
    }

    /// Adds the members `region` and, where it has an address, `region_url`: where the request belongs.
    #[must_use]
    pub fn region(mut self, region: Region) -> Problem {
        self.region = Some(region);
        self
    }

    /// The answer.
    #[must_use]
    pub fn into_response(self, style: &ProblemStyle) -> Response {
        let body = Members {
            r#type: style.problem_type(self.code),
            title: self.code.title(),
            status: self.code.status().as_u16(),
            detail: self.detail.as_deref().unwrap_or(self.code.default_detail()),
            code: self.code.as_str(),
            retryable: self.code.retryable(),
            region: self.region.as_ref().map(Region::name),
            region_url: self
                .region
                .as_ref()
                .and_then(Region::address)
                .map(UriReference::as_str),
        };
        let body = serde_json::to_vec(&body).expect("texts and numbers always serialize");
        let mut response = Response::new(Body::from(body));
        *response.status_mut() = self.code.status();
        self.write_headers(style, response.headers_mut());
        response
    }

    fn write_headers(&self, style: &ProblemStyle, headers: &mut HeaderMap) {
        headers.insert(header::CONTENT_TYPE, PROBLEM_JSON);
        headers.insert(header::CACHE_CONTROL, NO_STORE);
        if let Some(delay) = self.retry_after {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(whole_seconds(delay)));
        }
        if let Some(documentation) = &style.documentation {
            headers.append(header::LINK, documentation.link("describedby"));
        }
        if let Some(status) = &self.status_link {
            headers.append(header::LINK, status.link("status"));
        }
        if let Some(expires) = self.expires {
            headers.insert(response::IDEMPOTENCY_EXPIRES, response::http_date(expires));
        }
    }
}

/// The answer for a refused key says what is wrong with it.
impl From<KeyError> for Problem {
    fn from(error: KeyError) -> Problem {
        Problem::new(Code::KeyInvalid).detail(error.to_string())
    }
}

/// The members of the answer, in the order in which they are sent.
#[derive(Serialize)]
struct Members<'a> {
    r#type: String,
    title: &'static str,
    status: u16,
    detail: &'a str,
    code: &'static str,
    retryable: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    region: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    region_url: Option<&'a str>,
}

fn whole_seconds(delay: Duration) -> u64 {
    let partial = u64::from(delay.subsec_nanos() > 0);
    delay.as_secs().saturating_add(partial).max(1)
}

#[cfg(test)]
mod tests;
