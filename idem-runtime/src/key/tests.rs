#![allow(clippy::unwrap_used, reason = "tests")]

use http::HeaderValue;
use proptest::prelude::*;

use super::*;

fn parse(value: &str) -> Result<IdempotencyKey, KeyError> {
    IdempotencyKey::parse(value.as_bytes(), true)
}

fn key(value: &str) -> String {
    parse(value).unwrap().as_str().to_owned()
}

fn headers(lines: &[&str]) -> HeaderMap {
    lines
        .iter()
        .map(|line| (IDEMPOTENCY_KEY, HeaderValue::from_str(line).unwrap()))
        .collect()
}

#[test]
fn both_forms_are_the_same_key() {
    assert_eq!(parse("\"k-1\""), parse("k-1"));
    assert_eq!(key("  \"k-1\"\t"), "k-1");
    assert_eq!(key(" \tk-1 "), "k-1");
}

#[test]
fn a_quoted_key_is_never_trimmed_inside() {
    assert_eq!(key("\"  \""), "  ");
    assert_eq!(key("\" a \""), " a ");
}

#[test]
fn escapes_are_undone() {
    assert_eq!(key(r#""a\"b\\c""#), r#"a"b\c"#);
    assert!(matches!(parse(r#""a\nb""#), Err(KeyError::Malformed(_))));
}

#[test]
fn parameters_are_checked_and_ignored() {
    assert_eq!(key(r#""k";a;b=1;c="x";d=?0; e=tok"#), "k");
    for wrong in [
        r#""k";"#,
        r#""k";A=1"#,
        r#""k" ;a"#,
        r#""k";a="#,
        r#""k"a"#,
        r#""k","l""#,
    ] {
        assert!(
            matches!(parse(wrong), Err(KeyError::Malformed(_))),
            "{wrong}"
        );
    }
}

#[test]
fn a_string_must_be_closed() {
    for wrong in ["\"", "\"a", "\"a\\", "\"a\\\"", "\"a\"b\""] {
        assert!(
            matches!(parse(wrong), Err(KeyError::Malformed(_))),
            "{wrong}"
        );
    }
}

#[test]
fn the_bare_form_has_no_separators() {
    for wrong in ["a b", "a,b", "a;b", "a\\b", "a\"b", "a\""] {
        assert!(
            matches!(parse(wrong), Err(KeyError::Malformed(_))),
            "{wrong}"
        );
    }
    // Other kinds of Structured Field items are keys like any other text.
    for right in ["42", "?1", ":YQ==:", "@1", "'a'", "(a)", "*"] {
        assert_eq!(key(right), right);
    }
}

#[test]
fn the_bare_form_can_be_refused() {
    assert_eq!(IdempotencyKey::parse(b"k", false), Err(KeyError::BareForm));
    assert_eq!(
        IdempotencyKey::parse(b"\"k\"", false).unwrap().as_str(),
        "k"
    );
}

#[test]
fn a_key_has_1_to_255_characters() {
    for empty in ["", "  ", "\t", "\"\"", "\"\";a=1"] {
        assert_eq!(parse(empty), Err(KeyError::Empty), "{empty:?}");
    }
    let longest = "k".repeat(255);
    assert_eq!(key(&longest), longest);
    assert_eq!(key(&format!("\"{longest}\"")), longest);
    assert_eq!(parse(&format!("{longest}k")), Err(KeyError::TooLong));
    assert_eq!(parse(&format!("\"{longest}k\"")), Err(KeyError::TooLong));
    // What counts is the key, not its spelling.
    assert_eq!(key(&format!("\"{}\"", "\\\"".repeat(255))).len(), 255);
}

#[test]
fn only_printable_ascii_is_accepted() {
    for wrong in [
        "ü",
        "\"ü\"",
        "a\tb",
        "\"a\tb\"",
        "\"a\u{7f}\"",
        "a\r\nb",
        "a\0",
    ] {
        assert_eq!(parse(wrong), Err(KeyError::NotPrintableAscii), "{wrong:?}");
    }
    assert_eq!(
        IdempotencyKey::parse(b"\"\xff\"", true),
        Err(KeyError::NotPrintableAscii)
    );
}

#[test]
fn case_counts() {
    assert_ne!(parse("K"), parse("k"));
}

#[test]
fn field_lines_are_counted_before_they_are_combined() {
    let several = Err(KeyError::SeveralFieldLines);
    for lines in [["\"a", "b\""], ["a", "a"], ["", ""]] {
        assert_eq!(
            IdempotencyKey::from_headers(&headers(&lines), true),
            several
        );
    }
    assert_eq!(IdempotencyKey::from_headers(&headers(&[]), true), Ok(None));
    assert_eq!(
        IdempotencyKey::from_headers(&headers(&["a"]), true),
        parse("a").map(Some)
    );
}

#[test]
fn debug_and_errors_hide_the_key() {
    let secret = parse("my-secret").unwrap();
    assert_eq!(
        format!("{secret:?}"),
        format!("IdempotencyKey({})", secret.digest())
    );
    assert_eq!(parse("k-1").unwrap().digest(), "9f6a75687e604c15");
    for wrong in ["my-secret,", "\"my-secret", "my-secret\u{e9}"] {
        let error = parse(wrong).unwrap_err();
        assert!(!format!("{error} {error:?}").contains("secret"), "{error}");
    }
}

/// Keys of printable ASCII, with many quotation marks and backslashes.
fn any_key() -> impl Strategy<Value = String> {
    prop_oneof!["[ -~]{1,255}", r#"[ "\\;,a]{1,255}"#]
}

fn quote(key: &str) -> String {
    format!("\"{}\"", key.replace('\\', "\\\\").replace('"', "\\\""))
}

#[test]
fn a_key_that_begins_with_its_time_has_one() {
    let time = |key: &str| {
        let key = IdempotencyKey::parse(format!("\"{key}\"").as_bytes(), true).unwrap();
        key.time().map(|time| digest::hex(&time))
    };
    // RFC 9562, appendix A.6, in each spelling; the ULID specification.
    let version_7 = Some("017f22e279b0".to_owned());
    assert_eq!(time("017f22e2-79b0-7cc3-98c4-dc0c0c07398f"), version_7);
    assert_eq!(time("017F22E2-79B0-7CC3-98C4-DC0C0C07398F"), version_7);
    assert_eq!(time("017f22e279b07cc398c4dc0c0c07398f"), version_7);
    let ulid = Some("01563e3ab5d3".to_owned());
    assert_eq!(time("01ARZ3NDEKTSV4RRFFQ69G5FAV"), ulid);
    assert_eq!(time("01arz3ndektsv4rrffq69g5fav"), ulid);
    // The greatest time, and one more.
    assert_eq!(
        time("7ZZZZZZZZZZZZZZZZZZZZZZZZZ"),
        Some("ffffffffffff".to_owned())
    );
    assert_eq!(time("80000000000000000000000000"), None);
    // Neither: another variant, version 4, a letter that the alphabet leaves out, a length more or less.
    assert_eq!(time("017f22e2-79b0-7cc3-18c4-dc0c0c07398f"), None);
    assert_eq!(time("8e03978e-40d5-43e8-bc93-6894a57f9324"), None);
    assert_eq!(time("01ARZ3NDEKTSV4RRFFQ69G5FAU"), None);
    assert_eq!(time("01ARZ3NDEKTSV4RRFFQ69G5FA"), None);
    assert_eq!(time("01ARZ3NDEKTSV4RRFFQ69G5FAVV"), None);
    assert_eq!(time("k-1"), None);
}

proptest! {
    #[test]
    fn the_time_is_what_the_client_put_there(milliseconds in 0_u64..1 << 48, rest: u128) {
        let time = Some(milliseconds.to_be_bytes()[2..].to_vec());
        let random = std::array::from_fn(|index| rest.to_be_bytes()[index]);
        let uuid = uuid::Builder::from_unix_timestamp_millis(milliseconds, &random).into_uuid();
        let found = |key: &str| parse(key).unwrap().time().map(|time| time.to_vec());
        prop_assert_eq!(found(&uuid.to_string()), time.clone());
        let bits = u128::from(milliseconds) << 80 | rest >> 48;
        let ulid: String = (0..26)
            .map(|digit| b"0123456789ABCDEFGHJKMNPQRSTVWXYZ"[(bits >> (125 - 5 * digit) & 31) as usize])
            .map(char::from)
            .collect();
        prop_assert_eq!(found(&ulid), time);
    }

    #[test]
    fn arbitrary_bytes_never_panic(
        value in proptest::collection::vec(any::<u8>(), 0..600),
        allow_bare: bool,
    ) {
        if let Ok(key) = IdempotencyKey::parse(&value, allow_bare) {
            prop_assert!((1..=255).contains(&key.as_str().len()));
            prop_assert!(key.as_str().bytes().all(|byte| (0x20..=0x7e).contains(&byte)));
        }
    }

    #[test]
    fn text_that_looks_like_a_string_never_panics(value in r#"[ \t]?"?[a\\",; =?:@%*.0-9é]{0,40}"#) {
        if let Ok(key) = IdempotencyKey::parse(value.as_bytes(), true) {
            prop_assert!((1..=255).contains(&key.as_str().len()));
            prop_assert!(key.as_str().bytes().all(|byte| (0x20..=0x7e).contains(&byte)));
        }
    }

    #[test]
    fn every_key_can_be_quoted(text in any_key()) {
        prop_assert_eq!(key(&quote(&text)), text);
    }

    #[test]
    fn an_accepted_bare_key_is_the_same_key_quoted(text in any_key()) {
        if let Ok(bare) = parse(&text)
            && !text.trim_matches(' ').starts_with('"')
        {
            prop_assert_eq!(parse(&quote(bare.as_str())), Ok(bare));
        }
    }

    #[test]
    fn parameters_never_change_the_key(
        text in any_key(),
        parameters in r#"(; {0,2}[a-z*][a-z0-9_.*-]{0,5}(=(-?[0-9]{1,9}|[0-9]{1,5}\.[0-9]{1,3}|\?[01]|[A-Za-z*][a-z:/]{0,5}|"[ a-z]{0,5}"|@[0-9]{1,9}))?){0,4}"#,
    ) {
        prop_assert_eq!(key(&format!("{}{parameters}", quote(&text))), text);
    }
}
