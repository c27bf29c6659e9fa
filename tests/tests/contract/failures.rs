//! What becomes of a key whose handler failed.

use std::time::{Duration, Instant};

use idem_tests::application::Fixture;
use idem_tests::http::{Call, fresh_key};
use idem_tests::on_every_backend;
use idem_tests::servers::Backend;
use idem_tests::wait::{PATIENCE, until};

on_every_backend! {
    an_ok_of_500_and_above_is_rolled_back_and_released,
    an_err_is_rolled_back_and_released,
    a_stored_err_is_rolled_back_and_replayed,
    a_stored_err_of_500_and_above_is_released,
    an_error_type_decides_what_its_errors_leave,
    a_panic_is_an_answer_and_releases_the_key,
    a_handler_past_its_timeout_is_rolled_back_and_released,
    a_statement_past_the_timeout_is_stopped_and_released,
    a_swallowed_sql_error_never_loses_an_acknowledged_effect,
    a_handler_that_ends_the_transaction_is_found_out,
    a_handler_that_ended_the_transaction_is_not_run_again,
    a_handler_that_uses_another_connection_is_found_out,
    a_serialization_failure_runs_the_handler_again,
    a_deadlock_runs_the_handler_again,
    a_conflict_that_never_ends_is_given_up_and_released,
    a_constraint_that_fails_at_commit_has_no_effect,
}

/// Asserts that `key` is free and has had no effect, and that the plain call now works.
async fn assert_released(app: &Fixture, key: &str, call: &Call) {
    assert_eq!(app.effects(key).await, 0);
    let first = app.accepted(call, 201).await;
    call.send().await.assert_replays(&first);
    assert_eq!(app.effects(key).await, 1);
}

async fn an_ok_of_500_and_above_is_rolled_back_and_released(app: &Fixture) {
    for status in [500, 503] {
        let key = fresh_key();
        let call = app.with_key("/effects", &key);
        let failing = call.clone().asking("status", status);
        let failed = app.accepted(&failing, status).await;
        assert_eq!(failed.code(), None, "the handler's own answer");
        assert_eq!(failed.header("idempotency-expires"), None);
        assert_released(app, &key, &call).await;
    }
}

async fn an_err_is_rolled_back_and_released(app: &Fixture) {
    for status in [400, 402, 409, 500] {
        let key = fresh_key();
        let call = app.with_key("/effects", &key);
        let failed = app
            .accepted(&call.clone().asking("err", status), status)
            .await;
        assert_eq!(failed.code(), None, "the handler's own answer");
        assert_released(app, &key, &call).await;
    }
}

async fn a_stored_err_is_rolled_back_and_replayed(app: &Fixture) {
    let key = fresh_key();
    let call = app.with_key("/stored-errors", &key);
    let failing = call.clone().asking("err", 402);
    let failed = app.accepted(&failing, 402).await;
    assert!(failed.header("idempotency-expires").is_some());
    assert_eq!(app.effects(&key).await, 0);
    call.send().await.assert_replays(&failed);
    assert_eq!((app.effects(&key).await, app.entered(&key).await), (0, 1));
}

async fn a_stored_err_of_500_and_above_is_released(app: &Fixture) {
    let key = fresh_key();
    let call = app.with_key("/stored-errors", &key);
    app.accepted(&call.clone().asking("err", 503), 503).await;
    assert_released(app, &key, &call).await;
}

async fn an_error_type_decides_what_its_errors_leave(app: &Fixture) {
    for (status, stored) in [(400, false), (402, true), (503, false)] {
        let key = fresh_key();
        let call = app.with_key("/disposition", &key);
        let failed = app
            .accepted(&call.clone().asking("err", status), status)
            .await;
        if stored {
            call.send().await.assert_replays(&failed);
            assert_eq!(app.effects(&key).await, 0);
        } else {
            assert_released(app, &key, &call).await;
        }
    }
}

async fn a_panic_is_an_answer_and_releases_the_key(app: &Fixture) {
    let key = fresh_key();
    let call = app.with_key("/effects", &key);
    let panicked = call.clone().asking("fault", "panic").send().await;
    panicked.assert_problem(500, "idempotency-handler-panicked");
    assert_released(app, &key, &call).await;
}

async fn a_handler_past_its_timeout_is_rolled_back_and_released(app: &Fixture) {
    let key = fresh_key();
    let call = app.with_key("/timeout", &key);
    let slow = call.clone().asking("sleep-ms", 10_000);
    slow.send()
        .await
        .assert_problem(503, "idempotency-handler-timed-out");
    assert_released(app, &key, &call).await;
}

/// At least.
const SLOW_STATEMENT: Duration = Duration::from_secs(60);

