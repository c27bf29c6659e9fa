use http::header::IF_MATCH;
use http::{HeaderMap, HeaderValue, StatusCode};

use super::*;

fn read(lines: &[&str]) -> Result<IfMatch, IfMatchRejection> {
    let mut headers = HeaderMap::new();
    for line in lines {
        let line = HeaderValue::from_bytes(line.as_bytes()).expect("a field's value");
        headers.append(IF_MATCH, line);
    }
    IfMatch::from_headers(&headers)
}

fn tag(version: &str) -> EntityTag {
    EntityTag::of(version).expect("an entity tag")
}

#[test]
fn a_tag_of_the_list_matches() {
    let cases = [
        (&["\"3\""][..], true),
        (&["\"1\", \"3\""], true),
        (&["\"1\",,\t\"3\" ,"], true),
        (&["\"1\"", "\"3\""], true),
        (&["\"4\""], false),
        (&["\"33\""], false),
        (&["W/\"3\""], false),
        (&["*"], true),
        (&[" * "], true),
    ];
    for (lines, expected) in cases {
        let field = read(lines).expect("a list of tags");
        assert_eq!(field.matches(Some(&tag("3"))), expected, "{lines:?}");
        assert!(!field.matches(None), "{lines:?}: nothing is there");
        assert_eq!(field.check(Some(&tag("3"))).is_ok(), expected);
    }
}

#[test]
fn a_comma_may_be_in_a_tag() {
    let field = read(&["\"a,b\", \"\", \"ü\""]).expect("a list of tags");
    for version in ["a,b", "", "ü"] {
        assert!(field.matches(Some(&tag(version))), "{version}");
    }
    assert!(!field.matches(Some(&tag("a"))));
}

#[test]
fn what_is_no_list_of_tags_is_refused() {
    for line in [
        "3",
        "\"3",
        "\"3\" \"4\"",
        "\"3\"4",
        "w/\"3\"",
        "\"a b\"",
        "",
        ",",
        "*, \"3\"",
        "**",
    ] {
        assert_eq!(read(&[line]), Err(IfMatchRejection::Malformed), "{line:?}");
    }
    assert_eq!(read(&["*", "\"3\""]), Err(IfMatchRejection::Malformed));
    assert_eq!(read(&[]), Err(IfMatchRejection::Missing));
}

#[test]
fn a_weak_tag_is_equal_to_none() {
    let IfMatch::OneOf(tags) = read(&["W/\"3\""]).expect("a list of tags") else {
        panic!("not a list");
    };
    assert_eq!(tags[0].to_string(), "W/\"3\"");
    assert!(!tags[0].is_strongly_equal_to(&tags[0]));
}

#[test]
fn each_refusal_has_its_status() {
    let status = |answer: Response| answer.status();
    let missing = IfMatchRejection::Missing.into_response();
    assert_eq!(missing.headers()[CONTENT_TYPE], "application/problem+json");
    assert_eq!(status(missing), StatusCode::PRECONDITION_REQUIRED);
    let malformed = IfMatchRejection::Malformed.into_response();
    assert_eq!(status(malformed), StatusCode::BAD_REQUEST);
    let failed = PreconditionFailed.into_response();
    assert_eq!(status(failed), StatusCode::PRECONDITION_FAILED);
}

#[test]
fn a_tag_is_the_answers_etag() {
    let answer = (EntityTag::strong(7), "text").into_response();
    assert_eq!(answer.headers()["etag"], "\"7\"");
    assert_eq!(EntityTag::strong(7), tag("7"));
    for wrong in ["a b", "a\"b", "a\n"] {
        assert!(EntityTag::of(wrong).is_err(), "{wrong:?}");
    }
}
