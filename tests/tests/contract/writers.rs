//! SQLite's one writer: who waits for its turn, and for how long.

use std::time::Duration;

use futures_util::future::join_all;
use idem_tests::application::Fixture;
use idem_tests::http::{Answer, Call};
use idem_tests::on_every_backend;
use idem_tests::wait::in_time;
use sqlx::{Connection, Executor, SqliteConnection};

on_every_backend! {
    on [sqlite = Sqlite];
    writers_that_take_longer_than_the_store_may_all_have_their_turn,
    so_do_those_whose_errors_are_stored,
    a_database_that_another_process_keeps_busy_is_told_of_in_time,
    replays_are_answered_while_another_process_writes,
}

/// 4 seconds of work, of which each request alone sees one turn.
const WRITERS: usize = 40;
const TURN: u64 = 100;

async fn together(calls: &[Call]) -> Vec<Answer> {
    join_all(calls.iter().map(Call::send)).await
}

async fn writers_that_take_longer_than_the_store_may_all_have_their_turn(app: &Fixture) {
    let slow = || app.effect("/effects").asking("sleep-ms", TURN);
    let calls: Vec<Call> = (0..WRITERS).map(|_| slow()).collect();
    for answer in together(&calls).await {
        assert_eq!((answer.status, answer.is_replay()), (201, false));
    }
    assert_eq!(app.rows("alice").await.len(), WRITERS);
}

/// Its answer is stored after the handler's transaction, by a statement that needs no turn of its own.
async fn so_do_those_whose_errors_are_stored(app: &Fixture) {
    let slow = |path| app.effect(path).asking("sleep-ms", TURN);
    let mut calls: Vec<Call> = (0..WRITERS / 4)
        .map(|_| slow("/stored-errors").asking("err", 402))
        .collect();
    calls.extend((0..WRITERS * 3 / 4).map(|_| slow("/effects")));
    let answers = together(&calls).await;
    for (call, answer) in calls.iter().zip(&answers) {
        assert!(matches!(answer.status, 201 | 402), "{answer:?}");
        call.send().await.assert_replays(answer);
    }
}

/// Who waits behind a writer that waits for the database waits for the database.
async fn a_database_that_another_process_keeps_busy_is_told_of_in_time(app: &Fixture) {
    let mut other = SqliteConnection::connect(app.database.url())
        .await
        .expect("the database is there");
    other.execute("BEGIN IMMEDIATE").await.expect("it is free");
    let calls: Vec<Call> = (0..5).map(|_| app.effect("/effects")).collect();
    let limit = Duration::from_secs(2);
    let answers = in_time("each is told", limit, async || together(&calls).await).await;
    for answer in answers {
        answer.assert_problem(503, "idempotency-store-unavailable");
    }
    other.execute("ROLLBACK").await.expect("it ends");
    for answer in together(&calls).await {
        assert_eq!(answer.status, 201, "{answer:?}");
    }
}

/// A begin that is given up goes on waiting inside SQLite, on a connection that nobody else has meanwhile: there is one of them.
async fn replays_are_answered_while_another_process_writes(app: &Fixture) {
    let known = app.effect("/effects");
    let first = known.send().await;
    let mut other = SqliteConnection::connect(app.database.url())
        .await
        .expect("the database is there");
    other.execute("BEGIN IMMEDIATE").await.expect("it is free");
    let at_once = Duration::from_millis(500);
    let (mut refused, mut late) = (Vec::new(), Vec::<Duration>::new());
    for _ in 0..50 {
        let write = app.effect("/effects");
        refused.push(tokio::spawn(async move { write.send().await }));
        let asked = std::time::Instant::now();
        known.send().await.assert_replays(&first);
        late.extend(Some(asked.elapsed()).filter(|took| *took > at_once));
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert!(late.is_empty(), "replays that waited: {late:?}");
    other.execute("ROLLBACK").await.expect("it ends");
    for refused in refused {
        let answer = refused.await.expect("it is sent");
        assert!(matches!(answer.status, 503 | 201), "{answer:?}");
    }
    let next = in_time("the next writes", Duration::from_secs(2), async || {
        app.effect("/effects").send().await
    });
    assert_eq!(next.await.status, 201);
}