async fn a_statement_past_the_timeout_is_stopped_and_released(app: &Fixture) {
    let key = fresh_key();
    let call = app.with_key("/timeout", &key);
    let start = Instant::now();
    let slow = call.clone().asking("fault", "slow-statement").send().await;
    slow.assert_problem(503, "idempotency-handler-timed-out");
    // Its locks are gone with it: the key can be used, long before the statement would have ended.
    until("the key is free", PATIENCE, async || {
        call.send().await.status == 201
    })
    .await;
    let free = start.elapsed();
    assert!(free < SLOW_STATEMENT / 2, "{free:?}");
    assert_eq!(app.effects(&key).await, 1);
}

async fn a_swallowed_sql_error_never_loses_an_acknowledged_effect(app: &Fixture) {
    let key = fresh_key();
    let call = app.with_key("/effects", &key);
    let swallowing = call.clone().asking("fault", "swallow");
    let answer = swallowing.send().await;
    if app.database.backend().is_postgres() {
        answer.assert_problem(500, "idempotency-transaction-aborted");
        assert_released(app, &key, &call).await;
    } else {
        assert_eq!(answer.status, 201);
        swallowing.send().await.assert_replays(&answer);
        assert_eq!(app.effects(&key).await, 1);
    }
}

async fn a_handler_that_ends_the_transaction_is_found_out(app: &Fixture) {
    let key = fresh_key();
    let call = app.with_key("/effects", &key);
    let answer = call.clone().asking("fault", "raw-commit").send().await;
    if app.database.backend() == Backend::Sqlite {
        // The commit hook refused it, which rolled everything back.
        answer.assert_problem(500, "idempotency-transaction-aborted");
        assert_released(app, &key, &call).await;
    } else {
        answer.assert_problem(500, "idempotency-transaction-ended");
        let again = call.send().await;
        again.assert_problem(409, "idempotency-outcome-unknown");
        assert_eq!((app.effects(&key).await, app.entered(&key).await), (1, 1));
    }
}

async fn a_handler_that_ended_the_transaction_is_not_run_again(app: &Fixture) {
    for fault in ["raw-commit-serialization", "chained-commit-serialization"] {
        let key = fresh_key();
        let call = app.with_key("/effects", &key);
        let answer = call.clone().asking("fault", fault).send().await;
        if app.database.backend() == Backend::Sqlite {
            // Its COMMIT is refused: nothing is durable, and to run again is right.
            answer.assert_problem(503, "idempotency-serialization-failure");
            assert_released(app, &key, &call).await;
        } else {
            answer.assert_problem(500, "idempotency-transaction-ended");
            let again = call.send().await;
            again.assert_problem(409, "idempotency-outcome-unknown");
            let counted = (app.effects(&key).await, app.entered(&key).await);
            assert_eq!(counted, (1, 1), "{fault}");
        }
    }
}

async fn a_handler_that_uses_another_connection_is_found_out(app: &Fixture) {
    let key = fresh_key();
    let call = app.with_key("/effects", &key);
    let answer = call.clone().asking("fault", "static-pool").send().await;
    answer.assert_problem(500, "idempotency-effect-outside-transaction");
    let again = call.send().await;
    again.assert_problem(409, "idempotency-outcome-unknown");
    assert_eq!(app.entered(&key).await, 1);
    // What went through the other connection; the transaction's own write is rolled back.
    let outside = usize::from(app.database.backend() != Backend::Sqlite);
    assert_eq!(app.effects(&key).await, outside);
}

async fn runs_again(app: &Fixture, fault: &str) {
    let key = fresh_key();
    let call = app.with_key("/effects", &key).asking("fault", fault);
    let first = app.accepted(&call, 201).await;
    assert_eq!((app.effects(&key).await, app.entered(&key).await), (1, 2));
    call.send().await.assert_replays(&first);
    assert_eq!((app.effects(&key).await, app.entered(&key).await), (1, 2));
}

async fn a_serialization_failure_runs_the_handler_again(app: &Fixture) {
    runs_again(app, "serialization").await;
}

async fn a_deadlock_runs_the_handler_again(app: &Fixture) {
    runs_again(app, "deadlock").await;
}

async fn a_conflict_that_never_ends_is_given_up_and_released(app: &Fixture) {
    let key = fresh_key();
    let call = app.with_key("/effects", &key);
    let conflicting = call.clone().asking("fault", "serialization-always");
    let answer = conflicting.send().await;
    answer.assert_problem(503, "idempotency-serialization-failure");
    let entered = app.entered(&key).await;
    assert!((5..=6).contains(&entered), "{entered} attempts");
    assert_released(app, &key, &call).await;
}

pub(super) async fn a_constraint_that_fails_at_commit_has_no_effect(app: &Fixture) {
    let key = fresh_key();
    let call = app.with_key("/effects", &key);
    let answer = call.clone().asking("fault", "deferred").send().await;
    if app.database.backend() != Backend::MySql {
        answer.assert_problem(500, "idempotency-transaction-aborted");
        assert_released(app, &key, &call).await;
    } else {
        assert_eq!(answer.status, 201);
        assert_eq!(app.effects(&key).await, 1);
    }
}
