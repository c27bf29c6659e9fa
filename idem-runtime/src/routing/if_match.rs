//! `If-Match`: the version that a client has seen, for `#[repeat_safe(precondition, ..)]`.

mod entity_tag;

use std::fmt;

use axum::extract::{FromRequestParts, OptionalFromRequestParts};
use axum::response::{IntoResponse, Response};
use http::header::{CONTENT_TYPE, IF_MATCH};
use http::request::Parts;
use http::{HeaderMap, StatusCode};
use serde_json::json;

use crate::capability::EffectFree;

pub use self::entity_tag::{EntityTag, InvalidEntityTag};

/// The `If-Match` field of a request ([RFC 9110, section 13.1.1]): which versions the client has seen, and so may change.
///
/// As an extractor, it refuses a request without the field with 428 ([RFC 6585, section 3]), for such a client would
/// overwrite what it has not seen, and one with a malformed field with 400.
///
/// ```
/// use axum::response::IntoResponse;
/// use idem_runtime::repeat_safe;
/// use idem_runtime::routing::{EntityTag, IfMatch, PreconditionFailed};
///
/// # async fn revision() -> u64 { 3 }
/// # async fn replace_revision(_: u64, _: String) -> bool { true }
/// #[repeat_safe(precondition, why = "a new revision matches no more")]
/// async fn replace(if_match: IfMatch, text: String) -> Result<impl IntoResponse, PreconditionFailed> {
///     let revision = revision().await;
///     if_match.check(Some(&EntityTag::strong(revision)))?;
///     // What was just read may be old by now: `UPDATE .. WHERE revision = ..`
///     match replace_revision(revision, text).await {
///         true => Ok("replaced"),
///         false => Err(PreconditionFailed),
///     }
/// }
/// ```
///
/// [RFC 9110, section 13.1.1]: https://www.rfc-editor.org/rfc/rfc9110#section-13.1.1
/// [RFC 6585, section 3]: https://www.rfc-editor.org/rfc/rfc6585#section-3
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IfMatch {
    /// `*`: whatever there is, but there must be something.
    Any,
    /// One of these.
    OneOf(Vec<EntityTag>),
}

impl EffectFree for IfMatch {}

impl IfMatch {
    /// Reads the field; several field lines are one list.
    ///
    /// # Errors
    ///
    /// [`IfMatchRejection`], if there is none, or it is no list of entity tags.
    pub fn from_headers(headers: &HeaderMap) -> Result<Self, IfMatchRejection> {
        let mut tags = Vec::new();
        let mut any = false;
        let mut lines = headers.get_all(IF_MATCH).iter().peekable();
        if lines.peek().is_none() {
            return Err(IfMatchRejection::Missing);
        }
        for line in lines {
            if line.as_bytes().trim_ascii() == b"*" {
                any = true;
            } else {
                tags.extend(EntityTag::list(line.as_bytes()).ok_or(IfMatchRejection::Malformed)?);
            }
        }
        match (any, tags.is_empty()) {
            (true, true) => Ok(Self::Any),
            (false, false) => Ok(Self::OneOf(tags)),
            _ => Err(IfMatchRejection::Malformed),
        }
    }

    /// Whether the request may change what is there: `current` is the tag of that, `None` if there is nothing. Tags are
    /// compared strongly (RFC 9110, section 8.8.3.2): a weak one is equal to none.
    #[must_use]
    pub fn matches(&self, current: Option<&EntityTag>) -> bool {
        match (self, current) {
            (_, None) => false,
            (Self::Any, Some(_)) => true,
            (Self::OneOf(tags), Some(current)) => {
                tags.iter().any(|tag| tag.is_strongly_equal_to(current))
            }
        }
    }

    /// [`IfMatch::matches`], for `?`.
    ///
    /// # Errors
    ///
    /// [`PreconditionFailed`], if it does not match.
    pub fn check(&self, current: Option<&EntityTag>) -> Result<(), PreconditionFailed> {
        if self.matches(current) {
            Ok(())
        } else {
            Err(PreconditionFailed)
        }
    }
}

/// For a handler that also serves clients which have seen nothing.
impl<S: Sync> OptionalFromRequestParts<S> for IfMatch {
    type Rejection = IfMatchRejection;

    async fn from_request_parts(
        parts: &mut Parts,
        _: &S,
    ) -> Result<Option<Self>, IfMatchRejection> {
        match Self::from_headers(&parts.headers) {
            Err(IfMatchRejection::Missing) => Ok(None),
            read => read.map(Some),
        }
    }
}

impl<S: Sync> FromRequestParts<S> for IfMatch {
    type Rejection = IfMatchRejection;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, IfMatchRejection> {
        Self::from_headers(&parts.headers)
    }
}

/// Why a request has no usable `If-Match`. The answer is a problem (RFC 9457).
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum IfMatchRejection {
    /// There is none: 428 (RFC 6585, section 3).
    #[error(
        "say which version is to be changed: send `If-Match` with the `ETag` of your last read"
    )]
    Missing,
    /// It is not `*`, and no list of entity tags: 400.
    #[error("`If-Match` takes entity tags in quotes, as `If-Match: \"3\"`, or `*`")]
    Malformed,
}

impl IntoResponse for IfMatchRejection {
    fn into_response(self) -> Response {
        let status = match self {
            Self::Missing => StatusCode::PRECONDITION_REQUIRED,
            Self::Malformed => StatusCode::BAD_REQUEST,
        };
        problem(status, &self)
    }
}

/// What was to be changed is not the version that the client has seen: 412 (RFC 9110, section 15.5.13), as a problem
/// (RFC 9457).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, thiserror::Error)]
#[error("it has changed since you read it; read it again, and decide anew")]
pub struct PreconditionFailed;

impl IntoResponse for PreconditionFailed {
    fn into_response(self) -> Response {
        problem(StatusCode::PRECONDITION_FAILED, &self)
    }
}

/// `about:blank`: the status says it all (RFC 9457, section 4.2.1).
fn problem(status: StatusCode, detail: &dyn fmt::Display) -> Response {
    let body = json!({
        "type": "about:blank",
        "title": status.canonical_reason(),
        "status": status.as_u16(),
        "detail": detail.to_string(),
    });
    let media_type = [(CONTENT_TYPE, "application/problem+json")];
    (status, media_type, body.to_string()).into_response()
}

#[cfg(test)]
mod tests;
