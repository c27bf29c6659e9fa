#![allow(clippy::unwrap_used, reason = "tests")]

use futures_util::stream;
use http::HeaderName;
use proptest::prelude::*;

use super::*;

fn response(headers: &[(&str, &[u8])], body: impl Into<Body>) -> Response {
    let mut response = Response::new(body.into());
    for (name, value) in headers {
        response.headers_mut().append(
            HeaderName::from_bytes(name.as_bytes()).unwrap(),
            HeaderValue::from_bytes(value).unwrap(),
        );
    }
    response
}

fn streamed(frames: &[&'static str]) -> Body {
    let frames: Vec<_> = frames
        .iter()
        .map(|frame| Ok::<_, axum::Error>(*frame))
        .collect();
    Body::from_stream(stream::iter(frames))
}

async fn body_of(response: Response) -> Bytes {
    response.into_body().collect().await.unwrap().to_bytes()
}

async fn captured(response: Response) -> CapturedResponse {
    CapturedResponse::capture(response, 1000).await.unwrap()
}

/// The fields of `headers` that survive storing, as sent.
async fn kept(headers: &[(&str, &[u8])], policy: &HeaderPolicy) -> Vec<(String, Vec<u8>)> {
    let stored = captured(response(headers, "")).await.stored(policy);
    let fields = fields::decode(&stored.headers).unwrap();
    fields
        .iter()
        .map(|(name, value)| (name.to_string(), value.as_bytes().to_vec()))
        .collect()
}

#[tokio::test]
async fn a_replay_is_the_stored_answer_and_says_so() {
    let mut first = response(
        &[
            ("content-type", b"application/json"),
            ("link", b"<a>"),
            ("location", b"/orders/\xe9"),
            ("link", b"<b>"),
            ("etag", b""),
            ("date", b"now"),
            ("content-length", b"3"),
        ],
        "a\0b",
    );
    *first.status_mut() = StatusCode::CREATED;
    let stored = captured(first).await.stored(&HeaderPolicy::default());
    let replay = stored.into_response(Some(784_111_777_000)).unwrap();
    assert_eq!(replay.status(), StatusCode::CREATED);
    let fields: Vec<_> = replay
        .headers()
        .iter()
        .map(|(name, value)| (name.as_str(), value.as_bytes()))
        .collect();
    assert_eq!(
        fields,
        [
            ("content-type", b"application/json".as_slice()),
            ("link", b"<a>"),
            ("link", b"<b>"),
            ("location", b"/orders/\xe9"),
            ("etag", b""),
            ("idempotent-replayed", b"true"),
            ("idempotency-expires", b"Sun, 06 Nov 1994 08:49:37 GMT"),
        ]
    );
    assert_eq!(replay.body().size_hint().exact(), Some(3));
    assert_eq!(body_of(replay).await, "a\0b");
}

#[tokio::test]
async fn the_first_answer_goes_out_as_it_was_made() {
    let mut first = response(&[("set-cookie", b"a=1"), ("x-request-id", b"7")], "body");
    first.extensions_mut().insert(7_u32);
    let first = captured(first).await.into_response(None);
    assert_eq!(first.headers()["set-cookie"], "a=1");
    assert_eq!(first.headers()["x-request-id"], "7");
    assert_eq!(first.extensions().get(), Some(&7_u32));
    assert!(!first.headers().contains_key("idempotency-expires"));
    assert_eq!(body_of(first).await, "body");
}

#[tokio::test]
async fn a_forwarded_response_is_not_marked_as_a_replay() {
    let forwarded = [
        ("idempotent-replayed", b"true".as_slice()),
        ("idempotency-expires", b"x"),
    ];
    let captured = captured(response(&forwarded, "")).await;
    let first = captured.clone().into_response(None);
    assert!(first.headers().is_empty());
    let stored = captured.stored(&HeaderPolicy::default());
    assert_eq!(fields::decode(&stored.headers).unwrap(), HeaderMap::new());
}

#[tokio::test]
async fn frames_are_joined_in_order() {
    for frames in [
        &[][..],
        &["a"],
        &["", "a"],
        &["a", "", "b", "c"],
        &["", "", "ab", "c"],
    ] {
        let captured = captured(response(&[], streamed(frames))).await;
        assert_eq!(captured.body, frames.concat());
    }
}

#[tokio::test]
async fn a_body_may_have_as_many_bytes_as_the_limit() {
    let too_large = |result| matches!(result, Err(NotStorable::TooLarge { limit: 3 }));
    for body in ["", "abc"] {
        let whole = CapturedResponse::capture(response(&[], body), 3)
            .await
            .unwrap();
        assert_eq!(whole.body, body);
    }
    let capture = CapturedResponse::capture;
    assert!(too_large(capture(response(&[], "abcd"), 3).await));
    assert!(too_large(
        capture(response(&[], streamed(&["ab", "cd"])), 3).await
    ));
    let endless = Body::from_stream(stream::repeat_with(|| Ok::<_, axum::Error>("ab")));
    assert!(too_large(capture(response(&[], endless), 3).await));
}

#[tokio::test]
async fn a_body_that_announces_too_much_is_not_read() {
    struct Announced;
    impl http_body::Body for Announced {
        type Data = Bytes;
        type Error = axum::Error;
        fn poll_frame(
            self: std::pin::Pin<&mut Self>,
            _: &mut std::task::Context<'_>,
        ) -> std::task::Poll<Option<Result<http_body::Frame<Bytes>, axum::Error>>> {
            panic!("read")
        }
        fn size_hint(&self) -> http_body::SizeHint {
            http_body::SizeHint::with_exact(4)
        }
    }
    let refused = CapturedResponse::capture(response(&[], Body::new(Announced)), 3).await;
    assert!(matches!(refused, Err(NotStorable::TooLarge { limit: 3 })));
}

#[tokio::test]
async fn an_event_stream_is_refused_unread() {
    for content_type in ["text/event-stream", "Text/Event-Stream ;charset=utf-8"] {
        let pending = Body::from_stream(stream::pending::<Result<Bytes, axum::Error>>());
        let events = response(&[("content-type", content_type.as_bytes())], pending);
        let refused = CapturedResponse::capture(events, 3).await;
        assert!(matches!(refused, Err(NotStorable::EventStream)));
    }
}

#[tokio::test]
async fn an_interim_status_is_no_answer() {
    for status in [StatusCode::CONTINUE, StatusCode::EARLY_HINTS] {
        let mut interim = response(&[], Body::empty());
        *interim.status_mut() = status;
        let refused = CapturedResponse::capture(interim, 3).await;
        assert!(matches!(refused, Err(NotStorable::Interim(of)) if of == status));
    }
}

#[tokio::test]
async fn a_body_that_fails_is_refused() {
    let failing = stream::iter([Ok("a"), Err(axum::Error::new("broken"))]);
    let refused = CapturedResponse::capture(response(&[], Body::from_stream(failing)), 3).await;
    assert!(matches!(refused, Err(NotStorable::Body(_))));
}

#[tokio::test]
async fn what_belongs_to_one_moment_or_connection_is_dropped() {
    let names = "connection keep-alive proxy-connection te transfer-encoding upgrade trailer \
        content-length date age via server alt-svc server-timing set-cookie www-authenticate \
        authentication-info proxy-authenticate proxy-authentication-info retry-after ratelimit \
        ratelimit-limit ratelimit-policy x-ratelimit-remaining access-control-allow-origin \
        x-request-id x-correlation-id request-id traceparent tracestate x-amzn-trace-id \
        x-b3-traceid idempotent-replayed idempotency-expires";
    for name in names.split_ascii_whitespace() {
        let fields = kept(&[(name, b"x")], &HeaderPolicy::default()).await;
        assert!(fields.is_empty(), "{name}");
    }
    for name in [
        "content-type",
        "location",
        "etag",
        "link",
        "cache-control",
        "vary",
        "x-rate",
    ] {
        let fields = kept(&[(name, b"x")], &HeaderPolicy::default()).await;
        assert_eq!(fields.len(), 1, "{name}");
    }
}

#[tokio::test]
async fn what_connection_names_is_dropped() {
    let fields: &[(&str, &[u8])] = &[
        ("connection", b"close, X-One"),
        ("connection", b" x-two ,,"),
        ("x-one", b"1"),
        ("x-two", b"2"),
        ("x-three", b"3"),
    ];
    // Asking for it changes nothing: here it is hop by hop.
    let policy = HeaderPolicy::default().also_keep(HeaderName::from_static("x-one"));
    assert_eq!(
        kept(fields, &policy).await,
        [("x-three".to_owned(), b"3".to_vec())]
    );
}

#[tokio::test]
async fn the_policy_can_be_changed() {
    let policy = HeaderPolicy::default()
        .also_drop(header::ETAG)
        .also_keep(header::SET_COOKIE)
        .also_keep(header::CONTENT_LENGTH)
        .also_keep(IDEMPOTENT_REPLAYED)
        .also_drop(header::LINK)
        .also_keep(header::LINK);
    let fields: &[(&str, &[u8])] = &[
        ("etag", b"1"),
        ("set-cookie", b"2"),
        ("content-length", b"0"),
        ("idempotent-replayed", b"true"),
        ("link", b"3"),
    ];
    let names: Vec<_> = kept(fields, &policy)
        .await
        .into_iter()
        .map(|(name, _)| name)
        .collect();
    assert_eq!(names, ["set-cookie", "link"]);
}

#[test]
fn dates_beyond_the_format_are_clamped() {
    assert_eq!(http_date(i64::MIN), "Thu, 01 Jan 1970 00:00:00 GMT");
    assert_eq!(http_date(i64::MAX), "Fri, 31 Dec 9999 23:59:59 GMT");
}

#[test]
fn the_encoding_is_frozen() {
    let (name, mut value) = (header::ETAG, HeaderValue::from_static("x"));
    value.set_sensitive(true);
    let bytes = fields::encode([(&name, &value)]);
    assert_eq!(bytes, b"\x01\0\0\0\x01\x01\0\x04etag\0\0\0\x01x");
    assert!(fields::decode(&bytes).unwrap()["etag"].is_sensitive());
}

#[test]
fn corrupt_records_are_errors() {
    let corrupt = |bytes: &[u8]| fields::decode(bytes).unwrap_err();
    assert_eq!(corrupt(b""), CorruptHeaders::Truncated);
    assert_eq!(corrupt(b"\x02\0\0\0\0"), CorruptHeaders::Version(2));
    assert_eq!(corrupt(b"\x01\0\0\0\0\0"), CorruptHeaders::TrailingBytes);
    assert_eq!(corrupt(b"\x01\xff\xff\xff\xff"), CorruptHeaders::Truncated);
    assert_eq!(corrupt(b"\x01\0\0\0\x01\x02"), CorruptHeaders::Flags(2));
    assert_eq!(
        corrupt(b"\x01\0\0\0\x01\0\0\x01A\0\0\0\0"),
        CorruptHeaders::Name
    );
    assert_eq!(
        corrupt(b"\x01\0\0\0\x01\0\0\x01a\0\0\0\x01\n"),
        CorruptHeaders::Value
    );
    assert_eq!(corrupt(&too_many()), CorruptHeaders::TooMany);
    let stored = StoredResponse {
        status: 7,
        headers: fields::encode([]),
        body: Bytes::new(),
    };
    assert_eq!(
        stored.into_response(None).unwrap_err(),
        CorruptResponse::Status(7)
    );
}

/// More names than a `HeaderMap` holds.
fn too_many() -> Vec<u8> {
    let fields = (0..0xffff).flat_map(|index| format!("\0\0\u{4}{index:04x}\0\0\0\0").into_bytes());
    b"\x01\0\0\xff\xff".iter().copied().chain(fields).collect()
}

fn any_fields() -> impl Strategy<Value = HeaderMap> {
    let value = proptest::collection::vec(prop_oneof![0x20_u8..0x7f, 0x80_u8..=0xff], 0..20);
    proptest::collection::vec(("[a-z][a-z0-9-]{0,3}", value), 0..20).prop_map(|fields| {
        let mut headers = HeaderMap::new();
        for (name, value) in fields {
            headers.append(
                HeaderName::try_from(name).unwrap(),
                HeaderValue::from_bytes(&value).unwrap(),
            );
        }
        headers
    })
}

proptest! {
    #[test]
    fn fields_survive_in_order_with_repetitions(headers in any_fields()) {
        let decoded = fields::decode(&fields::encode(&headers)).unwrap();
        prop_assert!(headers.iter().eq(decoded.iter()));
    }

    #[test]
    fn arbitrary_bytes_never_panic(
        status: u16,
        headers in proptest::collection::vec(any::<u8>(), 0..200),
    ) {
        let stored = StoredResponse { status, headers, body: Bytes::new() };
        let _ = stored.into_response(Some(0));
    }

    #[test]
    fn damaged_records_never_panic(headers in any_fields(), at: usize, byte: u8, cut: usize) {
        let mut bytes = fields::encode(&headers);
        let (at, cut) = (at % bytes.len(), cut % bytes.len());
        prop_assert!(fields::decode(&bytes[..cut]).is_err());
        bytes[at] = byte;
        let _ = fields::decode(&bytes);
    }
}
