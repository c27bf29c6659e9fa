//! What a handler with recovery points, or its settings, got wrong: a clear error or a kept reason, and never a lost row.

use std::time::Duration;

use axum::Router;
use axum::extract::{FromRef, Path, State};
use axum::http::StatusCode;
use axum::routing::post;
use idem_runtime::operations::List;
use idem_runtime::steps::Unclassified;
use idem_runtime::{External, Idempotency, StartupError, Steps, Tx, idempotent};
use serde::{Deserialize, Serialize};
use sqlx::Sqlite;
use sqlx::sqlite::SqlitePoolOptions;

use super::setup::{Store, send};

/// Is stored without what reading it needs.
#[derive(Serialize, Deserialize)]
struct Lossy {
    #[serde(skip_serializing)]
    number: u8,
}

/// Counts what it is called for.
#[derive(Default)]
struct Service(std::sync::atomic::AtomicU64);

impl Service {
    async fn call(&self) -> Result<Lossy, Unclassified> {
        self.0.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        Ok(Lossy { number: 1 })
    }
}

#[derive(Clone, FromRef)]
struct AppState {
    idempotency: Idempotency<Sqlite>,
    service: External<Service>,
}

type Answer = Result<StatusCode, StatusCode>;

async fn effect(tx: &mut Tx<Sqlite>) -> Result<(), StatusCode> {
    sqlx::query("INSERT INTO effects (n) VALUES (1)")
        .execute(&mut *tx)
        .await
        .map(drop)
        .map_err(|_| StatusCode::INTERNAL_SERVER_ERROR)
}

#[idempotent(scope = "account", operation = "faults.first-result")]
async fn first_result(
    steps: &mut Steps<Sqlite, StatusCode>,
    Path(account): Path<String>,
) -> Answer {
    let Lossy { number } = steps
        .atomic("lossy", async |tx: &mut Tx<Sqlite>| {
            effect(tx).await?;
            Ok(Lossy { number: 1 })
        })
        .await?;
    unreachable!("the step of {account} stops the handler: {number}")
}

#[idempotent(scope = "account", operation = "faults.second-result")]
async fn second_result(
    steps: &mut Steps<Sqlite, StatusCode>,
    Path(account): Path<String>,
) -> Answer {
    steps
        .atomic("sound", async |tx: &mut Tx<Sqlite>| effect(tx).await)
        .await?;
    let Lossy { number } = steps
        .atomic("lossy", async |tx: &mut Tx<Sqlite>| {
            effect(tx).await?;
            Ok(Lossy { number: 1 })
        })
        .await?;
    unreachable!("the step of {account} stops the handler: {number}")
}

#[idempotent(scope = "account", operation = "faults.external-input")]
async fn external_input(
    steps: &mut Steps<Sqlite, StatusCode>,
    Path(account): Path<String>,
    State(service): State<External<Service>>,
) -> Answer {
    let called = steps
        .external("lossy", &service, Lossy { number: 1 })
        .at_most_once()
        .call(async |service: &Service, _, _: &Lossy| service.call().await)
        .await;
    unreachable!(
        "the step of {account} stops the handler: {}",
        called.is_ok()
    )
}

#[idempotent(scope = "account", operation = "faults.external-result")]
async fn external_result(
    steps: &mut Steps<Sqlite, StatusCode>,
    Path(account): Path<String>,
    State(service): State<External<Service>>,
) -> Answer {
    let called = steps
        .external("lossy", &service, ())
        .at_most_once()
        .call(async |service: &Service, _, ()| service.call().await)
        .await;
    unreachable!(
        "the step of {account} stops the handler: {}",
        called.is_ok()
    )
}

/// Another handler with a name that is taken.
mod namesake {
    use super::*;

    #[idempotent(scope = "account", operation = "faults.first-result")]
    pub(super) async fn another(
        steps: &mut Steps<Sqlite, StatusCode>,
        Path(account): Path<String>,
    ) -> Answer {
        steps.resource("account", account);
        Ok(StatusCode::CREATED)
    }
}

/// What became of one request.
struct Outcome {
    status: StatusCode,
    code: String,
    effects: i64,
    calls: u64,
    keys: i64,
    /// Of what is unresolved.
    reasons: Vec<String>,
}

