//! The table of answers.

use std::time::{Duration, SystemTime};

use idem_tests::application::Fixture;
use idem_tests::http::{Answer, fresh_key};
use idem_tests::on_every_backend;
use idem_tests::servers::Backend;
use idem_tests::wait::{PATIENCE, in_time, until};
use serde_json::json;

on_every_backend! {
    a_missing_key_is_refused,
    without_its_key_an_optional_operation_runs_each_time,
    with_its_key_an_optional_operation_is_protected,
    a_body_over_the_limit_is_refused,
    a_body_at_the_limit_is_accepted,
    a_first_use_is_the_handlers_answer_in_one_commit,
    a_replay_has_the_same_status_headers_and_bytes,
    another_request_with_a_completed_key_is_refused,
    another_request_with_a_key_in_flight_is_refused,
    a_duplicate_in_flight_waits_for_the_answer ["WAIT" = "25s"],
    a_duplicate_that_has_waited_long_enough_is_told_to_come_again ["WAIT" = "200ms"],
    a_strict_operation_refuses_a_duplicate_in_flight_at_once ["WAIT" = "25s"],
    too_many_in_flight_are_turned_away ["MAX_IN_FLIGHT" = "2"],
    a_draining_server_turns_new_requests_away_and_ends_its_own,
    an_exhausted_pool_is_said_within_two_seconds ["POOL_SIZE" = "1"],
}

on_every_backend! {
    on [postgres_unknown = Postgres, postgres_fewest_unknown = PostgresFewest, mysql_unknown = MySql];
    a_key_of_unknown_outcome_is_never_run_again,
}

/// Waits until the handler runs for `key`.
async fn running(app: &Fixture, key: &str) {
    until("the handler runs", PATIENCE, async || {
        app.entered(key).await > 0
    })
    .await;
}

async fn records(app: &Fixture) -> i64 {
    app.database.number("SELECT COUNT(*) FROM idem_keys").await
}

fn retry_after(answer: &Answer) -> u64 {
    answer
        .header("retry-after")
        .and_then(|value| value.parse().ok())
        .unwrap_or_else(|| panic!("a Retry-After in seconds: {answer:?}"))
}

async fn a_missing_key_is_refused(app: &Fixture) {
    let call = app.client.post("/effects").json(&json!({}));
    let answer = call.send().await;
    answer.assert_problem(400, "idempotency-key-missing");
    assert_eq!(answer.json()["retryable"], false);
    assert_eq!(app.rows("alice").await.len(), 0);
    assert_eq!(records(app).await, 0);
}

async fn without_its_key_an_optional_operation_runs_each_time(app: &Fixture) {
    let call = app.client.post("/optional").json(&json!({}));
    let first = app.accepted(&call, 201).await;
    let second = app.accepted(&call, 201).await;
    assert_ne!(first.json()["id"], second.json()["id"]);
    assert_eq!(first.header("idempotency-expires"), None);
    assert_eq!(app.rows("alice").await.len(), 2);
    assert_eq!(records(app).await, 0);

    let failed = call.clone().asking("err", 402).send().await;
    assert_eq!(failed.status, 402);
    let failed = call.clone().asking("status", 500).send().await;
    assert_eq!(failed.status, 500);
    assert_eq!(app.rows("alice").await.len(), 2, "a plain transaction");
    // PostgreSQL has aborted the transaction then, and would commit nothing.
    let swallowed = call.asking("fault", "swallow").send().await;
    if app.database.backend().is_postgres() {
        swallowed.assert_problem(500, "idempotency-transaction-aborted");
        assert_eq!(app.rows("alice").await.len(), 2);
    } else {
        assert_eq!(swallowed.status, 201);
        assert_eq!(app.rows("alice").await.len(), 3);
    }
}

async fn with_its_key_an_optional_operation_is_protected(app: &Fixture) {
    let call = app.effect("/optional");
    let first = app.accepted(&call, 201).await;
    call.send().await.assert_replays(&first);
    let malformed = call.key("a,b").send().await;
    malformed.assert_problem(400, "idempotency-key-invalid");
    assert_eq!(app.rows("alice").await.len(), 1);
}

async fn a_body_over_the_limit_is_refused(app: &Fixture) {
    let key = fresh_key();
    let call = app.with_key("/upload", &key);
    let call = call.body("application/octet-stream", vec![7; 1024 * 1024 + 1]);
    call.send().await.assert_problem(413, "request-too-large");
    assert_eq!((app.entered(&key).await, records(app).await), (0, 0));
}

async fn a_body_at_the_limit_is_accepted(app: &Fixture) {
    let call = app.effect("/upload");
    let call = call.body("application/octet-stream", vec![7; 1024 * 1024]);
    let first = app.accepted(&call, 201).await;
    call.send().await.assert_replays(&first);
}

