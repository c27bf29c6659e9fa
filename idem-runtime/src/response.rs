//! A response captured, stored and replayed.
//!
//! The first answer goes out as the handler made it. What is stored of it is the status, the body's
//! bytes, and the header fields that describe the answer rather than the moment or the connection:
//! [`HeaderPolicy`] has the list.

mod fields;
mod policy;

use std::time::{Duration, SystemTime};

use axum::{body::Body, response::Response};
use bytes::{Bytes, BytesMut};
use http::{Extensions, HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use http_body::Body as _;
use http_body_util::BodyExt as _;

pub use self::{fields::CorruptHeaders, policy::HeaderPolicy};

/// `Idempotent-Replayed: true` marks an answer that was stored earlier.
pub const IDEMPOTENT_REPLAYED: HeaderName = HeaderName::from_static("idempotent-replayed");

/// The HTTP date until which the key's answer is kept.
pub const IDEMPOTENCY_EXPIRES: HeaderName = HeaderName::from_static("idempotency-expires");

/// A handler's response with its body read whole.
#[derive(Debug, Clone)]
pub struct CapturedResponse {
    /// The status.
    pub status: StatusCode,
    /// All header fields, as the handler set them.
    pub headers: HeaderMap,
    /// The whole body. Trailers are dropped: a replay could not repeat them.
    pub body: Bytes,
    /// What layers outside the handler look for; never stored.
    pub extensions: Extensions,
}

impl CapturedResponse {
    /// Reads `response` to its end, of at most `limit` bytes.
    ///
    /// Bounded in memory, not in time: a body that trickles for ever ends with the attempt's
    /// timeout.
    ///
    /// # Errors
    ///
    /// [`NotStorable`], before the body is touched where its type or announced size says so.
    ///
    /// # Cancel safety
    ///
    /// Not cancel safe: the part of the body that was read is lost with the future.
    pub async fn capture(
        response: Response,
        limit: usize,
    ) -> Result<CapturedResponse, NotStorable> {
        let (parts, body) = response.into_parts();
        if parts.status.is_informational() {
            return Err(NotStorable::Interim(parts.status));
        }
        if is_event_stream(&parts.headers) {
            return Err(NotStorable::EventStream);
        }
        Ok(CapturedResponse {
            status: parts.status,
            headers: parts.headers,
            body: read(body, limit).await?,
            extensions: parts.extensions,
        })
    }

    /// What is kept of the response under `policy`.
    #[must_use]
    pub fn stored(&self, policy: &HeaderPolicy) -> StoredResponse {
        StoredResponse {
            status: self.status.as_u16(),
            headers: fields::encode(policy.kept(&self.headers)),
            body: self.body.clone(),
        }
    }

    /// The first answer, as the handler made it. `expires`, in milliseconds since the epoch, is
    /// that of the record, when one was stored.
    ///
    /// The framework's own two fields are taken out first: a handler that forwards another
    /// service's response must not mark this one as a replay.
    #[must_use]
    pub fn into_response(self, expires: Option<i64>) -> Response {
        let mut response = Response::new(Body::from(self.body));
        *response.status_mut() = self.status;
        *response.headers_mut() = self.headers;
        *response.extensions_mut() = self.extensions;
        response.headers_mut().remove(IDEMPOTENT_REPLAYED);
        response.headers_mut().remove(IDEMPOTENCY_EXPIRES);
        set_expires(response.headers_mut(), expires);
        response
    }
}

/// Why a response can't be kept for a replay.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NotStorable {
    /// The body is, or announces to be, longer than `max_response`.
    #[error("the response body is longer than {limit} bytes (`max_response`)")]
    TooLarge {
        /// The limit, in bytes.
        limit: usize,
    },
    /// A status of 1xx, which announces an answer and is none (RFC 9110, section 15.2).
    #[error("the response has the interim status {0}")]
    Interim(StatusCode),
    /// `text/event-stream`: it ends when its client leaves.
    #[error("the response is an event stream, which can't be replayed")]
    EventStream,
    /// The handler's body stream failed.
    #[error("the response body failed while it was read")]
    Body(#[source] axum::Error),
}

/// A response as it is in a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredResponse {
    /// The status code.
    pub status: u16,
    /// The header fields, length-prefixed: in order, with repetitions and non-ASCII bytes.
    pub headers: Vec<u8>,
    /// The body, byte by byte.
    pub body: Bytes,
}

impl StoredResponse {
    /// An answer of which only the status is known.
    #[must_use]
    pub fn empty(status: StatusCode) -> StoredResponse {
        StoredResponse {
            status: status.as_u16(),
            headers: fields::encode(std::iter::empty()),
            body: Bytes::new(),
        }
    }

