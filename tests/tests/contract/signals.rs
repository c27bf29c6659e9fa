//! One signal for each request.

use std::collections::BTreeMap;

use idem_tests::application::Fixture;
use idem_tests::http::fresh_key;
use idem_tests::on_every_backend;
use idem_tests::wait::{PATIENCE, until};
use serde_json::json;

on_every_backend! {
    each_request_emits_the_signal_of_its_row,
    a_duplicate_in_flight_is_a_pending_one ["WAIT" = "100ms"],
    a_request_over_the_limit_is_overload ["MAX_IN_FLIGHT" = "1"],
}

/// Asserts that exactly these signals were emitted so far.
async fn assert_signals(app: &Fixture, expected: &[(&str, u64)]) {
    let expected: BTreeMap<String, u64> = expected
        .iter()
        .map(|(name, count)| ((*name).to_owned(), *count))
        .collect();
    // An attempt may end after its answer has gone out.
    let start = std::time::Instant::now();
    let mut emitted = app.signals().await;
    while emitted != expected && start.elapsed() < PATIENCE {
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        emitted = app.signals().await;
    }
    assert_eq!(emitted, expected);
}

async fn each_request_emits_the_signal_of_its_row(app: &Fixture) {
    app.client.post("/effects").json(&json!({})).send().await;
    assert_signals(app, &[("refused", 1)]).await;

    app.effect("/effects").key("a,b").send().await;
    assert_signals(app, &[("refused", 2)]).await;

    app.client.post("/optional").json(&json!({})).send().await;
    assert_signals(app, &[("refused", 2), ("unprotected", 1)]).await;

    let call = app.effect("/effects");
    call.send().await;
    let so_far = [("refused", 2), ("unprotected", 1), ("accepted", 1)];
    assert_signals(app, &so_far).await;

    call.send().await;
    call.json(&json!({"amount": 9})).send().await;
    let mut so_far = so_far.to_vec();
    so_far.extend([("replayed", 1), ("mismatch", 1)]);
    assert_signals(app, &so_far).await;

    app.effect("/effects").asking("err", 402).send().await;
    so_far[2].1 = 2;
    so_far.push(("released", 1));
    assert_signals(app, &so_far).await;
}

/// Sends a slow request, and the second one while it runs.
async fn beside(app: &Fixture, same_key: bool) -> (u16, u16) {
    let key = fresh_key();
    let slow = app.with_key("/effects", &key).asking("gate", &key);
    let second = if same_key {
        slow.clone()
    } else {
        app.effect("/effects")
    };
    let second = async {
        until("the handler runs", PATIENCE, async || {
            app.entered(&key).await > 0
        })
        .await;
        let status = second.send().await.status;
        app.open_gate(&key).await;
        status
    };
    let (first, second) = tokio::join!(slow.send(), second);
    (first.status, second)
}

async fn a_duplicate_in_flight_is_a_pending_one(app: &Fixture) {
    assert_eq!(beside(app, true).await, (201, 409));
    assert_signals(app, &[("accepted", 1), ("pending_duplicate", 1)]).await;
}

async fn a_request_over_the_limit_is_overload(app: &Fixture) {
    assert_eq!(beside(app, false).await, (201, 503));
    assert_signals(app, &[("accepted", 1), ("overloaded", 1)]).await;
}