pub(super) async fn a_first_use_is_the_handlers_answer_in_one_commit(app: &Fixture) {
    let key = fresh_key();
    let first = app.accepted(&app.with_key("/effects", &key), 201).await;
    let id = &first.json()["id"];
    assert_eq!(
        first.body,
        format!(r#"{{"id":{id},"n":1.10,"a":"x\u0000"}}"#)
    );
    assert_eq!((app.effects(&key).await, records(app).await), (1, 1));
    let lifetime = lifetime(&first);
    let expected = Duration::from_secs(48 * 3600);
    assert!(
        lifetime.abs_diff(expected) < Duration::from_secs(60),
        "{lifetime:?}"
    );
}

/// How long an answer's key still lives.
fn lifetime(answer: &Answer) -> Duration {
    let expires = answer
        .header("idempotency-expires")
        .unwrap_or_else(|| panic!("no Idempotency-Expires: {answer:?}"));
    let expires = httpdate::parse_http_date(expires).expect("an HTTP date");
    expires
        .duration_since(SystemTime::now())
        .expect("a time to come")
}

async fn a_replay_has_the_same_status_headers_and_bytes(app: &Fixture) {
    let key = fresh_key();
    let call = app.with_key("/effects", &key).asking("status", 202);
    let first = app.accepted(&call, 202).await;
    for _ in 0..3 {
        let replay = call.send().await;
        replay.assert_replays(&first);
        assert_eq!(
            replay.header("idempotency-expires"),
            first.header("idempotency-expires")
        );
    }
    assert_eq!((app.effects(&key).await, app.entered(&key).await), (1, 1));
}

pub(super) async fn another_request_with_a_completed_key_is_refused(app: &Fixture) {
    let key = fresh_key();
    let first = app.accepted(&app.with_key("/effects", &key), 201).await;
    let other = app.with_key("/effects", &key).json(&json!({"amount": 2}));
    let refused = other.send().await;
    refused.assert_problem(422, "idempotency-key-reused");
    assert_eq!(
        refused.header("idempotency-expires"),
        first.header("idempotency-expires")
    );
    assert!(!String::from_utf8_lossy(&refused.body).contains(&key));
    app.with_key("/effects", &key)
        .send()
        .await
        .assert_replays(&first);
    assert_eq!(app.effects(&key).await, 1);
}

pub(super) async fn another_request_with_a_key_in_flight_is_refused(app: &Fixture) {
    let key = fresh_key();
    let slow = app.with_key("/effects", &key).asking("gate", &key);
    let other = app.with_key("/effects", &key).json(&json!({"amount": 2}));
    let refuse = async {
        running(app, &key).await;
        let refused = other.send().await;
        app.open_gate(&key).await;
        refused
    };
    let (first, refused) = tokio::join!(slow.send(), refuse);
    assert_eq!(first.status, 201);
    refused.assert_problem(422, "idempotency-key-reused");
    assert_eq!((app.effects(&key).await, app.entered(&key).await), (1, 1));
}

async fn a_duplicate_in_flight_waits_for_the_answer(app: &Fixture) {
    let key = fresh_key();
    let slow = app.with_key("/effects", &key).asking("gate", &key);
    let first = async {
        let (answer, ()) = tokio::join!(slow.send(), async {
            app.gathered(&key, 2).await;
            app.open_gate(&key).await;
        });
        answer
    };
    let duplicate = async {
        running(app, &key).await;
        slow.send().await
    };
    let (first, second) = tokio::join!(first, duplicate);
    assert_eq!(first.status, 201);
    second.assert_replays(&first);
    assert_eq!((app.effects(&key).await, app.entered(&key).await), (1, 1));
}

async fn a_duplicate_that_has_waited_long_enough_is_told_to_come_again(app: &Fixture) {
    let key = fresh_key();
    let slow = app.with_key("/effects", &key).asking("gate", &key);
    let duplicate = async {
        running(app, &key).await;
        let told = slow.send().await;
        app.open_gate(&key).await;
        told
    };
    let (first, told) = tokio::join!(slow.send(), duplicate);
    assert_eq!(first.status, 201);
    told.assert_problem(409, "idempotency-key-in-progress");
    assert!(retry_after(&told) >= 1);
    assert_eq!(told.json()["retryable"], true);
    slow.send().await.assert_replays(&first);
    assert_eq!(app.effects(&key).await, 1);
}

async fn a_strict_operation_refuses_a_duplicate_in_flight_at_once(app: &Fixture) {
    let key = fresh_key();
    let slow = app.with_key("/strict", &key).asking("gate", &key);
    let duplicate = async {
        running(app, &key).await;
        let at_once = Duration::from_millis(750);
        let told = in_time("it is refused", at_once, async || slow.send().await).await;
        app.open_gate(&key).await;
        told
    };
    let (first, told) = tokio::join!(slow.send(), duplicate);
    assert_eq!(first.status, 201);
    told.assert_problem(409, "idempotency-key-in-progress");
    assert!(retry_after(&told) >= 1);
    slow.send().await.assert_replays(&first);
}

async fn too_many_in_flight_are_turned_away(app: &Fixture) {
    let keys = [fresh_key(), fresh_key(), fresh_key()];
    let slow = |key: &str| {
        let call = app.with_key("/effects", key);
        call.asking("gate", &keys[0])
    };
    let (first, second) = (slow(&keys[0]), slow(&keys[1]));
    let third = async {
        // SQLite has one writer: there the other one waits for its turn, and is in flight all the same.
        app.gathered(&keys[0], 2).await;
        let third = app.with_key("/effects", &keys[2]).send().await;
        app.open_gate(&keys[0]).await;
        third
    };
    let (first, second, third) = tokio::join!(first.send(), second.send(), third);
    assert_eq!((first.status, second.status), (201, 201));
    third.assert_problem(503, "idempotency-overloaded");
    assert!(retry_after(&third) >= 1);
    assert_eq!(app.entered(&keys[2]).await, 0);
    let retried = app.with_key("/effects", &keys[2]).send().await;
    assert_eq!(retried.status, 201);
}

async fn a_draining_server_turns_new_requests_away_and_ends_its_own(app: &Fixture) {
    let key = fresh_key();
    let slow = app.with_key("/effects", &key).asking("gate", &key);
    let late = async {
        running(app, &key).await;
        app.server.ask_to_stop().await;
        let mut last = None;
        until("the server turns requests away", PATIENCE, async || {
            last = app.effect("/effects").try_send().await.ok();
            last.as_ref().is_none_or(|answer| answer.status == 503)
        })
        .await;
        app.open_gate(&key).await;
        last
    };
    let (first, late) = tokio::join!(slow.send(), late);
    assert_eq!(first.status, 201);
    let late = late.expect("it is still there to say so");
    late.assert_problem(503, "idempotency-overloaded");
    assert!(retry_after(&late) >= 1);
    until("the server ends", PATIENCE, async || {
        app.client.get("/healthz").try_send().await.is_err()
    })
    .await;
    let written = app.database.number("SELECT COUNT(*) FROM idem_keys").await;
    assert!(written >= 1, "the running request has committed");
}

async fn an_exhausted_pool_is_said_within_two_seconds(app: &Fixture) {
    let (busy, key) = (fresh_key(), fresh_key());
    let slow = app.with_key("/effects", &busy).asking("gate", &busy);
    let other = app.with_key("/effects", &key);
    let refused = async {
        running(app, &busy).await;
        let soon = Duration::from_millis(2500);
        let refused = in_time("it is refused", soon, async || other.send().await).await;
        app.open_gate(&busy).await;
        refused
    };
    let (first, refused) = tokio::join!(slow.send(), refused);
    assert_eq!(first.status, 201);
    refused.assert_problem(503, "idempotency-store-unavailable");
    assert!(retry_after(&refused) >= 1);
    assert_eq!(app.entered(&key).await, 0, "the handler is not entered");
    assert_eq!(other.send().await.status, 201);
}

async fn a_key_of_unknown_outcome_is_never_run_again(app: &Fixture) {
    assert_ne!(app.database.backend(), Backend::Sqlite);
    let key = fresh_key();
    let call = app.with_key("/effects", &key);
    let first = call.clone().asking("fault", "raw-commit").send().await;
    assert_eq!(first.status, 500, "{first:?}");
    for _ in 0..2 {
        let again = call.send().await;
        again.assert_problem(409, "idempotency-outcome-unknown");
        assert_eq!(again.json()["retryable"], false);
        let links = again.lines("link");
        let named = links.iter().find_map(|link| {
            let link = std::str::from_utf8(link).ok()?;
            link.strip_prefix('<')?.strip_suffix(">; rel=\"status\"")
        });
        let named = named.unwrap_or_else(|| panic!("no status link: {again:?}"));
        let status = app.client.get(named).token("alice-token").send().await;
        assert_eq!(status.json(), json!({ "state": "unknown" }), "{status:?}");
        let stranger = app.client.get(named).token("bob-token").send().await;
        assert_eq!(stranger.status, 404, "{stranger:?}");
    }
    let other = call.json(&json!({"amount": 3})).send().await;
    other.assert_problem(422, "idempotency-key-reused");
    assert_eq!((app.effects(&key).await, app.entered(&key).await), (1, 1));
}
