//! Which requests are the same.

use idem_tests::application::Fixture;
use idem_tests::http::{Call, fresh_key};
use idem_tests::on_every_backend;
use serde::Deserialize;
use serde_json::json;

on_every_backend! {
    the_path_counts,
    the_query_counts_but_for_the_order_of_its_names,
    the_operations_path_counts_though_the_body_is_the_same,
    the_media_type_counts_but_for_its_case,
    a_declared_header_counts_and_no_other,
    what_is_ignored_does_not_count,
    a_multipart_boundary_does_not_count,
    bodies_are_the_same_or_not_as_the_shared_cases_say,
}

/// Asserts that the second call, under the first one's key, is the same request, or is not.
async fn assert_same(app: &Fixture, one: Call, other: Call, same: bool, what: &str) {
    let key = fresh_key();
    let first = app.accepted(&one.key(&key), 201).await;
    let second = other.key(&key).send().await;
    if same {
        assert!(second.is_replay(), "{what}: {second:?}");
        second.assert_replays(&first);
    } else {
        assert_eq!(second.status, 422, "{what}: {second:?}");
        second.assert_problem(422, "idempotency-key-reused");
    }
    assert_eq!(app.effects(&key).await, 1, "{what}");
}

pub(super) async fn the_path_counts(app: &Fixture) {
    let one = app.effect("/effects/1");
    assert_same(app, one.clone(), app.effect("/effects/2"), false, "path").await;
    assert_same(app, one.clone(), one, true, "path").await;
}

async fn the_query_counts_but_for_the_order_of_its_names(app: &Fixture) {
    for (one, other, same) in [
        ("a=1&b=2", "b=2&a=1", true),
        ("a=1&a=2", "a=2&a=1", false),
        ("a=1", "a=2", false),
        ("a=1", "a=1&b=2", false),
        ("a=%31", "a=1", true),
        ("a=x+y", "a=x%20y", true),
    ] {
        let call = |query| app.effect(&format!("/effects/1?{query}"));
        let what = format!("{one} and {other}");
        assert_same(app, call(one), call(other), same, &what).await;
    }
}

async fn the_operations_path_counts_though_the_body_is_the_same(app: &Fixture) {
    assert_same(
        app,
        app.effect("/effects"),
        app.effect("/stored-errors"),
        false,
        "another route",
    )
    .await;
}

async fn the_media_type_counts_but_for_its_case(app: &Fixture) {
    let call = |media_type| app.effect("/upload").body(media_type, "{\"a\":1}");
    for (one, other, same) in [
        ("application/json", "APPLICATION/JSON", true),
        ("application/json", "text/plain", false),
        ("text/plain", "text/html", false),
    ] {
        let what = format!("{one} and {other}");
        assert_same(app, call(one), call(other), same, &what).await;
    }
}

async fn a_declared_header_counts_and_no_other(app: &Fixture) {
    let call = |version: &str| {
        let call = app.effect("/fingerprint-header");
        call.set("x-api-version", version.as_bytes())
    };
    assert_same(app, call("1"), call("2"), false, "declared").await;
    assert_same(app, call("1"), call("1"), true, "declared").await;
    let without = app.effect("/fingerprint-header");
    assert_same(app, call("1"), without, false, "declared").await;
    let traced = call("1")
        .set("user-agent", b"other")
        .set("traceparent", b"00-1");
    assert_same(app, call("1"), traced, true, "others").await;
}

async fn what_is_ignored_does_not_count(app: &Fixture) {
    let call = |query: &str, sent_at: &str, amount: u32| {
        let call = app.effect(&format!("/ignore{query}"));
        call.json(&json!({"sent_at": sent_at, "amount": amount}))
    };
    let one = || call("?utm_source=mail&x=1", "10:00", 1);
    let ignored = call("?x=1&utm_source=web", "10:05", 1);
    assert_same(app, one(), ignored, true, "ignored parts").await;
    let other = call("?x=2&utm_source=mail", "10:00", 1);
    assert_same(app, one(), other, false, "another query").await;
    let other = call("?utm_source=mail&x=1", "10:00", 2);
    assert_same(app, one(), other, false, "another member").await;
}

async fn a_multipart_boundary_does_not_count(app: &Fixture) {
    let call = |boundary: &str, content: &str| {
        let body = format!(
            "--{boundary}\r\ncontent-disposition: form-data; name=\"f\"; filename=\"a.txt\"\r\n\
             content-type: text/plain\r\n\r\n{content}\r\n--{boundary}--\r\n"
        );
        let media_type = format!("multipart/form-data; boundary={boundary}");
        app.effect("/upload").body(&media_type, body)
    };
    assert_same(app, call("one", "x"), call("two", "x"), true, "boundary").await;
    assert_same(app, call("one", "x"), call("one", "y"), false, "content").await;
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    name: String,
    content_type: String,
    /// Of the second body, where it differs.
    content_type_b: Option<String>,
    a: String,
    b: String,
    same: bool,
}

async fn bodies_are_the_same_or_not_as_the_shared_cases_say(app: &Fixture) {
    let cases: Vec<Case> = serde_json::from_str(include_str!("../../cases/fingerprint.json"))
        .expect("the cases are JSON");
    assert!(cases.len() > 40);
    for case in cases {
        let call =
            |media_type: &str, body: &str| app.effect("/upload").body(media_type, body.to_owned());
        let one = &case.content_type;
        let other = case.content_type_b.as_ref().unwrap_or(one);
        let (one, other) = (call(one, &case.a), call(other, &case.b));
        assert_same(app, one, other, case.same, &case.name).await;
    }
}
