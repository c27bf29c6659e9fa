//! The cases of `tests/cases/fingerprint.json`: two bodies that are, or are not, the same request.

use http::{HeaderMap, HeaderValue, Method, Uri, header};
use idem_runtime::fingerprint::{Fingerprint, FingerprintInput, FingerprintOptions};
use serde::Deserialize;

#[derive(Deserialize)]
struct Case {
    name: String,
    content_type: String,
    content_type_b: Option<String>,
    a: String,
    b: String,
    same: bool,
}

fn upload(content_type: &str, body: &str) -> Fingerprint {
    let content_type =
        HeaderValue::from_str(content_type).expect("a case's content type is a header value");
    Fingerprint::compute(&FingerprintInput {
        method: &Method::POST,
        uri: &Uri::from_static("/upload"),
        headers: &HeaderMap::from_iter([(header::CONTENT_TYPE, content_type)]),
        body: body.as_bytes(),
        options: &FingerprintOptions::default(),
    })
}

#[test]
fn every_case_is_the_same_request_or_another_as_it_says() {
    let cases: Vec<Case> = serde_json::from_str(include_str!("../../tests/cases/fingerprint.json"))
        .expect("the file of cases is JSON of their form");
    let wrong: Vec<&str> = cases
        .iter()
        .filter(|case| {
            let a = upload(&case.content_type, &case.a);
            let b = upload(
                case.content_type_b.as_deref().unwrap_or(&case.content_type),
                &case.b,
            );
            (a == b) != case.same
        })
        .map(|case| &case.name[..])
        .collect();
    assert!(!cases.is_empty());
    assert!(wrong.is_empty(), "wrong: {wrong:?}");
}
