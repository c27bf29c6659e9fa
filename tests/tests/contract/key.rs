//! The key and its owner.

use idem_tests::application::Fixture;
use idem_tests::http::fresh_key;
use idem_tests::on_every_backend;

on_every_backend! {
    the_quoted_and_the_bare_form_are_one_key,
    parameters_of_the_quoted_form_are_ignored,
    a_key_has_one_to_255_characters,
    malformed_keys_are_refused,
    two_field_lines_are_no_key,
    keys_are_compared_byte_by_byte,
    two_callers_with_one_key_never_meet,
    a_rotated_credential_of_the_same_account_is_the_same_caller,
}

async fn the_quoted_and_the_bare_form_are_one_key(app: &Fixture) {
    let key = fresh_key();
    let first = app.accepted(&app.with_key("/effects", &key), 201).await;
    let quoted = app.with_key("/effects", &format!("\"{key}\""));
    quoted.send().await.assert_replays(&first);
    assert_eq!(app.effects(&key).await, 1);
}

async fn parameters_of_the_quoted_form_are_ignored(app: &Fixture) {
    let key = fresh_key();
    let first = app.accepted(&app.with_key("/effects", &key), 201).await;
    for parameters in [";v=1", "; a; b=\"c\"", ";x=?1"] {
        let call = app.with_key("/effects", &format!("\"{key}\"{parameters}"));
        call.send().await.assert_replays(&first);
    }
}

async fn a_key_has_one_to_255_characters(app: &Fixture) {
    for length in [1, 2, 255] {
        let call = app.with_key("/effects", &"k".repeat(length));
        let first = app.accepted(&call, 201).await;
        call.send().await.assert_replays(&first);
    }
    for key in ["k".repeat(256), format!("\"{}\"", "k".repeat(256))] {
        let answer = app.with_key("/effects", &key).send().await;
        answer.assert_problem(400, "idempotency-key-invalid");
    }
    assert_eq!(app.rows("alice").await.len(), 3);
}

async fn malformed_keys_are_refused(app: &Fixture) {
    let malformed: [&[u8]; 12] = [
        b"",
        b"\"\"",
        b"a b",
        b"a,b",
        b"a;b",
        b"a\\b",
        b"a\"b",
        b"\"open",
        b"\"a\" b",
        b"\"a\", \"b\"",
        b"caf\xc3\xa9",
        b"\"tab\there\"",
    ];
    for key in malformed {
        let call = app.effect("/effects").set("idempotency-key", key);
        let answer = call.send().await;
        answer.assert_problem(400, "idempotency-key-invalid");
        assert_eq!(answer.json()["retryable"], false);
    }
    assert_eq!(app.rows("alice").await.len(), 0);
}

async fn two_field_lines_are_no_key(app: &Fixture) {
    let call = app.client.post("/effects").json(&serde_json::json!({}));
    for (one, other) in [("a", "a"), ("a", "b"), ("\"a", "b\"")] {
        let call = call.clone();
        let call = call.header("idempotency-key", one);
        let call = call.header("idempotency-key", other);
        let answer = call.send().await;
        answer.assert_problem(400, "idempotency-key-invalid");
    }
    assert_eq!(app.rows("alice").await.len(), 0);
}

async fn keys_are_compared_byte_by_byte(app: &Fixture) {
    let key = fresh_key();
    let likes = [
        format!("\"{key}a\""),
        format!("\"{key}A\""),
        format!("\"{key}a \""),
        format!("\" {key}a\""),
        format!("\"{key}%61\""),
    ];
    for like in &likes {
        app.accepted(&app.with_key("/effects", like), 201).await;
    }
    assert_eq!(app.rows("alice").await.len(), likes.len());
}

pub(super) async fn two_callers_with_one_key_never_meet(app: &Fixture) {
    let key = fresh_key();
    let call = app.with_key("/effects", &key);
    let alices = app.accepted(&call, 201).await;
    let bobs = app.accepted(&call.clone().token("bob-token"), 201).await;
    assert_ne!(alices.json()["id"], bobs.json()["id"]);
    call.send().await.assert_replays(&alices);
    call.token("bob-token").send().await.assert_replays(&bobs);
    assert_eq!(app.effects_of("alice", &key).await, 1);
    assert_eq!(app.effects_of("bob", &key).await, 1);
}

async fn a_rotated_credential_of_the_same_account_is_the_same_caller(app: &Fixture) {
    let call = app.effect("/effects");
    let first = app.accepted(&call, 201).await;
    let rotated = call.token("alice-token-2").send().await;
    rotated.assert_replays(&first);
}
