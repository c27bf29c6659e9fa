//! The order of events.

use idem_tests::application::Fixture;
use idem_tests::http::fresh_key;
use idem_tests::on_every_backend;
use serde_json::json;

on_every_backend! {
    who_may_not_call_now_may_not_see_a_stored_answer,
    the_caller_is_checked_before_the_key,
    the_key_is_checked_before_the_body_is_read,
    a_body_that_the_extractor_rejects_keeps_no_claim,
    a_stored_answer_is_replayed_though_validation_was_tightened,
    another_request_is_a_reuse_before_it_is_invalid,
}

pub(super) async fn who_may_not_call_now_may_not_see_a_stored_answer(app: &Fixture) {
    let key = fresh_key();
    let call = app.with_key("/effects", &key);
    let first = app.accepted(&call, 201).await;
    for token in ["", "mallory-token"] {
        let refused = call.clone().token(token).send().await;
        assert_eq!((refused.status, refused.is_replay()), (401, false));
    }
    assert_eq!(
        app.client.post("/revoke/alice-token").send().await.status,
        204
    );
    let refused = call.send().await;
    assert_eq!((refused.status, refused.code()), (401, None));
    assert!(!refused.is_replay());
    let replayed = call.token("alice-token-2").send().await;
    replayed.assert_replays(&first);
    assert_eq!(app.effects(&key).await, 1);
}

async fn the_caller_is_checked_before_the_key(app: &Fixture) {
    let call = app.client.post("/effects").token("").json(&json!({}));
    assert_eq!(call.send().await.status, 401);
}

async fn the_key_is_checked_before_the_body_is_read(app: &Fixture) {
    let call = app.with_key("/upload", "a,b");
    let call = call.body("application/octet-stream", vec![7; 1024 * 1024 + 1]);
    call.send()
        .await
        .assert_problem(400, "idempotency-key-invalid");
}

async fn a_body_that_the_extractor_rejects_keeps_no_claim(app: &Fixture) {
    let key = fresh_key();
    let call = app.with_key("/typed", &key);
    let bad = [
        (400, call.clone().body("application/json", "{\"n\":")),
        (415, call.clone().body("text/plain", "{\"n\":1}")),
        (422, call.clone().json(&json!({"n": "one"}))),
    ];
    for (status, call) in &bad {
        let rejected = call.send().await;
        assert_eq!(rejected.status, *status, "{rejected:?}");
        assert_eq!(rejected.code(), None, "the extractor's own answer");
        assert_eq!(rejected.header("idempotency-expires"), None);
    }
    let records = app.database.number("SELECT COUNT(*) FROM idem_keys").await;
    assert_eq!((records, app.entered(&key).await), (0, 0));
    let good = call.json(&json!({"n": 1}));
    let first = app.accepted(&good, 201).await;
    good.send().await.assert_replays(&first);
    assert_eq!(app.effects(&key).await, 1);
}

async fn a_stored_answer_is_replayed_though_validation_was_tightened(app: &Fixture) {
    let call = app.effect("/typed").json(&json!({"n": 1}));
    let first = app.accepted(&call, 201).await;
    let tightened = call.asking("tighten", 1);
    tightened.send().await.assert_replays(&first);
    let new = tightened.key(&fresh_key()).send().await;
    assert_eq!((new.status, new.code()), (422, None));
}

async fn another_request_is_a_reuse_before_it_is_invalid(app: &Fixture) {
    let call = app.effect("/typed").json(&json!({"n": 1}));
    app.accepted(&call, 201).await;
    let other = call.json(&json!({"n": "one"})).send().await;
    other.assert_problem(422, "idempotency-key-reused");
}
