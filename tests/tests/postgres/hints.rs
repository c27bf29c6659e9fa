//! Without the statements that only spare work.

use std::sync::Arc;

use axum::Router;
use axum::extract::{Path, State};
use axum::routing::post;
use futures_util::future::join_all;
use idem_runtime::{Idempotency, Steps, Tx, idempotent};
use idem_tests::servers::{Backend, TestDatabase};
use idem_tests::wait::PATIENCE;
use sqlx::postgres::PgPoolOptions;
use sqlx::{PgPool, Postgres};
use tokio::sync::Barrier;

use crate::{Failed, Meeting, Process, Seen, Set, act, both};

both! {
    duplicates_of_two_processes_both_run_and_one_commits,
    no_lock_is_taken_for_a_key_or_a_step,
    a_message_is_processed_once,
}

#[idempotent(scope = "account", wait = "4s")]
async fn meet(
    tx: &mut Tx<Postgres>,
    Path((account, _)): Path<(String, usize)>,
    State(meeting): State<Meeting>,
) -> Result<String, Failed> {
    act(tx, "", 1).await?;
    meeting.0.wait().await;
    Ok(account)
}

/// How many advisory locks there are in this database, seen from inside.
async fn locks(tx: &mut Tx<Postgres>) -> Result<String, Failed> {
    let held: i64 = sqlx::query_scalar(
        "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' \
            AND database = (SELECT oid FROM pg_database WHERE datname = current_database())",
    )
    .fetch_one(&mut *tx)
    .await?;
    Ok(held.to_string())
}

#[idempotent(scope = "account")]
async fn locked(
    tx: &mut Tx<Postgres>,
    Path((account, _)): Path<(String, usize)>,
) -> Result<String, Failed> {
    drop(account);
    locks(tx).await
}

#[idempotent(scope = "account", operation = "hints.step")]
async fn step_locked(
    steps: &mut Steps<Postgres, Failed>,
    Path((account, _)): Path<(String, usize)>,
) -> Result<String, Failed> {
    drop(account);
    steps.atomic("locks", locks).await
}

async fn set(backend: Backend, hints: bool) -> Set {
    let database = TestDatabase::create(backend).await;
    let url = database.url().to_owned();
    let options = PgPoolOptions::new();
    Set::over(
        database,
        &url,
        options,
        |options| options,
        |builder| builder.hints(hints),
    )
    .await
}

/// A process that shares nothing with the set but its database.
async fn process(set: &Set, meeting: &Meeting) -> Router {
    let pool = PgPool::connect(set.database.url())
        .await
        .expect("the database is there");
    let idempotency = Idempotency::builder(pool)
        .round_trips(set.database.backend().round_trips())
        .hints(false)
        .build()
        .expect("the settings make sense");
    Router::new()
        .route("/things/{account}/{length}", post(meet))
        .with_state(Process {
            idempotency,
            meeting: meeting.clone(),
        })
}

async fn duplicates_of_two_processes_both_run_and_one_commits(backend: Backend) {
    let mut set = set(backend, false).await;
    let meeting = Meeting(Arc::new(Barrier::new(2)));
    let processes = [process(&set, &meeting).await, process(&set, &meeting).await];
    for round in 1..=20 {
        let key = format!("k{round}");
        // Neither passes before both run.
        let both = join_all(
            processes
                .iter()
                .map(|process| Set::post_to(process, "/things/alice/1", &key, "")),
        );
        let both = tokio::time::timeout(PATIENCE, both).await;
        let answers = both.expect("both have met and ended");
        let replays = answers.iter().filter(|answer| answer.replayed).count();
        assert_eq!(replays, 1, "{answers:?}");
        assert!(
            answers.iter().all(|answer| answer.status == 200),
            "{answers:?}"
        );
        assert_eq!(set.things().await, round);
    }
    set.app = processes[0].clone();
    let replay = set.post("/things/alice/1", "k1", "").await;
    assert!(replay.replayed, "{replay:?}");
}

async fn no_lock_is_taken_for_a_key_or_a_step(backend: Backend) {
    for (hints, expected) in [(true, "1"), (false, "0")] {
        let mut set = set(backend, hints).await;
        let idempotency = set.idempotency.clone();
        set.app = Router::new()
            .route("/things/{account}/{length}", post(locked))
            .route("/steps/{account}/{length}", post(step_locked))
            .with_state(idempotency);
        for path in ["/things/alice/1", "/steps/alice/1"] {
            for key in ["k1", "k2"] {
                let held = set.post(path, &format!("{key}-of-{path}"), "").await;
                let expected = Seen {
                    status: 200,
                    replayed: false,
                    body: expected.to_owned(),
                };
                assert_eq!(held, expected, "{path} with hints: {hints}");
            }
        }
    }
}

/// Longer than `store_timeout`, which bounds the statement that takes a message.
const SLOW: &str = "SELECT pg_sleep(2)";

async fn a_message_is_processed_once(backend: Backend) {
    let set = set(backend, false).await;
    let inbox = set.idempotency.inbox();
    let one = async || {
        let done: Result<_, sqlx::Error> = inbox
            .process("ledger", "orders", "m1", async |tx: &mut Tx<Postgres>| {
                sqlx::query("INSERT INTO things (n) VALUES (1)")
                    .execute(&mut *tx)
                    .await?;
                sqlx::query(SLOW).execute(&mut *tx).await.map(drop)
            })
            .await;
        done.expect("it is processed")
    };
    let all = join_all((0..4).map(|_| one())).await;
    let done = |processed: &&idem_runtime::inbox::Processed<()>| {
        matches!(processed, idem_runtime::inbox::Processed::Done(()))
    };
    assert_eq!(all.iter().filter(done).count(), 1, "{all:?}");
    assert_eq!(set.things().await, 1);
}
