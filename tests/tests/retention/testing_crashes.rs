//! The public crash test passes what is right and fails what a crash breaks.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::{Request, StatusCode};
use axum::routing::post;
use idem_runtime::testing::{CrashEnd, Crashes, Phase, Violation};
use idem_runtime::{External, Idempotency};
use idem_tests::servers::{Backend, TestDatabase};
use sqlx::sqlite::SqlitePoolOptions;

use super::charging::{self, AppState, Provider, Smuggled};
use super::setup::{Store, Tested};
use crate::on_each_backend;

const LEASE: Duration = Duration::from_secs(1);

on_each_backend![a_right_handler_survives_a_crash_at_each_point];

fn post_to(path: &'static str) -> impl Fn(&str) -> Request<Body> {
    move |key| {
        Request::post(path)
            .header("idempotency-key", format!("\"{key}\""))
            .body(Body::from("a body"))
            .unwrap()
    }
}

async fn a_right_handler_survives_a_crash_at_each_point<DB: Tested>() {
    let store = Store::<DB>::new().await;
    let instances = vec![
        DB::service(store.idempotency.clone()),
        DB::service(store.another().await),
    ];
    let database = Arc::new(store.database);
    let report = Crashes::new(instances)
        .request(post_to("/effects/alice"))
        .effects(async move || u64::try_from(database.number("SELECT count(*) FROM effects").await))
        .assert()
        .await;
    let names: Vec<&str> = report.points.iter().map(|point| point.name).collect();
    for name in [
        "begin.before",
        "handler.statement",
        "handler.after",
        "complete.before",
        "commit.after",
        "answer",
    ] {
        assert!(names.contains(&name), "{report}");
    }
    assert!(
        report
            .points
            .iter()
            .all(|point| point.end == CrashEnd::Answered),
        "{report}"
    );
}

/// A crash test of a handler that charges a card, with two instances and a provider.
struct Charged {
    database: Arc<TestDatabase>,
    ledger: Arc<TestDatabase>,
    provider: Arc<Provider>,
    states: Vec<AppState>,
}

impl Charged {
    async fn at(provider: Provider) -> Charged {
        let provider = Arc::new(provider);
        let database = Arc::new(TestDatabase::create(Backend::Sqlite).await);
        let ledger = Arc::new(TestDatabase::create(Backend::Sqlite).await);
        let create = "CREATE TABLE effects (n INTEGER NOT NULL)";
        database.execute(create).await.unwrap();
        ledger.execute(create).await.unwrap();
        let mut states = Vec::new();
        for _ in 0..2 {
            let pool = |database: Arc<TestDatabase>| async move {
                SqlitePoolOptions::new()
                    .connect(database.url())
                    .await
                    .unwrap()
            };
            let idempotency = Idempotency::builder(pool(database.clone()).await)
                .store_timeout(LEASE / 2)
                .lease(LEASE)
                .retry_pause(Duration::from_millis(20))
                .build()
                .unwrap();
            idempotency.migrate().await.unwrap();
            states.push(AppState {
                idempotency,
                provider: External::from_arc(provider.clone()),
                smuggled: Smuggled {
                    provider: provider.clone(),
                    ledger: pool(ledger.clone()).await,
                },
            });
        }
        Charged {
            database,
            ledger,
            provider,
            states,
        }
    }

    /// A test of the handler at `path`.
    fn crashes(&self, path: &'static str) -> Crashes {
        let instances = self.states.iter().cloned().map(charging::service).collect();
        let recovery = charging::recovery(&self.states[1]);
        let (database, ledger) = (self.database.clone(), self.ledger.clone());
        let watched = self.database.clone();
        Crashes::new(instances)
            .request(post_to(path))
            .effects(async move || {
                let count = "SELECT count(*) FROM effects";
                u64::try_from(database.number(count).await + ledger.number(count).await)
            })
            .recovery(async move || {
                // What is lost leaves its lease to end: handed over, it was taken for a panic.
                let lease = LEASE.as_millis();
                let handed_over = format!(
                    "SELECT count(*) FROM idem_operations WHERE attempt = 1 AND due_at < recorded_at + {lease}"
                );
                assert_eq!(watched.number(&handed_over).await, 0, "handed over after a crash");
                recovery.run_once().await
            })
    }

    /// The same, which counts what the provider charged.
    fn charging(&self, path: &'static str) -> Crashes {
        let provider = self.provider.clone();
        let charges = async move || Ok::<_, String>(provider.charges());
        self.crashes(path).calls(charges)
    }
}

