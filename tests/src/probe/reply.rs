//! The answers that a handler can be asked for.

use idem_runtime::EffectFree;
use std::convert::Infallible;

use axum::body::Body;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures_util::stream;

/// What an answer looks like.
#[derive(Clone, Copy, Debug, PartialEq, Eq, EffectFree)]
pub(crate) enum Shape {
    Json,
    Png,
    Empty,
    /// 204, which has no content.
    None,
    /// This many bytes.
    Large(usize),
    /// Of unknown length, but finite.
    Stream,
    Endless,
    /// An event stream, though a short one.
    Events,
    Headers,
}

impl Shape {
    pub(crate) fn parse(value: &str) -> Option<Shape> {
        Some(match value {
            "json" => Shape::Json,
            "png" => Shape::Png,
            "empty" => Shape::Empty,
            "none" => Shape::None,
            "stream" => Shape::Stream,
            "endless" => Shape::Endless,
            "events" => Shape::Events,
            "headers" => Shape::Headers,
            _ => Shape::Large(value.strip_prefix("large:")?.parse().ok()?),
        })
    }

    /// The answer for the business row `id`.
    pub(crate) fn answer(self, id: i64, status: StatusCode) -> Response {
        match self {
            Shape::Json => json(id, status),
            Shape::Png => (status, [(header::CONTENT_TYPE, "image/png")], PNG).into_response(),
            Shape::Empty => (status, Body::empty()).into_response(),
            Shape::None => StatusCode::NO_CONTENT.into_response(),
            Shape::Large(length) => (status, "x".repeat(length)).into_response(),
            Shape::Stream => {
                let pieces = ["one ", "two ", "three"].map(piece);
                (status, Body::from_stream(stream::iter(pieces))).into_response()
            }
            Shape::Endless => {
                let pieces = stream::repeat_with(|| piece("and so on "));
                (status, Body::from_stream(pieces)).into_response()
            }
            Shape::Events => (
                status,
                [(header::CONTENT_TYPE, "text/event-stream")],
                "data: 1\n\n",
            )
                .into_response(),
            Shape::Headers => with_headers(json(id, status), id),
        }
    }
}

/// A PNG's signature, a NUL and bytes that are no UTF-8.
const PNG: &[u8] = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\xff\xfe\xc0\x80";

fn piece(text: &'static str) -> Result<Bytes, Infallible> {
    Ok(Bytes::from_static(text.as_bytes()))
}

/// What a store that parses JSON would change: the members' order, the number's zero, the NUL.
fn json(id: i64, status: StatusCode) -> Response {
    let body = format!(r#"{{"id":{id},"n":1.10,"a":"x\u0000"}}"#);
    (status, [(header::CONTENT_TYPE, "application/json")], body).into_response()
}

fn with_headers(mut response: Response, id: i64) -> Response {
    let headers = response.headers_mut();
    let location = HeaderValue::try_from(format!("/effects/{id}"));
    headers.insert(header::LOCATION, location.expect("a number is a path"));
    for (name, value) in [
        ("link", &b"</a>; rel=\"next\""[..]),
        ("link", b"</b>; rel=\"last\""),
        ("etag", b"\"v1\""),
        ("set-cookie", b"session=secret"),
        ("x-request-id", b"request-1"),
        ("cache-control", b"no-store"),
        ("x-latin", b"caf\xe9"),
        ("connection", b"x-hop"),
        ("x-hop", b"1"),
        ("access-control-allow-origin", b"*"),
        ("server-timing", b"db;dur=1"),
        ("ratelimit-remaining", b"4"),
        ("retry-after", b"1"),
        ("www-authenticate", b"Bearer"),
    ] {
        let value = HeaderValue::from_bytes(value).expect("a valid field value");
        headers.append(name, value);
    }
    response
}
