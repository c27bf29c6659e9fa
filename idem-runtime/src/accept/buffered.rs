//! A request whose body is read.

use bytes::Bytes;
use http::request::Parts;
use http_body_util::{BodyExt, LengthLimitError, Limited};

use crate::faults::{self, Plant};
use crate::fingerprint::{Fingerprint, FingerprintInput, FingerprintOptions};
use crate::problem::{Code, Problem};

/// A buffered request: all that an attempt needs to run, and to compare.
#[derive(Clone, Debug)]
pub(crate) struct Buffered {
    pub(crate) parts: Parts,
    pub(crate) body: Bytes,
}

impl Buffered {
    /// The fingerprint by a version's rules; `None` for a version that this library does not know.
    pub(crate) fn fingerprint(
        &self,
        version: u8,
        options: &FingerprintOptions<'_>,
    ) -> Option<Fingerprint> {
        // In a nested router only the original URI is the whole one.
        let uri = self
            .parts
            .extensions
            .get::<axum::extract::OriginalUri>()
            .map_or(&self.parts.uri, |original| &original.0);
        let uri = if faults::planted(Plant::NoPath) {
            &http::Uri::from_static("/")
        } else {
            uri
        };
        let input = FingerprintInput {
            method: &self.parts.method,
            uri,
            headers: &self.parts.headers,
            body: &self.body,
            options,
        };
        Fingerprint::compute_version(version, &input)
    }
}

/// Reads the body whole.
pub(super) async fn buffer(
    body: axum::body::Body,
    parts: &Parts,
    limit: usize,
) -> Result<Bytes, Problem> {
    let too_large = || {
        Problem::new(Code::RequestTooLarge)
            .detail(format!("The request body is larger than {limit} bytes."))
    };
    let announced = parts
        .headers
        .get(http::header::CONTENT_LENGTH)
        .and_then(|length| length.to_str().ok()?.parse::<u64>().ok());
    if announced.is_some_and(|length| length > limit as u64) {
        return Err(too_large());
    }
    match Limited::new(body, limit).collect().await {
        Ok(collected) => Ok(collected.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => Err(too_large()),
        Err(_) => Err(Problem::new(Code::BodyUnreadable)),
    }
}
