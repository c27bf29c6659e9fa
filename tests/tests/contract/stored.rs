//! What is stored of an answer, and what is not.

use std::time::Duration;

use idem_tests::application::Fixture;
use idem_tests::http::fresh_key;
use idem_tests::on_every_backend;
use idem_tests::wait::until;

on_every_backend! {
    an_ok_below_500_is_stored_whatever_its_status,
    every_shape_of_a_body_is_replayed_byte_for_byte,
    headers_that_describe_the_answer_are_stored_and_no_others,
    an_answer_at_the_limit_is_stored,
    an_answer_that_cannot_be_stored_has_no_effect,
    a_client_that_disconnects_cancels_nothing,
}

async fn an_ok_below_500_is_stored_whatever_its_status(app: &Fixture) {
    for status in [200, 202, 303, 404, 409, 422, 499] {
        let key = fresh_key();
        let call = app.with_key("/effects", &key).asking("status", status);
        let first = app.accepted(&call, status).await;
        call.send().await.assert_replays(&first);
        assert_eq!(app.effects(&key).await, 1, "{status}");
    }
}

async fn every_shape_of_a_body_is_replayed_byte_for_byte(app: &Fixture) {
    for (shape, status) in [
        ("json", 201),
        ("png", 201),
        ("empty", 201),
        ("none", 204),
        ("large:100000", 201),
        ("stream", 201),
    ] {
        let call = app.effect("/effects").asking("body", shape);
        let first = app.accepted(&call, status).await;
        let replay = call.send().await;
        replay.assert_replays(&first);
        let media_type = first.header("content-type");
        assert_eq!(replay.header("content-type"), media_type, "{shape}");
        match shape {
            "png" => assert!(first.body.starts_with(b"\x89PNG\r\n\x1a\n\0")),
            "stream" => assert_eq!(first.body, "one two three"),
            "large:100000" => assert_eq!(first.body.len(), 100_000),
            "empty" | "none" => assert!(first.body.is_empty()),
            _ => assert!(first.body.ends_with(br#""n":1.10,"a":"x\u0000"}"#)),
        }
        if shape != "none" {
            let length = replay.body.len().to_string();
            assert_eq!(replay.header("content-length"), Some(&*length), "{shape}");
        }
    }
}

async fn headers_that_describe_the_answer_are_stored_and_no_others(app: &Fixture) {
    let call = app.effect("/effects").asking("body", "headers");
    let first = app.accepted(&call, 201).await;
    let replay = call.send().await;
    assert_eq!(first.lines("set-cookie"), [b"session=secret"]);
    for kept in [
        "location",
        "link",
        "etag",
        "cache-control",
        "x-latin",
        "content-type",
    ] {
        assert!(!first.lines(kept).is_empty(), "{kept}");
        assert_eq!(replay.lines(kept), first.lines(kept), "{kept}");
    }
    assert_eq!(replay.lines("link").len(), 2);
    assert_eq!(replay.lines("x-latin"), [b"caf\xe9"]);
    for dropped in [
        "set-cookie",
        "x-request-id",
        "x-hop",
        "access-control-allow-origin",
        "server-timing",
        "ratelimit-remaining",
        "retry-after",
        "www-authenticate",
    ] {
        assert_eq!(replay.lines(dropped).len(), 0, "{dropped}: {replay:?}");
    }
    assert_eq!(replay.body, first.body);
    assert!(replay.is_replay());
}

async fn an_answer_at_the_limit_is_stored(app: &Fixture) {
    let call = app.effect("/effects").asking("body", "large:1048576");
    let first = app.accepted(&call, 201).await;
    assert_eq!(first.body.len(), 1024 * 1024);
    call.send().await.assert_replays(&first);
}

async fn an_answer_that_cannot_be_stored_has_no_effect(app: &Fixture) {
    for shape in ["large:1048577", "endless", "events"] {
        let key = fresh_key();
        let call = app.with_key("/effects", &key);
        let refused = call.clone().asking("body", shape).send().await;
        refused.assert_problem(500, "response-not-storable");
        assert_eq!(app.effects(&key).await, 0, "{shape}");
        app.accepted(&call, 201).await;
        assert_eq!(app.effects(&key).await, 1, "{shape}");
    }
}

pub(super) async fn a_client_that_disconnects_cancels_nothing(app: &Fixture) {
    let key = fresh_key();
    let call = app.with_key("/effects", &key).asking("sleep-ms", 600);
    let impatient = call.clone().giving_up_after(Duration::from_millis(150));
    assert!(impatient.try_send().await.is_err());
    until("the effect is there", Duration::from_secs(10), async || {
        app.effects(&key).await == 1
    })
    .await;
    let retried = call.send().await;
    assert_eq!((retried.status, retried.is_replay()), (201, true));
    assert_eq!((app.effects(&key).await, app.entered(&key).await), (1, 1));
}