fn honouring() -> Provider {
    Provider {
        honours_keys: true,
        ..Provider::default()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_charge_at_a_provider_that_honours_keys_survives_a_crash_at_each_point() {
    let charged = Charged::at(honouring()).await;
    let report = charged.charging("/by-key/alice").assert().await;
    let names: Vec<&str> = report.points.iter().map(|point| point.name).collect();
    for name in [
        "claim.before",
        "step.begin",
        "record.before",
        "call.before",
        "call.after",
        "complete.before",
    ] {
        assert!(names.contains(&name), "{report}");
    }
    assert_eq!(
        names.iter().filter(|name| **name == "step.begin").count(),
        2,
        "{report}"
    );
    assert!(
        report
            .points
            .iter()
            .all(|point| point.end == CrashEnd::Answered),
        "{report}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_charge_at_a_provider_that_can_be_asked_survives_a_crash_at_each_point() {
    let charged = Charged::at(Provider::default()).await;
    let report = charged.charging("/by-asking/alice").assert().await;
    assert!(
        report
            .points
            .iter()
            .all(|point| point.end == CrashEnd::Answered),
        "{report}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_charge_at_most_once_may_end_as_unknown_where_that_is_allowed() {
    let charged = Charged::at(Provider::default()).await;
    let crashes = charged.charging("/at-most-once/alice");
    let report = crashes.unknown_allowed().assert().await;
    let unknown = report
        .points
        .iter()
        .filter(|point| point.end == CrashEnd::Unknown);
    let unknown: Vec<&str> = unknown.map(|point| point.name).collect();
    assert!(
        unknown.contains(&"call.before") && unknown.contains(&"call.after"),
        "{report}"
    );
    assert!(
        !unknown.contains(&"claim.before") && !unknown.contains(&"answer"),
        "{report}"
    );
}

#[tokio::test]
async fn a_charge_at_most_once_fails_where_unknown_is_not_allowed() {
    let charged = Charged::at(Provider::default()).await;
    let violation = charged
        .charging("/at-most-once/alice")
        .check()
        .await
        .unwrap_err();
    assert!(
        matches!(
            violation,
            Violation::Unknown {
                phase: Phase::Crash { .. },
                ..
            }
        ),
        "{violation}"
    );
    assert!(
        violation.to_string().contains("unknown_allowed"),
        "{violation}"
    );
}

#[tokio::test]
async fn a_key_that_the_provider_does_not_honour_fails() {
    let charged = Charged::at(Provider::default()).await;
    let violation = charged.charging("/by-key/alice").check().await.unwrap_err();
    assert!(
        matches!(
            violation,
            Violation::Calls {
                phase: Phase::Crash {
                    point: "call.after",
                    ..
                },
                expected: 1,
                calls: 2,
                ..
            }
        ),
        "{violation}"
    );
}

#[tokio::test]
async fn a_call_outside_a_step_fails() {
    let charged = Charged::at(honouring()).await;
    let violation = charged
        .charging("/outside-a-step/alice")
        .check()
        .await
        .unwrap_err();
    assert!(
        matches!(
            violation,
            Violation::Calls {
                phase: Phase::Crash { .. },
                expected: 1,
                calls: 2,
                ..
            }
        ),
        "{violation}"
    );
}

#[tokio::test]
async fn a_write_beside_the_transaction_fails() {
    let charged = Charged::at(honouring()).await;
    let violation = charged.crashes("/beside/alice").check().await.unwrap_err();
    assert!(
        matches!(
            violation,
            Violation::Effects {
                phase: Phase::Crash {
                    point: "handler.after",
                    ..
                },
                expected: 1,
                effects: 2,
                ..
            }
        ),
        "{violation}"
    );
}

#[tokio::test]
async fn a_count_of_calls_that_stays_where_it_is_fails() {
    let charged = Charged::at(honouring()).await;
    let crashes = charged.crashes("/by-key/alice");
    let violation = crashes
        .calls(async || Ok::<_, String>(0))
        .check()
        .await
        .unwrap_err();
    assert!(
        matches!(
            violation,
            Violation::Calls {
                phase: Phase::Undisturbed,
                calls: 0,
                ..
            }
        ),
        "{violation}"
    );
}

#[tokio::test]
async fn an_operation_that_nobody_recovers_fails() {
    let charged = Charged::at(honouring()).await;
    let violation = charged
        .charging("/by-key/alice")
        .recovery(async || Err::<(), _>("on purpose"))
        .patience(LEASE * 2)
        .check()
        .await
        .unwrap_err();
    assert!(
        matches!(
            violation,
            Violation::NotRecovered {
                phase: Phase::Crash { .. },
                ..
            }
        ),
        "{violation}"
    );
    assert!(violation.to_string().contains("on purpose"), "{violation}");
}

#[tokio::test]
async fn a_route_without_a_point_proves_nothing_and_says_so() {
    let router = Router::new().route("/", post(async || StatusCode::CREATED));
    let counted = std::sync::atomic::AtomicU64::new(0);
    let violation = Crashes::new(vec![router])
        .request(post_to("/"))
        .effects(async move || {
            Ok::<_, String>(counted.fetch_add(1, std::sync::atomic::Ordering::SeqCst))
        })
        .check()
        .await
        .unwrap_err();
    assert!(violation.to_string().contains("no point"), "{violation}");
}
