//! The public test of the contract passes what is right and fails what is wrong.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::Request;
use idem_runtime::testing::{self, Contract, Phase, Violation};
use idem_runtime::{IdempotentHandler, Tx, idempotent};
use idem_tests::servers::{Backend, TestDatabase};
use sqlx::sqlite::SqlitePoolOptions;
use sqlx::{Pool, Sqlite};

use super::planted::{self, AppState};
use super::setup::{Store, Tested};
use crate::on_each_backend;

on_each_backend![a_right_handler_passes, a_begun_transaction_is_rolled_back];

/// A test of the handler at `path`, with a count on a connection of its own.
fn contract(instances: Vec<Router>, path: &'static str, database: TestDatabase) -> Contract {
    let request = move |key: &str, body: &'static str| {
        Request::post(path)
            .header("idempotency-key", format!("\"{key}\""))
            .body(Body::from(body))
            .unwrap()
    };
    Contract::new(instances)
        .request(move |key| request(key, "a book"))
        .changed(move |key| request(key, "a lamp"))
        .effects(async move || u64::try_from(database.number("SELECT count(*) FROM effects").await))
        .patience(Duration::from_secs(20))
}

async fn a_right_handler_passes<DB: Tested>() {
    let store = Store::<DB>::new().await;
    let mut instances = vec![DB::service(store.idempotency.clone())];
    for _ in 0..2 {
        instances.push(DB::service(store.another().await));
    }
    let report = contract(instances, "/effects/alice", store.database)
        .check()
        .await
        .unwrap_or_else(|violation| panic!("{violation}"));
    let effects: Vec<u64> = report.phases.iter().map(|phase| phase.effects).collect();
    assert_eq!(effects, [1, 1, 2, 8, 0], "{report}");
}

async fn a_begun_transaction_is_rolled_back<DB: Tested>() {
    let store = Store::<DB>::new().await;
    for _ in 0..10 {
        let tx = testing::begin(store.idempotency.pool()).await;
        assert!(!tx.operation_id().is_nil());
        drop(tx);
    }
    assert_eq!(store.effects().await, 0);
}

#[idempotent(scope = "account")]
async fn close(
    tx: &mut Tx<Sqlite>,
    axum::extract::Path(account): axum::extract::Path<u64>,
) -> Result<String, String> {
    sqlx::query("INSERT INTO effects (n) VALUES (1)")
        .execute(&mut *tx)
        .await
        .map_err(|error| error.to_string())?;
    Ok(format!("{account} is closed"))
}

/// On a runtime with one thread, where the rest has two.
#[tokio::test]
async fn a_handler_is_called_in_a_transaction_that_leaves_nothing() {
    let store = Store::<Sqlite>::new().await;
    let mut tx = testing::begin(store.idempotency.pool()).await;
    let answer = close.invoke(&mut tx, (axum::extract::Path(7),)).await;
    assert_eq!(answer.as_deref(), Ok("7 is closed"));
    let inside: i64 = sqlx::query_scalar("SELECT count(*) FROM effects")
        .fetch_one(&mut *tx)
        .await
        .unwrap();
    assert_eq!(inside, 1);
    drop(tx);
    assert_eq!(store.effects().await, 0);
}

/// The message of a panic is what the author of a test reads.
async fn why_none_begins(pool: Pool<Sqlite>) -> String {
    let begun = tokio::spawn(async move { drop(testing::begin(&pool).await) });
    let panic = begun.await.unwrap_err().into_panic();
    panic.downcast_ref::<String>().unwrap().clone()
}

#[tokio::test]
async fn a_transaction_that_can_not_begin_says_what_to_do() {
    let database = TestDatabase::create(Backend::Sqlite).await;
    let pool = |most| SqlitePoolOptions::new().max_connections(most);
    let empty = pool(1).connect(database.url()).await.unwrap();
    let missing = why_none_begins(empty).await;
    let store = Store::<Sqlite>::new().await;
    let one = pool(1).connect(store.database.url()).await.unwrap();
    let held = one.acquire().await.unwrap();
    let exhausted = why_none_begins(one.clone()).await;
    drop(held);
    one.close().await;
    let closed = why_none_begins(one).await;
    for (said, advice) in [
        (
            missing,
            "`Idempotency::new(pool.clone()).migrate().await` before it",
        ),
        (exhausted, "waited too long for a connection. Drop the `Tx`"),
        (closed, "Check the URL of the test's pool"),
    ] {
        assert!(
            said.starts_with("`testing::begin` has no transaction to give: "),
            "{said}"
        );
        assert!(said.contains(advice), "{said}");
        assert!(
            !said.contains("error communicating with database"),
            "{said}"
        );
    }
}

/// What the contract's test says of a planted handler.
async fn verdict(path: &'static str) -> Violation {
    let store = Store::<Sqlite>::new().await;
    store
        .database
        .execute("CREATE TABLE answers (id TEXT PRIMARY KEY, body TEXT, answer TEXT)")
        .await
        .unwrap();
    let mut instances = Vec::new();
    let looked = Arc::default();
    for _ in 0..2 {
        let idempotency = store.another().await;
        instances.push(planted::service(AppState {
            pool: idempotency.pool().clone(),
            idempotency,
            looked: Arc::clone(&looked),
        }));
    }
    contract(instances, path, store.database)
        .check()
        .await
        .expect_err("the planted handler must be found")
}

#[tokio::test]
async fn a_handler_that_replays_yet_writes_twice_fails() {
    let violation = verdict("/writes-twice/alice").await;
    assert!(
        matches!(
            violation,
            Violation::Effects {
                phase: Phase::Sequence,
                requests: 2,
                expected: 1,
                effects: 2,
                ..
            }
        ),
        "{violation}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_handler_that_checks_then_inserts_fails() {
    let violation = verdict("/checks/alice").await;
    assert!(
        matches!(
            violation,
            Violation::Effects {
                phase: Phase::Concurrent,
                expected: 1,
                effects: 2..,
                ..
            }
        ),
        "{violation}"
    );
}

#[tokio::test]
async fn a_handler_that_writes_after_its_answer_fails() {
    let violation = verdict("/late/alice").await;
    assert!(
        matches!(violation, Violation::Effects { .. }),
        "{violation}"
    );
}

#[tokio::test]
async fn a_handler_that_ignores_the_request_fails() {
    let violation = verdict("/ignores/alice").await;
    assert!(
        matches!(
            violation,
            Violation::NotRefused {
                phase: Phase::Changed,
                ..
            }
        ),
        "{violation}"
    );
}

#[tokio::test]
async fn a_handler_whose_replay_differs_fails() {
    let violation = verdict("/mind/alice").await;
    assert!(
        matches!(
            violation,
            Violation::Differs {
                what: "set of header fields",
                ..
            }
        ),
        "{violation}"
    );
}

#[tokio::test]
async fn a_test_without_a_count_says_what_it_needs() {
    let violation = Contract::new(Vec::new())
        .request(|_| Request::new(Body::empty()))
        .changed(|_| Request::new(Body::empty()))
        .check()
        .await
        .unwrap_err();
    assert!(violation.to_string().contains(".effects("), "{violation}");
}