    /// The replay: the stored answer with `Idempotent-Replayed: true` and, when `expires` (in
    /// milliseconds since the epoch) is given, `Idempotency-Expires`. `Content-Length` is left to
    /// the server, which knows the body's size.
    ///
    /// # Errors
    ///
    /// [`CorruptResponse`], when the record is not one that [`CapturedResponse::stored`] wrote.
    pub fn into_response(self, expires: Option<i64>) -> Result<Response, CorruptResponse> {
        let status =
            StatusCode::from_u16(self.status).map_err(|_| CorruptResponse::Status(self.status))?;
        let mut response = Response::new(Body::from(self.body));
        *response.status_mut() = status;
        *response.headers_mut() = fields::decode(&self.headers)?;
        response
            .headers_mut()
            .insert(IDEMPOTENT_REPLAYED, HeaderValue::from_static("true"));
        set_expires(response.headers_mut(), expires);
        Ok(response)
    }
}

impl CapturedResponse {
    /// The same response for somebody else's request: without what is not stored either.
    #[must_use]
    pub fn shared(&self, policy: &HeaderPolicy) -> CapturedResponse {
        let kept = policy.kept(&self.headers);
        CapturedResponse {
            status: self.status,
            headers: kept
                .map(|(name, value)| (name.clone(), value.clone()))
                .collect(),
            body: self.body.clone(),
            extensions: Extensions::new(),
        }
    }
}

/// A stored response that can't be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CorruptResponse {
    /// Not a status code.
    #[error("the stored status {0} is not a status code")]
    Status(u16),
    /// Not header fields as this library writes them.
    #[error("the stored header fields can't be read")]
    Headers(#[from] CorruptHeaders),
}

/// An HTTP date (RFC 9110, section 5.6.7) of a time in milliseconds since the epoch, rounded down:
/// a client that trusts it never comes too late. Times that the format can't express are clamped.
pub(crate) fn http_date(epoch_milliseconds: i64) -> HeaderValue {
    const LAST: u64 = 253_402_300_799; // 9999-12-31T23:59:59Z
    let seconds = u64::try_from(epoch_milliseconds).unwrap_or(0) / 1000;
    let time = SystemTime::UNIX_EPOCH + Duration::from_secs(seconds.min(LAST));
    HeaderValue::try_from(httpdate::fmt_http_date(time)).expect("an HTTP date is visible ASCII")
}

/// Marks a response that was built again from a record.
pub(crate) fn mark_replayed(response: &mut Response, expires: Option<i64>) {
    response
        .headers_mut()
        .insert(IDEMPOTENT_REPLAYED, HeaderValue::from_static("true"));
    set_expires(response.headers_mut(), expires);
}

fn set_expires(headers: &mut HeaderMap, expires: Option<i64>) {
    if let Some(expires) = expires {
        headers.insert(IDEMPOTENCY_EXPIRES, http_date(expires));
    }
}

fn is_event_stream(headers: &HeaderMap) -> bool {
    headers.get_all(header::CONTENT_TYPE).iter().any(|value| {
        let essence = value.as_bytes().split(|byte| *byte == b';').next();
        essence.is_some_and(|essence| {
            essence
                .trim_ascii()
                .eq_ignore_ascii_case(b"text/event-stream")
        })
    })
}

async fn read(mut body: Body, limit: usize) -> Result<Bytes, NotStorable> {
    let too_large = NotStorable::TooLarge { limit };
    // A body that tells its size is not worth starting on.
    if usize::try_from(body.size_hint().lower()).map_or(true, |announced| announced > limit) {
        return Err(too_large);
    }
    let mut whole = Collected::default();
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame.map_err(NotStorable::Body)?.into_data() else {
            continue;
        };
        if whole.len() + data.len() > limit {
            return Err(too_large);
        }
        whole.push(data);
    }
    Ok(whole.into_bytes())
}

/// Frames put together; most bodies are one, which is then not copied.
#[derive(Default)]
struct Collected {
    first: Bytes,
    joined: BytesMut,
}

impl Collected {
    fn len(&self) -> usize {
        self.first.len() + self.joined.len()
    }

    fn push(&mut self, data: Bytes) {
        if self.len() == 0 {
            self.first = data;
        } else {
            if !self.first.is_empty() {
                self.joined
                    .extend_from_slice(&std::mem::take(&mut self.first));
            }
            self.joined.extend_from_slice(&data);
        }
    }

    fn into_bytes(self) -> Bytes {
        if self.joined.is_empty() {
            self.first
        } else {
            self.joined.freeze()
        }
    }
}

#[cfg(test)]
mod tests;
