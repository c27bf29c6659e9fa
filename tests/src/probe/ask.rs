//! What the caller asks a handler to do: `X-Probe-*` fields, which are no part of the fingerprint.

use std::convert::Infallible;
use std::time::Duration;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode};
use idem_runtime::EffectFree;
use sha2::{Digest, Sha256};

use super::gates;
use super::reply::Shape;

/// What is to go wrong inside a handler.
#[derive(Clone, Copy, Debug, PartialEq, Eq, EffectFree)]
pub(crate) enum Fault {
    Panic,
    /// Ignore a unique violation, and answer as if nothing had been.
    Swallow,
    /// Leave a constraint violated until the commit.
    Deferred,
    /// Fail the first attempt with a serialization failure.
    Serialization,
    /// Fail every attempt so.
    SerializationAlways,
    /// Fail the first attempt as the victim of a deadlock.
    Deadlock,
    /// End the transaction with a statement of its own.
    RawCommit,
    /// End the transaction, and fail as a serialization failure does.
    RawCommitSerialization,
    /// The same in a transaction that follows the one that was ended.
    ChainedCommitSerialization,
    /// Run a statement that takes a minute or longer.
    SlowStatement,
    /// Write through a pool that a static holds.
    StaticPool,
}

/// Everything a handler of the probe is told apart from its body.
#[derive(Clone, Debug, EffectFree)]
pub(crate) struct Ask {
    pub(crate) key_digest: String,
    pub(crate) path: String,
    pub(crate) query: String,
    pub(crate) sleep: Duration,
    /// Where the handler stands until it is open.
    pub(crate) gate: Option<String>,
    pub(crate) status: StatusCode,
    /// The handler's `Err`.
    pub(crate) error: Option<StatusCode>,
    pub(crate) fault: Option<Fault>,
    pub(crate) shape: Shape,
}

impl<S: Sync> FromRequestParts<S> for Ask {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Ask, Infallible> {
        let headers = &parts.headers;
        let status = |name| text(headers, name).and_then(|value| value.parse().ok());
        Ok(Ask {
            key_digest: key_digest(headers),
            path: parts.uri.path().to_owned(),
            query: parts.uri.query().unwrap_or_default().to_owned(),
            sleep: Duration::from_millis(
                text(headers, "x-probe-sleep-ms")
                    .and_then(|value| value.parse().ok())
                    .unwrap_or(0),
            ),
            gate: text(headers, gates::FIELD).map(str::to_owned),
            status: status("x-probe-status").unwrap_or(StatusCode::CREATED),
            error: status("x-probe-err"),
            fault: text(headers, "x-probe-fault").and_then(fault),
            shape: text(headers, "x-probe-body")
                .and_then(Shape::parse)
                .unwrap_or(Shape::Json),
        })
    }
}

fn text<'h>(headers: &'h HeaderMap, name: &str) -> Option<&'h str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}

fn fault(value: &str) -> Option<Fault> {
    Some(match value {
        "panic" => Fault::Panic,
        "swallow" => Fault::Swallow,
        "deferred" => Fault::Deferred,
        "serialization" => Fault::Serialization,
        "serialization-always" => Fault::SerializationAlways,
        "deadlock" => Fault::Deadlock,
        "slow-statement" => Fault::SlowStatement,
        "raw-commit" => Fault::RawCommit,
        "raw-commit-serialization" => Fault::RawCommitSerialization,
        "chained-commit-serialization" => Fault::ChainedCommitSerialization,
        "static-pool" => Fault::StaticPool,
        _ => return None,
    })
}

/// The key in hexadecimal SHA-256, so that a test finds its rows. Good enough for keys without
/// escapes; `none` when there is no key.
fn key_digest(headers: &HeaderMap) -> String {
    let Some(value) = headers.get("idempotency-key") else {
        return "none".to_owned();
    };
    let value = value.as_bytes();
    let key = match value.strip_prefix(b"\"") {
        Some(rest) => rest.split(|byte| *byte == b'"').next().unwrap_or(rest),
        None => value,
    };
    let digest = Sha256::digest(key);
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}
