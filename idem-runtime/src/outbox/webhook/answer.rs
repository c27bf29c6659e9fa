//! What an endpoint's answer says of the message.

use std::error::Error as _;
use std::time::{Duration, SystemTime};

use http::{HeaderMap, StatusCode, header};
use reqwest::Response;

use crate::outbox::PublishError;

/// Read of a body so that the connection can be used again.
const MOST_BYTES: usize = 16 * 1024;
const LONGEST_READ: Duration = Duration::from_secs(1);
/// What an endpoint may ask for.
const LONGEST_PAUSE: Duration = Duration::from_secs(24 * 60 * 60);

pub(super) async fn read(response: Response) -> Result<(), PublishError> {
    let status = response.status();
    let pause = retry_after(response.headers(), SystemTime::now());
    // The status says it all; the rest is read for the connection's sake.
    let _ = tokio::time::timeout(LONGEST_READ, drain(response)).await;
    let reason = format!("the endpoint answered {status}");
    match (status, pause) {
        (status, _) if status.is_success() => Ok(()),
        (StatusCode::GONE, _) => Err(PublishError::Rejected(reason.into())),
        (StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE, Some(pause)) => {
            Err(PublishError::failed_until(reason, pause))
        }
        (status, _) if status.is_redirection() => {
            let reason = format!("{reason}, and redirects are not followed");
            Err(PublishError::Failed(reason.into()))
        }
        _ => Err(PublishError::Failed(reason.into())),
    }
}

async fn drain(mut response: Response) {
    let mut left = MOST_BYTES;
    while let Ok(Some(chunk)) = response.chunk().await {
        left = left.saturating_sub(chunk.len());
        if left == 0 {
            break;
        }
    }
}

/// RFC 9110, section 10.2.3: seconds, or a date.
fn retry_after(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    let value = headers.get(header::RETRY_AFTER)?.to_str().ok()?.trim();
    let pause = if !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit()) {
        value.parse().map_or(LONGEST_PAUSE, Duration::from_secs)
    } else {
        httpdate::parse_http_date(value)
            .ok()?
            .duration_since(now)
            .unwrap_or_default()
    };
    Some(pause.min(LONGEST_PAUSE))
}

/// No answer came. The URL is left out of the reason, since it may be a secret.
pub(super) fn none(error: reqwest::Error) -> PublishError {
    let error = error.without_url();
    let reason = reason(&error);
    if reason.contains("scheme is not http") {
        let reason = "reqwest has no TLS: enable one of its features for it, as `rustls`";
        PublishError::Unavailable(reason.into())
    } else if error.is_connect() {
        PublishError::Failed(reason.into())
    } else if error.is_builder() {
        PublishError::Rejected(reason.into())
    } else {
        PublishError::Unconfirmed(reason.into())
    }
}

/// reqwest's own words say little; the errors under them do.
fn reason(error: &reqwest::Error) -> String {
    let mut reason = error.to_string();
    let mut next = error.source();
    while let Some(source) = next {
        reason.push_str(": ");
        reason.push_str(&source.to_string());
        next = source.source();
    }
    reason
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn retry_after_is_read_in_both_its_forms() {
        let now = httpdate::parse_http_date("Sun, 06 Nov 1994 08:49:37 GMT").unwrap();
        let day = LONGEST_PAUSE.as_secs();
        for (value, expected) in [
            ("0", Some(0)),
            ("120", Some(120)),
            (" 7 ", Some(7)),
            ("86401", Some(day)),
            ("99999999999999999999999", Some(day)),
            ("Sun, 06 Nov 1994 08:50:37 GMT", Some(60)),
            ("Sun, 06 Nov 1994 08:00:00 GMT", Some(0)),
            ("Sat, 06 Nov 2094 08:50:37 GMT", Some(day)),
            ("soon", None),
            ("-1", None),
            ("", None),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(header::RETRY_AFTER, value.parse().unwrap());
            let expected = expected.map(Duration::from_secs);
            assert_eq!(retry_after(&headers, now), expected, "{value:?}");
        }
        assert_eq!(retry_after(&HeaderMap::new(), now), None);
    }
}
