#![allow(clippy::unwrap_used, reason = "tests")]

use std::collections::HashSet;

use http::StatusCode;
use http_body_util::BodyExt as _;
use serde_json::{Value, json};

use super::*;
use crate::key::IdempotencyKey;

async fn members(response: Response) -> Value {
    let body = response.into_body().collect().await.unwrap().to_bytes();
    serde_json::from_slice(&body).unwrap()
}

fn field(response: &Response, name: impl http::header::AsHeaderName) -> Vec<String> {
    let values = response.headers().get_all(name).iter();
    values
        .map(|value| value.to_str().unwrap().to_owned())
        .collect()
}

#[tokio::test]
async fn an_answer_is_a_problem_document() {
    let response = Problem::new(Code::KeyMissing).into_response(&ProblemStyle::default());
    assert_eq!(response.status(), StatusCode::BAD_REQUEST);
    assert_eq!(
        field(&response, "content-type"),
        ["application/problem+json"]
    );
    assert_eq!(field(&response, "cache-control"), ["no-store"]);
    assert!(field(&response, "retry-after").is_empty());
    assert!(field(&response, "link").is_empty());
    assert_eq!(
        members(response).await,
        json!({
            "type": "urn:idem:problem:idempotency-key-missing",
            "title": "Idempotency-Key is missing",
            "status": 400,
            "detail": Code::KeyMissing.default_detail(),
            "code": "idempotency-key-missing",
            "retryable": false,
        })
    );
}

#[tokio::test]
async fn the_style_sets_the_type_and_the_documentation() {
    let style = ProblemStyle::default()
        .type_base("https://api.example/problems/")
        .unwrap()
        .documentation("https://api.example/docs?q=1#keys")
        .unwrap();
    let response = Problem::new(Code::OutcomeUnknown)
        .status_link(UriReference::parse("/operations/7").unwrap())
        .into_response(&style);
    assert_eq!(
        field(&response, "link"),
        [
            "<https://api.example/docs?q=1#keys>; rel=\"describedby\"",
            "</operations/7>; rel=\"status\"",
        ]
    );
    assert_eq!(
        members(response).await["type"],
        "https://api.example/problems/idempotency-outcome-unknown"
    );
}

#[test]
fn retry_after_is_in_whole_seconds_of_at_least_one() {
    for (delay, sent) in [
        (Duration::ZERO, "1"),
        (Duration::from_millis(1), "1"),
        (Duration::from_secs(2), "2"),
        (Duration::from_millis(2001), "3"),
        (Duration::MAX, "18446744073709551615"),
    ] {
        let response = Problem::new(Code::KeyInProgress)
            .retry_after(delay)
            .into_response(&ProblemStyle::default());
        assert_eq!(field(&response, "retry-after"), [sent]);
    }
}

#[test]
fn answers_that_ask_for_a_later_retry_say_when() {
    for code in Code::ALL {
        let response = Problem::new(code).into_response(&ProblemStyle::default());
        let later = code.status() == StatusCode::SERVICE_UNAVAILABLE || code == Code::KeyInProgress;
        assert_eq!(
            response.headers().contains_key("retry-after"),
            later,
            "{code}"
        );
    }
}

#[test]
fn a_record_may_tell_when_it_expires() {
    let response = Problem::new(Code::KeyReused)
        .expires(784_111_777_999)
        .into_response(&ProblemStyle::default());
    assert_eq!(
        field(&response, "idempotency-expires"),
        ["Sun, 06 Nov 1994 08:49:37 GMT"]
    );
}

#[test]
fn codes_and_statuses_are_those_of_the_contract() {
    let table: Vec<_> = Code::ALL
        .iter()
        .map(|code| (code.status().as_u16(), code.as_str(), code.retryable()))
        .collect();
    assert_eq!(
        table,
        [
            (400, "idempotency-key-missing", false),
            (400, "idempotency-key-invalid", false),
            (400, "idempotency-scope-invalid", false),
            (421, "idempotency-wrong-region", false),
            (503, "idempotency-region-unavailable", true),
            (413, "request-too-large", false),
            (400, "request-body-unreadable", true),
            (422, "idempotency-key-reused", false),
            (409, "idempotency-key-in-progress", true),
            (503, "idempotency-overloaded", true),
            (409, "idempotency-outcome-unknown", false),
            (410, "idempotency-key-expired", false),
            (503, "idempotency-store-unavailable", true),
            (500, "idempotency-store-not-migrated", false),
            (500, "response-not-storable", false),
            (500, "idempotency-handler-panicked", true),
            (503, "idempotency-handler-timed-out", true),
            (500, "idempotency-transaction-ended", false),
            (500, "idempotency-transaction-aborted", true),
            (500, "idempotency-effect-outside-transaction", false),
            (503, "idempotency-serialization-failure", true),
            (500, "idempotency-step-not-storable", false),
        ]
    );
    let distinct: HashSet<_> = Code::ALL.iter().map(|code| code.as_str()).collect();
    assert_eq!(distinct.len(), Code::ALL.len());
}

#[test]
fn the_titles_of_the_draft_are_used() {
    assert_eq!(Code::KeyMissing.title(), "Idempotency-Key is missing");
    assert_eq!(Code::KeyReused.title(), "Idempotency-Key is already used");
    assert_eq!(
        Code::KeyInProgress.title(),
        "A request is outstanding for this Idempotency-Key"
    );
}

#[test]
fn where_the_outcome_may_be_unknown_no_new_key_is_suggested() {
    for code in [
        Code::OutcomeUnknown,
        Code::StoreUnavailable,
        Code::TransactionEnded,
        Code::EffectOutsideTransaction,
        Code::KeyExpired,
        Code::KeyInProgress,
        Code::WrongRegion,
    ] {
        let detail = code.default_detail().to_lowercase();
        assert!(
            !detail.contains("new") && !detail.contains("another key"),
            "{code}: {detail}"
        );
    }
    for code in Code::ALL.into_iter().filter(|code| code.retryable()) {
        assert!(
            code.default_detail().contains("same Idempotency-Key"),
            "{code}"
        );
    }
}

#[tokio::test]
async fn a_refused_key_is_not_repeated() {
    let error = IdempotencyKey::parse(b"secret,secret", true).unwrap_err();
    let problem = Problem::from(error.clone());
    assert_eq!(problem.code(), Code::KeyInvalid);
    let detail = members(problem.into_response(&ProblemStyle::default())).await["detail"].clone();
    assert_eq!(detail, error.to_string());
    assert!(!detail.to_string().contains("secret"));
}

#[tokio::test]
async fn a_region_is_named_with_its_address_if_it_has_one() {
    let problem = Problem::new(Code::WrongRegion);
    let named = problem.clone().region(Region::new("east \"1\""));
    let named = members(named.into_response(&ProblemStyle::default())).await;
    assert_eq!(named["region"], "east \"1\"");
    assert!(named.get("region_url").is_none());
    let url = UriReference::parse("https://east.api.example/").unwrap();
    let reached = problem.region(Region::new("east").url(url));
    let reached = members(reached.into_response(&ProblemStyle::default())).await;
    assert_eq!(reached["region_url"], "https://east.api.example/");
}

#[test]
fn a_uri_can_not_break_out_of_its_header_field() {
    for wrong in ["", "a b", "a>b", "a\"b", "a\r\nb", "ü", "a\\b", "<a>"] {
        assert!(UriReference::parse(wrong).is_err(), "{wrong:?}");
    }
    assert!(ProblemStyle::default().type_base("no spaces").is_err());
}
