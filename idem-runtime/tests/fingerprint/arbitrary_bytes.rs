//! The fingerprint never panics and never takes bytes that differ as no JSON for the same.

use fastrand::Rng;
use proptest::prelude::*;

use crate::requests::Request;

const CONTENT_TYPES: [&str; 10] = [
    "application/json",
    "application/problem+json; charset=utf-8",
    "application/json; charset=utf-16",
    "application/x-www-form-urlencoded",
    "multipart/form-data; boundary=b",
    "multipart/form-data; boundary=\"b b\"; x",
    "text/plain",
    "",
    ";",
    "a/b; c=\"\\",
];

proptest! {
    #[test]
    fn any_bytes_of_any_type_have_a_fingerprint(
        content_type in prop_oneof![prop::sample::select(&CONTENT_TYPES[..]).prop_map(str::to_owned), "[ -~]{0,40}"],
        body in prop::collection::vec(any::<u8>(), 0..200),
        ignored in prop_oneof!["[/~01a?]{0,8}", any::<String>()],
    ) {
        let request = Request { ignored: &[&ignored], ..Request::upload(&content_type, &body) };
        prop_assert_eq!(request.fingerprint(), request.fingerprint());
    }
}

const SEEDS: [&str; 8] = [
    r#"[{"k":"a","l":[1,"x"]},{"k":"b","l":[]},{"n":1,"k":"c"},{"n":2,"k":"d"},{"k":"e","l":[null,-1.5]},{"n":3,"k":"f"},{"k":"g","l":["\n"]}]"#,
    r#"[{"a":1,"o":{"c":"x"}},{"a":2,"o":{"c":"y"}},{"a":3,"o":{"c":"z"}},{"a":4,"o":{"c":"u"}},{"a":5,"o":{"c":"v"}},{"a":6,"o":{"c":true}}]"#,
    r#"[{"sku":"A-1","price":{"amount":12.50,"currency":"EUR"},"gift":true},{"sku":"B","price":{"amount":-1e-7,"currency":"EUR"},"gift":null}]"#,
    r#"{"b":"\ud83d\ude00\u00e9é\n","a":[1,-0.0,12345678901234567890.5e+20,[],{}],"sent_at":{"x":[{"y":1}]}}"#,
    "{\n  \"one\": [\n    1,\n    2\n  ],\n  \"two\": {\n    \"three\": \"a longer text than one block of bytes holds\"\n  }\n}",
    r#"[{"a":1,"b":[{"c":1},{"c":2}]},{"a":1,"b":[{"c":1}]},{"b":[{"c":1}],"a":1}]"#,
    "--b\r\nContent-Disposition: form-data; name=\"a\"; filename=\"f\"\r\nContent-Type: text/plain\r\n\r\nx\r\n--b--\r\n",
    "a=1&b=%20+&%C3%A9=x&&=",
];

/// Mutations of bodies that mean something, always the same ones. Where `serde_json` reads a body, so does the
/// fingerprint (and the other way round), except for what it lets pass: duplicate members and numbers beyond an `f64`.
#[test]
fn mutated_bodies_are_read_as_serde_json_reads_them() {
    let mut random = Rng::with_seed(1);
    let tokens = [
        "\"", "\\", "{", "}", "[", "]", ",", ":", "0", "1e", ".", "-", "\\u", "d800", " ", "\n",
        "null", "\u{e9}", "--b", "\r\n",
    ];
    for round in 0..100_000 {
        let mut body = SEEDS[round % SEEDS.len()].as_bytes().to_vec();
        for _ in 0..random.usize(1..4) {
            let at = random.usize(..=body.len());
            let end = (at + random.usize(..6)).min(body.len());
            match random.u8(..4) {
                0 => body.truncate(at),
                1 => drop(body.splice(at..end, [])),
                2 => drop(body.splice(at..at, tokens[random.usize(..tokens.len())].bytes())),
                _ => drop(body.splice(at..end, [random.u8(..)])),
            }
        }
        let content_type = if round % SEEDS.len() < 6 {
            CONTENT_TYPES[0]
        } else {
            CONTENT_TYPES[random.usize(..CONTENT_TYPES.len())]
        };
        let request = Request {
            ignored: &["/sent_at", "/0/price", "/a/1"],
            ..Request::upload(content_type, &body)
        };
        let fingerprint = request.fingerprint();
        if content_type == CONTENT_TYPES[0] {
            let spaced = [b" ", &body[..]].concat();
            let is_plain = fingerprint
                == Request {
                    body: &spaced,
                    ..request.clone()
                }
                .fingerprint();
            let is_json = serde_json::from_slice::<serde_json::Value>(&body).is_ok();
            let lenient = is_plain != is_json && (has_duplicates(&body) || has_long_number(&body));
            assert!(
                is_plain == is_json || lenient,
                "{:?}",
                String::from_utf8_lossy(&body)
            );
        }
    }
}

/// Whether some name occurs twice in one object: read into a map, such a body loses a member.
fn has_duplicates(body: &[u8]) -> bool {
    let colons = |text: &str| text.matches(':').count();
    let value: Result<serde_json::Value, _> = serde_json::from_slice(body);
    value.is_ok_and(|value| colons(&value.to_string()) < colons(&String::from_utf8_lossy(body)))
}

/// Whether some exponent is so large that a reader may refuse it.
fn has_long_number(body: &[u8]) -> bool {
    body.windows(3)
        .any(|window| window[0] | 0x20 == b'e' && window[1..].iter().any(u8::is_ascii_digit))
}

/// A thread reuses the room that its last fingerprint took: nothing of that one is in the next.
#[test]
fn what_a_thread_fingerprinted_before_does_not_count() {
    let long = format!(
        "[{}1]",
        r#"{"k":"a longer text than a block","l":[7]},"#.repeat(400)
    );
    let bodies: Vec<&str> = SEEDS[..6]
        .iter()
        .copied()
        .chain(["{}", "[", "\"x\"", r#"{"a":{"b":{}}}"#, &long])
        .collect();
    let of = |body: &str| Request::upload(CONTENT_TYPES[0], body.as_bytes()).fingerprint();
    for first in &bodies {
        for second in &bodies {
            let (after, alone) = std::thread::scope(|threads| {
                let after = threads.spawn(|| {
                    of(first);
                    of(second)
                });
                let alone = threads.spawn(|| of(second));
                (after.join(), alone.join())
            });
            assert_eq!(after.ok(), alone.ok(), "{second} after {first}");
        }
    }
}
