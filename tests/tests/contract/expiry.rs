//! What a key does once its lifetime has passed.

use std::time::Duration;

use futures_util::future::join_all;
use idem_tests::application::Fixture;
use idem_tests::http::fresh_key;
use idem_tests::on_every_backend;
use serde_json::json;

on_every_backend! {
    an_expired_key_is_as_new,
    an_expired_key_is_taken_over_by_one_request_of_many,
    an_expired_key_of_another_request_is_as_new,
    a_tombstone_refuses_an_expired_key,
}

on_every_backend! {
    on [postgres_repeatable_read = Postgres, postgres_fewest_repeatable_read = PostgresFewest, mysql_repeatable_read = MySql];
    an_expired_key_is_taken_over_by_one_request_of_many ["ISOLATION" = "repeatable-read"],
}

on_every_backend! {
    on [postgres_serializable = Postgres, postgres_fewest_serializable = PostgresFewest, mysql_serializable = MySql];
    an_expired_key_is_taken_over_by_one_request_of_many ["ISOLATION" = "serializable"],
}

/// Lets all answers get older than their lifetime of an hour.
async fn past_lifetime(app: &Fixture) {
    app.database.age_keys(Duration::from_secs(3601)).await;
}

async fn an_expired_key_is_as_new(app: &Fixture) {
    let key = fresh_key();
    let call = app.with_key("/short", &key);
    let first = app.accepted(&call, 201).await;
    call.send().await.assert_replays(&first);
    past_lifetime(app).await;
    let again = app.accepted(&call, 201).await;
    assert_ne!(again.json()["id"], first.json()["id"]);
    call.send().await.assert_replays(&again);
    assert_eq!(app.effects(&key).await, 2);
}

async fn an_expired_key_is_taken_over_by_one_request_of_many(app: &Fixture) {
    let key = fresh_key();
    let call = app.with_key("/short", &key).asking("sleep-ms", 20);
    app.accepted(&call, 201).await;
    past_lifetime(app).await;
    let answers = join_all((0..20).map(|_| call.send())).await;
    let fresh = answers.iter().filter(|answer| !answer.is_replay()).count();
    assert!(answers.iter().all(|answer| answer.status == 201));
    assert_eq!((fresh, app.effects(&key).await), (1, 2));
}

pub(super) async fn an_expired_key_of_another_request_is_as_new(app: &Fixture) {
    let key = fresh_key();
    let call = app.with_key("/short", &key);
    app.accepted(&call, 201).await;
    past_lifetime(app).await;
    let other = call.json(&json!({"amount": 7}));
    let second = app.accepted(&other, 201).await;
    other.send().await.assert_replays(&second);
    assert_eq!(app.effects(&key).await, 2);
}

pub(super) async fn a_tombstone_refuses_an_expired_key(app: &Fixture) {
    let key = fresh_key();
    let call = app.with_key("/tombstone", &key);
    let first = app.accepted(&call, 201).await;
    call.send().await.assert_replays(&first);
    // Not a moment before.
    app.database.age_keys(Duration::from_secs(3500)).await;
    call.send().await.assert_replays(&first);
    app.database.age_keys(Duration::from_secs(101)).await;
    let expired = call.send().await;
    expired.assert_problem(410, "idempotency-key-expired");
    assert_eq!(expired.json()["retryable"], false);
    call.send()
        .await
        .assert_problem(410, "idempotency-key-expired");
    assert_eq!((app.effects(&key).await, app.entered(&key).await), (1, 1));
}