async fn outcome(path: &str) -> Outcome {
    let store = Store::<Sqlite>::new().await;
    let idempotency = Idempotency::builder(store.idempotency.pool().clone())
        .max_attempts(1)
        .build()
        .unwrap();
    let service = std::sync::Arc::new(Service::default());
    let state = AppState {
        idempotency: idempotency.clone(),
        service: External::from_arc(service.clone()),
    };
    let router = Router::new()
        .route("/first-result/{account}", post(first_result))
        .route("/second-result/{account}", post(second_result))
        .route("/external-input/{account}", post(external_input))
        .route("/external-result/{account}", post(external_result))
        .with_state(state);
    let response = send(&router, path, "a key").await;
    let status = response.status();
    let body = axum::body::to_bytes(response.into_body(), 10_000)
        .await
        .unwrap();
    let body: serde_json::Value = serde_json::from_slice(&body).unwrap();
    let operations = idempotency.operations();
    let listed = operations.list(&List::all()).await.unwrap();
    Outcome {
        status,
        code: body["code"].as_str().unwrap().to_owned(),
        effects: store.effects().await,
        calls: service.0.load(std::sync::atomic::Ordering::SeqCst),
        keys: store.count("1 = 1").await,
        reasons: listed
            .into_iter()
            .map(|row| row.reason.unwrap_or_default())
            .collect(),
    }
}

#[tokio::test]
async fn a_first_result_that_cant_be_read_back_is_refused_and_leaves_nothing() {
    let outcome = outcome("/first-result/alice").await;
    assert_eq!(
        (outcome.status, outcome.code.as_str()),
        (
            StatusCode::INTERNAL_SERVER_ERROR,
            "idempotency-step-not-storable"
        )
    );
    assert_eq!(
        (outcome.effects, outcome.keys, outcome.reasons.len()),
        (0, 0, 0)
    );
}

#[tokio::test]
async fn a_later_result_that_cant_be_read_back_is_kept_with_the_reason() {
    let outcome = outcome("/second-result/alice").await;
    assert_eq!(
        (outcome.status, outcome.code.as_str()),
        (StatusCode::CONFLICT, "idempotency-outcome-unknown")
    );
    assert_eq!((outcome.effects, outcome.keys), (1, 1), "the sound step's");
    assert!(
        matches!(&outcome.reasons[..], [reason] if reason.contains("`lossy`")),
        "{:?}",
        outcome.reasons
    );
}

#[tokio::test]
async fn an_input_that_cant_be_read_back_is_refused_before_the_call() {
    let outcome = outcome("/external-input/alice").await;
    assert_eq!(
        (outcome.status, outcome.code.as_str()),
        (
            StatusCode::INTERNAL_SERVER_ERROR,
            "idempotency-step-not-storable"
        )
    );
    assert_eq!(
        (outcome.calls, outcome.keys, outcome.reasons.len()),
        (0, 0, 0)
    );
}

#[tokio::test]
async fn a_result_of_a_call_that_cant_be_read_back_is_kept_with_the_reason() {
    let outcome = outcome("/external-result/alice").await;
    assert_eq!(
        (outcome.status, outcome.code.as_str()),
        (StatusCode::CONFLICT, "idempotency-outcome-unknown")
    );
    assert_eq!((outcome.calls, outcome.keys), (1, 1));
    assert!(
        matches!(&outcome.reasons[..], [reason] if reason.contains("`lossy`")),
        "{:?}",
        outcome.reasons
    );
}

#[tokio::test]
async fn a_lease_that_ends_before_its_renewal_has_a_connection_is_refused_at_check() {
    let store = Store::<Sqlite>::new().await;
    let options = SqlitePoolOptions::new().acquire_timeout(Duration::from_secs(10));
    let pool = options.connect(store.database.url()).await.unwrap();
    let with = |lease| {
        Idempotency::builder(pool.clone())
            .lease(lease)
            .build()
            .unwrap()
    };
    let refused = with(Duration::from_millis(9_999))
        .check()
        .await
        .unwrap_err();
    assert!(
        matches!(refused, StartupError::LeaseTooShort { .. }),
        "{refused}"
    );
    assert!(refused.to_string().contains("raise `lease`"), "{refused}");
    with(Duration::from_secs(10)).check().await.unwrap();
}

#[tokio::test]
async fn a_lease_shorter_than_two_limits_of_the_store_is_refused_at_build() {
    let store = Store::<Sqlite>::new().await;
    let with = |lease| {
        Idempotency::builder(store.idempotency.pool().clone())
            .store_timeout(Duration::from_secs(1))
            .lease(lease)
            .build()
    };
    let refused = with(Duration::from_millis(1_999)).unwrap_err();
    assert!(matches!(refused, StartupError::Setting(_)), "{refused}");
    assert!(refused.to_string().contains("`lease`"), "{refused}");
    with(Duration::from_secs(2)).unwrap();
}

#[tokio::test]
#[should_panic(
    expected = "two handlers are the operation `faults.first-result`; give one another name"
)]
async fn two_handlers_with_one_name_cant_both_be_registered() {
    let store = Store::<Sqlite>::new().await;
    let state = AppState {
        idempotency: store.idempotency.clone(),
        service: External::new(Service::default()),
    };
    let recovery = store.idempotency.recovery(state);
    // The same again is no mistake.
    let recovery = recovery.register(first_result).register(first_result);
    let _ = recovery.register(namesake::another);
}
