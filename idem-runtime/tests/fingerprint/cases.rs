//! The cases of `tests/cases/fingerprint.json`: two bodies that are, or are not, the same request.

use serde::Deserialize;

use crate::requests::Request;

#[derive(Deserialize)]
struct Case {
    name: String,
    content_type: String,
    content_type_b: Option<String>,
    a: String,
    b: String,
    same: bool,
}

#[test]
fn every_case_is_the_same_request_or_another_as_it_says() {
    let cases: Vec<Case> =
        serde_json::from_str(include_str!("../../../tests/cases/fingerprint.json"))
            .expect("the file of cases is JSON of their form");
    let wrong: Vec<&str> = cases
        .iter()
        .filter(|case| {
            let content_type_b = case.content_type_b.as_deref().unwrap_or(&case.content_type);
            let a = Request::upload(&case.content_type, case.a.as_bytes()).fingerprint();
            let b = Request::upload(content_type_b, case.b.as_bytes()).fingerprint();
            (a == b) != case.same
        })
        .map(|case| &case.name[..])
        .collect();
    assert!(!cases.is_empty());
    assert!(wrong.is_empty(), "wrong: {wrong:?}");
}
