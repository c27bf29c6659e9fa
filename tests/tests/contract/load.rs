//! Many requests at once.

use std::time::Duration;

use futures_util::future::join_all;
use idem_tests::application::Fixture;
use idem_tests::http::{Answer, fresh_key};
use idem_tests::on_every_backend;

on_every_backend! {
    of_many_requests_with_one_key_one_has_an_effect,
    waiters_get_the_unstored_answer_of_a_request_that_failed ["WAIT" = "25s"],
    clients_that_give_up_at_any_moment_leave_nothing_behind ["POOL_SIZE" = "3"],
    duplicates_of_a_slow_request_are_all_replays ["POOL_SIZE" = "5"],
    a_retry_is_not_judged_by_another_request_that_asks_with_it,
    retries_of_a_completed_strict_request_are_replays_together,
}

on_every_backend! {
    on [postgres_busy = Postgres, postgres_fewest_busy = PostgresFewest, mysql_busy = MySql];
    duplicates_of_a_slow_request_do_not_slow_another_key_down ["POOL_SIZE" = "5", "WAIT" = "25s"],
}

on_every_backend! {
    on [
        postgres_repeatable_read = Postgres,
        postgres_fewest_repeatable_read = PostgresFewest,
        mysql_repeatable_read = MySql];
    of_many_requests_with_one_key_one_has_an_effect ["ISOLATION" = "repeatable-read"],
}

on_every_backend! {
    on [
        postgres_serializable = Postgres,
        postgres_fewest_serializable = PostgresFewest,
        mysql_serializable = MySql];
    of_many_requests_with_one_key_one_has_an_effect ["ISOLATION" = "serializable"],
}

on_every_backend! {
    on [
        postgres_without_hints = Postgres,
        postgres_fewest_without_hints = PostgresFewest,
        mysql_without_hints = MySql];
    of_many_requests_with_one_key_one_has_an_effect ["HINTS" = "off"],
    waiters_get_the_unstored_answer_of_a_request_that_failed ["WAIT" = "25s", "HINTS" = "off"],
    clients_that_give_up_at_any_moment_leave_nothing_behind ["POOL_SIZE" = "3", "HINTS" = "off"],
    duplicates_of_a_slow_request_do_not_slow_another_key_down ["POOL_SIZE" = "5", "WAIT" = "25s", "HINTS" = "off"],
}

async fn of_many_requests_with_one_key_one_has_an_effect(app: &Fixture) {
    for _ in 0..10 {
        let key = fresh_key();
        let call = app.with_key("/effects", &key).asking("sleep-ms", 5);
        let answers = join_all((0..30).map(|_| call.send())).await;
        let (replays, first): (Vec<Answer>, Vec<Answer>) =
            answers.into_iter().partition(Answer::is_replay);
        let [first] = &first[..] else {
            panic!("one first use, and not {first:?}");
        };
        assert_eq!(first.status, 201);
        for replay in replays {
            replay.assert_replays(first);
        }
        assert_eq!(app.effects(&key).await, 1);
    }
}

async fn a_retry_is_not_judged_by_another_request_that_asks_with_it(app: &Fixture) {
    let key = fresh_key();
    let call = app.with_key("/effects", &key);
    let first = app.accepted(&call, 201).await;
    let other = call.clone().json(&serde_json::json!({ "another": "body" }));
    for _ in 0..40 {
        let (refused, replayed) = tokio::join!(other.send(), call.send());
        refused.assert_problem(422, "idempotency-key-reused");
        assert!(
            refused.header("idempotency-expires").is_some(),
            "{refused:?}"
        );
        replayed.assert_replays(&first);
    }
}

async fn retries_of_a_completed_strict_request_are_replays_together(app: &Fixture) {
    let call = app.with_key("/strict", &fresh_key());
    let first = app.accepted(&call, 201).await;
    for _ in 0..20 {
        for replay in join_all((0..4).map(|_| call.send())).await {
            replay.assert_replays(&first);
        }
    }
}

async fn waiters_get_the_unstored_answer_of_a_request_that_failed(app: &Fixture) {
    let key = fresh_key();
    let call = app.with_key("/effects", &key);
    let failing = call.clone().asking("gate", &key).asking("err", 402);
    let all_wait = async {
        app.gathered(&key, 21).await;
        app.open_gate(&key).await;
    };
    let waiters = join_all((0..21).map(|_| failing.send()));
    let (answers, ()) = tokio::join!(waiters, all_wait);
    for answer in &answers {
        assert_eq!(answer.status, 402, "{answer:?}");
        assert_eq!(answer.body, answers[0].body);
    }
    assert_eq!((app.effects(&key).await, app.entered(&key).await), (0, 1));
    app.accepted(&call, 201).await;
}

async fn duplicates_of_a_slow_request_are_all_replays(app: &Fixture) {
    let key = fresh_key();
    let call = app.with_key("/effects", &key).asking("sleep-ms", 1500);
    let answers = join_all((0..100).map(|_| call.send())).await;
    let replays = answers.iter().filter(|answer| answer.is_replay()).count();
    assert!(answers.iter().all(|answer| answer.status == 201));
    assert_eq!((replays, app.effects(&key).await), (99, 1));
    assert_eq!(app.entered(&key).await, 1);
}

/// A key that had to wait for a connection that the duplicates hold would be told 503, for none is given back before.
async fn duplicates_of_a_slow_request_do_not_slow_another_key_down(app: &Fixture) {
    let key = fresh_key();
    let slow = app.with_key("/effects", &key).asking("gate", &key);
    let others = async {
        app.gathered(&key, 200).await;
        for _ in 0..40 {
            let answer = app.effect("/effects").send().await;
            assert_eq!(answer.status, 201, "{answer:?}");
        }
        app.open_gate(&key).await;
    };
    let duplicates = join_all((0..200).map(|_| slow.send()));
    let (answers, ()) = tokio::join!(duplicates, others);
    let replays = answers.iter().filter(|answer| answer.is_replay()).count();
    assert!(answers.iter().all(|answer| answer.status == 201));
    assert_eq!((replays, app.effects(&key).await), (199, 1));
}

async fn clients_that_give_up_at_any_moment_leave_nothing_behind(app: &Fixture) {
    let keys: Vec<String> = (0..150).map(|_| fresh_key()).collect();
    for batch in keys.chunks(5) {
        join_all(batch.iter().map(|key| {
            let patience = Duration::from_micros(fastrand::u64(200..15_000));
            let call = app.with_key("/effects", key).giving_up_after(patience);
            async move { call.try_send().await.ok() }
        }))
        .await;
    }
    for key in &keys {
        let answer = app.with_key("/effects", key).send().await;
        assert_eq!(answer.status, 201, "{answer:?}");
        assert_eq!(app.with_key("/effects", key).send().await.body, answer.body);
    }
    // What is written is committed: read past the pool, where an open transaction would hide it.
    let rows = app.rows("alice").await.len();
    assert_eq!(rows, keys.len());
}
