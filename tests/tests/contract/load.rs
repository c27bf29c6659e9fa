//! Many requests at once.

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use idem_tests::application::Fixture;
use idem_tests::http::{Answer, fresh_key};
use idem_tests::on_every_backend;
use idem_tests::wait::{PATIENCE, until};

on_every_backend! {
    of_many_requests_with_one_key_one_has_an_effect,
    waiters_get_the_unstored_answer_of_a_request_that_failed,
    clients_that_give_up_at_any_moment_leave_nothing_behind ["POOL_SIZE" = "3"],
    duplicates_of_a_slow_request_are_all_replays ["POOL_SIZE" = "5"],
    a_retry_is_not_judged_by_another_request_that_asks_with_it,
    retries_of_a_completed_strict_request_are_replays_together,
}

on_every_backend! {
    on [postgres_busy = Postgres, postgres_fewest_busy = PostgresFewest, mysql_busy = MySql];
    duplicates_of_a_slow_request_leave_another_keys_latency ["POOL_SIZE" = "5"],
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
    let failing = call.clone().asking("sleep-ms", 800).asking("err", 402);
    let waiters = async {
        until("the handler runs", PATIENCE, async || {
            app.entered(&key).await > 0
        })
        .await;
        join_all((0..20).map(|_| failing.send())).await
    };
    let (first, waiters) = tokio::join!(failing.send(), waiters);
    for answer in waiters.iter().chain([&first]) {
        assert_eq!(answer.status, 402, "{answer:?}");
        assert_eq!(answer.body, first.body);
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

/// Latencies of 40 first executions, one every 25 ms, sorted.
async fn latencies(app: &Fixture) -> Vec<Duration> {
    let mut ticks = tokio::time::interval(Duration::from_millis(25));
    let mut latencies = Vec::new();
    for _ in 0..40 {
        ticks.tick().await;
        let start = Instant::now();
        let answer = app.effect("/effects").send().await;
        assert_eq!(answer.status, 201, "{answer:?}");
        latencies.push(start.elapsed());
    }
    latencies.sort();
    latencies
}

async fn duplicates_of_a_slow_request_leave_another_keys_latency(app: &Fixture) {
    let quiet = latencies(app).await;
    let key = fresh_key();
    let slow = app.with_key("/effects", &key).asking("sleep-ms", 2000);
    let others = async {
        until("the handler runs", PATIENCE, async || {
            app.entered(&key).await > 0
        })
        .await;
        latencies(app).await
    };
    let duplicates = join_all((0..200).map(|_| slow.send()));
    let (answers, busy) = tokio::join!(duplicates, others);
    let replays = answers.iter().filter(|answer| answer.is_replay()).count();
    assert!(answers.iter().all(|answer| answer.status == 201));
    assert_eq!((replays, app.effects(&key).await), (199, 1));
    // A starved key would wait for the two seconds; the machine's own noise is far below this.
    let (quiet, busy) = (quiet[35], busy[35]);
    assert!(
        busy < quiet + Duration::from_millis(200),
        "90th percentile: {quiet:?} alone, {busy:?} beside 200 duplicates"
    );
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
