//! What holds for every JSON value.

use fastrand::Rng;
use proptest::prelude::*;

use crate::{
    json_model::{Json, any_json},
    requests::{Request, of_json},
};

/// A value that differs from the given one in one place.
fn change(value: &Json, random: &mut Rng) -> Json {
    match value {
        Json::Array(elements) if !elements.is_empty() && random.u8(..4) != 0 => {
            let mut elements = elements.clone();
            let at = random.usize(..elements.len());
            let other = random.usize(..elements.len());
            match random.u8(..4) {
                0 => {
                    elements.remove(at);
                }
                1 if elements[at] != elements[other] => elements.swap(at, other),
                2 => elements.insert(at, Json::Null),
                _ => elements[at] = change(&elements[at], random),
            }
            Json::Array(elements)
        }
        Json::Object(members) if !members.is_empty() && random.u8(..4) != 0 => {
            let mut members = members.clone();
            let at = random.usize(..members.len());
            match random.u8(..4) {
                0 => {
                    members.remove(at);
                }
                1 => {
                    let name = format!("{} ", members[at].0);
                    if members.iter().any(|(other, _)| *other == name) {
                        members.remove(at);
                    } else {
                        members[at].0 = name;
                    }
                }
                _ => members[at].1 = change(&members[at].1, random),
            }
            Json::object(members)
        }
        Json::Null => Json::Bool(false),
        Json::Bool(value) => Json::Bool(!value),
        Json::Number(integer, exponent) => match random.u8(..3) {
            0 => Json::number(integer.wrapping_add(1), *exponent),
            1 if *integer != 0 => Json::number(*integer, exponent + 1),
            _ => Json::Text(integer.to_string()),
        },
        Json::Text(text) => Json::Text(format!("{text}a")),
        other => Json::Array(vec![other.clone()]),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn spelling_never_counts(value in any_json(), seed: u64) {
        let mut random = Rng::with_seed(seed);
        let (first, second) = (value.write(&mut random), value.write(&mut random));
        let raw = Request::upload("text/plain", first.as_bytes()).fingerprint();
        prop_assert_ne!(raw, of_json(&first));
        prop_assert_eq!(of_json(&first), of_json(&second), "{} and {}", first, second);
    }

    #[test]
    fn any_change_counts(value in any_json(), seed: u64) {
        let mut random = Rng::with_seed(seed);
        let changed = change(&value, &mut random);
        let (first, second) = (value.write(&mut random), changed.write(&mut random));
        prop_assert_eq!(value == changed, of_json(&first) == of_json(&second), "{} and {}", first, second);
    }

    #[test]
    fn two_values_are_told_apart(one in any_json(), other in any_json(), seed: u64) {
        let mut random = Rng::with_seed(seed);
        let (first, second) = (one.write(&mut random), other.write(&mut random));
        prop_assert_eq!(one == other, of_json(&first) == of_json(&second), "{} and {}", first, second);
    }

    #[test]
    fn an_ignored_member_never_counts_and_the_others_do(
        value in any_json(), one in any_json(), other in any_json(), seed: u64,
    ) {
        let mut random = Rng::with_seed(seed);
        let around = |ignored: Option<&Json>, value: &Json, random: &mut Rng| {
            let inner = ignored.map(|ignored| ("sent~/\"\n\u{1}at".to_owned(), ignored.clone()));
            let inner = Json::object(inner.into_iter().chain([("kept".to_owned(), value.clone())]));
            Json::object([("a".to_owned(), Json::Array(vec![inner, value.clone()]))]).write(random)
        };
        let of = |body: &str| Request { ignored: &["/a/0/sent~0~1\"\n\u{1}at"], ..Request::json(body) }.fingerprint();
        let bodies = [Some(&one), Some(&other), None].map(|ignored| around(ignored, &value, &mut random));
        prop_assert_eq!(of(&bodies[0]), of(&bodies[1]));
        prop_assert_eq!(of(&bodies[0]), of(&bodies[2]));
        prop_assert_ne!(of(&bodies[0]), of_json(&bodies[2]), "the ignore list counts");
        let changed = around(Some(&one), &change(&value, &mut random), &mut random);
        prop_assert_ne!(of(&bodies[0]), of(&changed));
    }
}

/// Different texts that are no plain JSON: each is compared as it is, under whatever it looks like.
#[test]
fn what_is_not_plain_json_compares_as_bytes() {
    let deep = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
    let (deepest, too_deep) = (deep(128), deep(129));
    // Records that are ten deep, first in a list and then in a list that is itself so deep.
    let record = format!("{}[1]{}", "{\"a\":".repeat(9), "}".repeat(9));
    let records = |depth: usize| {
        let list = [&record[..]; 6].join(",");
        format!("[{list},{}{list}{}]", "[".repeat(depth), "]".repeat(depth))
    };
    let (deepest_records, too_deep_records) = (records(117), records(118));
    for (plain, body) in [
        (true, "null"),
        (true, &deepest[..]),
        (true, &deepest_records),
        (true, "1e9223372036854775807"),
        (true, "1e-9223372036854775808"),
        (true, r#"{"a":{"a":1},"b":{"a":1}}"#),
        (false, ""),
        (false, " "),
        (false, &too_deep[..]),
        (false, &too_deep_records),
        (false, "\u{feff}null"),
        (false, "null null"),
        (false, "nul"),
        (false, "nulll"),
        (false, "[1,]"),
        (false, "[,1]"),
        (false, "[1 2]"),
        (false, "[1}"),
        (false, "{\"a\":1]"),
        (false, "{\"a\"}"),
        (false, "{\"a\":}"),
        (false, "{a:1}"),
        (false, "{\"a\":1,}"),
        (false, "{,}"),
        (false, "[{\"a\":1},{\"a\":1,}]"),
        (false, "[{\"a\":1},{\"a\":1"),
        (false, "[{\"a\":1},{\"a\":1,\"a\":1}]"),
        (false, "{\"a\":1,\"\\u0061\":1}"),
        (false, "{\"a\":{\"b\":1,\"c\":2,\"b\":3}}"),
        (false, "01"),
        (false, "-"),
        (false, "+1"),
        (false, ".5"),
        (false, "1."),
        (false, "1.e5"),
        (false, "1e"),
        (false, "1e+"),
        (false, "-01"),
        (false, "00000000000000000000"),
        (false, "1e9223372036854775808"),
        (false, "10e9223372036854775807"),
        (false, "0.1e-9223372036854775808"),
        (false, "\"a"),
        (false, "\"\\x\""),
        (false, "\"\\u12\""),
        (false, "\"\\ud800\""),
        (false, "\"\\udc00\""),
        (false, "\"\\ud800\\ud800\""),
        (false, "\"\\ud800\\n\""),
        (false, "\"a\nb\""),
        (false, "\"a\u{0}\""),
        (false, "\u{0}"),
        (false, "1\u{0}"),
        (false, "\u{b}1"),
    ] {
        let blank_added = format!("{body} ");
        assert_eq!(of_json(body) == of_json(&blank_added), plain, "{body:?}");
    }
    for broken in [
        &b"\"\xff\""[..],
        b"\"\xc3\"",
        b"\"\xed\xa0\x80\"",
        b"\"0123456789abcdef\xff\"",
        b"\"\\n\xff\"",
        b"{\"\xff\":1}",
    ] {
        let blank_added = [broken, b" "].concat();
        let of = |body| Request::upload("application/json", body).fingerprint();
        assert_ne!(of(broken), of(&blank_added), "{broken:?}");
    }
}

/// Lists long enough for a reader to take short cuts, in every order of the members; blanks stop a short cut.
#[test]
fn records_that_are_all_alike_are_read_as_any_others() {
    let members = [
        r#""a":1"#,
        r#""b":{"y":"2","x":[]}"#,
        r#""c":{"x":"\n","y":3}"#,
        r#""d":"a text longer than sixteen bytes""#,
    ];
    let nested = members.map(|member| member.replace("[]", "null"));
    for members in [members.map(str::to_owned), nested] {
        for order in 0..24 {
            let mut rest: Vec<&String> = members.iter().collect();
            // The digits of the order's number in bases 4, 3, 2 and 1 choose among those that are left.
            let taken = [(1, 4), (4, 3), (12, 2), (24, 1)]
                .map(|(unit, left)| rest.remove(order / unit % left));
            let record = format!("{{{},{},{},{}}}", taken[0], taken[1], taken[2], taken[3]);
            let list = |of: &dyn Fn(usize) -> String| {
                of_json(&format!(
                    "[{}]",
                    (0..12).map(of).collect::<Vec<_>>().join(",")
                ))
            };
            let alike = list(&|_| record.clone());
            let blank_in = |at: usize| {
                list(&|index| {
                    if index == at {
                        record.replace(':', ": ")
                    } else {
                        record.clone()
                    }
                })
            };
            let sorted = format!("{{{}}}", members.join(","));
            for at in 0..12 {
                assert_eq!(alike, blank_in(at), "{record}");
                assert_eq!(
                    alike,
                    list(&|index| if index >= at {
                        sorted.clone()
                    } else {
                        record.clone()
                    }),
                    "{record}"
                );
                for (from, to) in [
                    (":1", ":2"),
                    ("\"2\"", "2"),
                    (":3", ":30"),
                    ("\\n", "n"),
                    ("longer", "shorter"),
                    ("\"y\"", "\"z\""),
                    ("{", "{\"\":{},"),
                ] {
                    let changed = record.replacen(from, to, 1);
                    assert_ne!(record, changed);
                    let one_changed = list(&|index| {
                        if index == at {
                            changed.clone()
                        } else {
                            record.clone()
                        }
                    });
                    assert_ne!(alike, one_changed, "{record} and {changed}");
                }
            }
        }
    }
}

#[test]
fn an_ignored_element_leaves_its_place() {
    let of = |ignored: &[&str], body: &str| {
        Request {
            ignored,
            ..Request::json(body)
        }
        .fingerprint()
    };
    let second = ["/1"];
    assert_eq!(of(&second, "[1,2,3]"), of(&second, "[1,{\"x\":[{}]},3]"));
    assert_ne!(of(&second, "[1,2,3]"), of(&second, "[1,3]"));
    assert_ne!(of(&second, "[1,2]"), of(&second, "[1]"));
    assert_ne!(
        of(&["/01"], "[1,2]"),
        of(&["/01"], "[1,3]"),
        "an index has one spelling"
    );
    assert_ne!(of(&["/-"], "[1,2]"), of(&["/-"], "[1,3]"));
    assert_eq!(
        of(&["/1"], r#"{"1":2,"a":[]}"#),
        of(&["/1"], r#"{"a":[]}"#),
        "a member may be called as an index"
    );
    assert_eq!(
        of(&[""], "[1]"),
        of(&[""], "{}"),
        "the pointer to the whole document"
    );
    assert_ne!(of(&[""], "[1"), of(&[""], "{"), "but of no other text");
}

#[test]
fn an_ignored_member_is_still_a_member() {
    let of = |body: &str| {
        Request {
            ignored: &["/a", "/a/b", "/c/d"],
            ..Request::json(body)
        }
        .fingerprint()
    };
    assert_eq!(of(r#"{"a":{"b":1},"c":{}}"#), of(r#"{"c":{"d":{"a":1}}}"#));
    assert_ne!(
        of(r#"{"a":1,"a":1}"#),
        of(r#"{"a":1,"a":2}"#),
        "duplicates make it other than plain JSON"
    );
    assert_ne!(of(r#"{"a":{"x":1,"x":1}}"#), of(r#"{}"#));
    assert_ne!(of(r#"{"c":[{"d":1}]}"#), of(r#"{"c":[{"d":2}]}"#));
    assert_ne!(of(r#"{"c":{"e":1}}"#), of(r#"{"c":{"e":2}}"#));
}

/// Bodies made to be slow: each is read within a time that a quadratic reader would pass by far, debug build or not.
#[test]
fn hostile_bodies_of_two_mebibytes_take_no_time() {
    const SIZE: usize = 2 << 20;
    let fill = |piece: &str, open: &str, close: &str| {
        format!("{open}{}null{close}", piece.repeat(SIZE / piece.len()))
    };
    let numbered = |format: &dyn Fn(usize) -> String| {
        let mut pieces = Vec::new();
        let mut length = 0;
        while length < SIZE {
            pieces.push(format(pieces.len()));
            length += pieces[pieces.len() - 1].len() + 1;
        }
        pieces.join(",")
    };
    let nested = (0..125).fold("1".to_owned(), |inner, _| {
        format!("{{\"b\":{inner},\"a\":0}}")
    });
    let long_name = "x".repeat(2000);
    let wide = (0..500)
        .map(|n| format!("\"k{n}\":{{}}"))
        .collect::<Vec<_>>()
        .join(",");
    let bodies = [
        fill("[],", "[", "]"),
        fill("{},", "[", "]"),
        fill("1,", "[", "]"),
        fill("1e5,", "[", "]"),
        fill("\"\",", "[", "]"),
        fill("\"\\u0000\\n\",", "[", "]"),
        fill("{\"b\":1,\"a\":[{}]},", "[", "]"),
        fill("{\"b\":1,\"a\":2},{\"a\":1},", "[", "]"),
        fill(&format!("{nested},"), "[", "]"),
        fill(&format!("{{{wide}}},{{\"k0\":{{}},\"z\":0}},"), "[", "]"),
        format!("1{}", "0".repeat(SIZE)),
        format!("0.{}1e-5", "0".repeat(SIZE)),
        format!("1e{}", "0".repeat(SIZE)),
        format!("\"{}\"", "\u{e9}\\\\".repeat(SIZE / 4)),
        format!("{{{}}}", numbered(&|n| format!("\"{}\":1", SIZE - n))),
        format!("[{}]", numbered(&|n| format!("{{\"{n}\":1}}"))),
        format!(
            "{{{}}}",
            numbered(&|n| format!("\"{long_name}{}\":1", n * 7919 % 1024))
        ),
        "[".repeat(SIZE),
        " ".repeat(SIZE),
    ];
    for body in bodies {
        let begin = std::time::Instant::now();
        of_json(&body);
        let taken = begin.elapsed();
        assert!(taken.as_secs() < 5, "{taken:?} for {}...", &body[..40]);
    }
}
