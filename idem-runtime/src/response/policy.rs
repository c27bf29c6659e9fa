//! Which header fields of an answer are stored.

use std::collections::{HashMap, HashSet};

use http::{HeaderMap, HeaderName, HeaderValue, header};

use super::{IDEMPOTENCY_EXPIRES, IDEMPOTENT_REPLAYED};

/// Which header fields of an answer are stored, and so replayed.
///
/// All, except those that belong to one connection, one moment or one credential:
///
/// | dropped | because |
/// |---|---|
/// | `Connection` and every field it names, `Keep-Alive`, `Proxy-Connection`, `TE`, `Transfer-Encoding`, `Upgrade`, `Trailer` | hop by hop (RFC 9110, section 7.6.1) |
/// | `Content-Length` | computed anew |
/// | `Date`, `Age`, `Via`, `Server`, `Alt-Svc`, `Server-Timing` | of the moment, or of who answers |
/// | `Set-Cookie`, `WWW-Authenticate`, `Authentication-Info`, `Proxy-Authenticate`, `Proxy-Authorization`, `Proxy-Authentication-Info` | of one credential or session |
/// | `Retry-After`, `RateLimit`, `RateLimit-*`, `X-RateLimit-*` | of the moment |
/// | `Access-Control-*` | of the origin that asks; a CORS layer outside sets them |
/// | `X-Request-Id`, `Request-Id`, `X-Correlation-Id`, `Correlation-Id`, `X-Trace-Id`, `Traceparent`, `Tracestate`, `Traceresponse`, `Baggage`, `B3`, `X-B3-*`, `X-Amzn-Trace-Id`, `X-Amzn-RequestId`, `X-Cloud-Trace-Context`, `Uber-Trace-Id` | of one request |
/// | `Idempotent-Replayed`, `Idempotency-Expires` | the framework's own |
///
/// ```
/// use http::{HeaderName, header};
/// use idem_runtime::response::HeaderPolicy;
///
/// let policy = HeaderPolicy::default()
///     .also_drop(HeaderName::from_static("x-served-by"))
///     .also_keep(header::RETRY_AFTER);
/// ```
#[derive(Debug, Clone, Default)]
pub struct HeaderPolicy {
    exceptions: HashMap<HeaderName, Fate>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Keep,
    Drop,
}

impl HeaderPolicy {
    /// Drops `name` as well. Of several calls with one name, the last counts.
    #[must_use]
    pub fn also_drop(mut self, name: HeaderName) -> HeaderPolicy {
        self.exceptions.insert(name, Fate::Drop);
        self
    }

    /// Keeps `name`, although it is in the table. Hop-by-hop fields, `Content-Length` and the
    /// framework's own two are never kept: a replay with them would be broken or wrong.
    #[must_use]
    pub fn also_keep(mut self, name: HeaderName) -> HeaderPolicy {
        self.exceptions.insert(name, Fate::Keep);
        self
    }

    /// The fields of `headers` to store, in their order.
    pub(super) fn kept<'a>(
        &'a self,
        headers: &'a HeaderMap,
    ) -> impl Iterator<Item = (&'a HeaderName, &'a HeaderValue)> {
        let of_connection = named_by_connection(headers);
        headers
            .iter()
            .filter(move |(name, _)| !of_connection.contains(*name) && self.keeps(name))
    }

    fn keeps(&self, name: &HeaderName) -> bool {
        if NEVER_KEPT.contains(name) {
            return false;
        }
        match self.exceptions.get(name) {
            Some(fate) => *fate == Fate::Keep,
            None => !dropped_by_default(name.as_str()),
        }
    }
}

/// The field names in `Connection`, which are hop by hop in this response only.
fn named_by_connection(headers: &HeaderMap) -> HashSet<HeaderName> {
    headers
        .get_all(header::CONNECTION)
        .iter()
        .flat_map(|value| value.as_bytes().split(|byte| *byte == b','))
        .filter_map(|name| HeaderName::from_bytes(name.trim_ascii()).ok())
        .collect()
}

const NEVER_KEPT: [HeaderName; 10] = [
    header::CONNECTION,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
    header::TE,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
    header::TRAILER,
    header::CONTENT_LENGTH,
    IDEMPOTENT_REPLAYED,
    IDEMPOTENCY_EXPIRES,
];

fn dropped_by_default(name: &str) -> bool {
    const NAMES: &[&str] = &[
        "date",
        "age",
        "via",
        "server",
        "alt-svc",
        "server-timing",
        "set-cookie",
        "www-authenticate",
        "authentication-info",
        "proxy-authenticate",
        "proxy-authorization",
        "proxy-authentication-info",
        "retry-after",
        "ratelimit",
        "x-request-id",
        "request-id",
        "x-correlation-id",
        "correlation-id",
        "x-trace-id",
        "traceparent",
        "tracestate",
        "traceresponse",
        "baggage",
        "b3",
        "x-amzn-trace-id",
        "x-amzn-requestid",
        "x-cloud-trace-context",
        "uber-trace-id",
    ];
    const PREFIXES: &[&str] = &["ratelimit-", "x-ratelimit-", "access-control-", "x-b3-"];
    NAMES.contains(&name) || PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}
