//! What goes on when a recovery worker is dropped or stopped, and when a service puts a call off.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::extract::{FromRef, Path, State};
use axum::http::StatusCode;
use axum::routing::post;
use idem_runtime::operations::{List, OperationState};
use idem_runtime::steps::{CallFailure, Classify, Recovered, Recovery, Retry};
use idem_runtime::{External, Idempotency, Steps, Tx, idempotent};
use idem_tests::wait::{PATIENCE, until};
use serde::{Deserialize, Serialize};
use sqlx::Sqlite;
use tokio::sync::Semaphore;

use super::setup::{Store, send};

/// The service says that it did nothing, and that it may later.
#[derive(Debug, Serialize, Deserialize)]
struct Busy(#[serde(skip)] Duration);

impl Classify for Busy {
    type Refusal = Self;

    fn classify(self) -> CallFailure<Self> {
        let after = Some(self.0);
        CallFailure::NotYet {
            refusal: self,
            after,
        }
    }
}

/// Answers when it is let.
struct Service {
    /// How much later the next calls are to come; the ones after them succeed.
    busy: Mutex<VecDeque<Duration>>,
    called: AtomicUsize,
    answers: Semaphore,
}

impl Service {
    async fn call(&self) -> Result<(), Busy> {
        self.called.fetch_add(1, Ordering::SeqCst);
        self.answers.acquire().await.unwrap().forget();
        match self.busy.lock().unwrap().pop_front() {
            Some(later) => Err(Busy(later)),
            None => Ok(()),
        }
    }
}

#[derive(Clone, FromRef)]
struct AppState {
    idempotency: Idempotency<Sqlite>,
    service: External<Service>,
}

#[idempotent(scope = "account", operation = "stopping.pay")]
async fn pay(
    steps: &mut Steps<Sqlite, StatusCode>,
    Path(account): Path<String>,
    State(service): State<External<Service>>,
) -> Result<String, StatusCode> {
    steps
        .atomic("reserve", async |tx: &mut Tx<Sqlite>| {
            sqlx::query("INSERT INTO effects (n) VALUES (1)")
                .execute(&mut *tx)
                .await
                .map(drop)
                .map_err(|_| StatusCode::INTERNAL_SERVER_ERROR)
        })
        .await?;
    steps
        .external("pay", &service, ())
        .at_most_once()
        .retry(Retry::times(2))
        .call(async |service: &Service, _, ()| service.call().await)
        .await
        .map_err(|Busy(_)| StatusCode::PAYMENT_REQUIRED)?;
    Ok(account)
}

/// Longer than a handler waits.
const LATER: Duration = Duration::from_millis(2_100);

struct Shop {
    store: Store<Sqlite>,
    state: AppState,
    service: Arc<Service>,
}

impl Shop {
    /// After a request whose call the service put off; it puts off so many calls in all.
    async fn put_off(calls: usize) -> Shop {
        let store = Store::<Sqlite>::new().await;
        let idempotency = Idempotency::builder(store.idempotency.pool().clone())
            .retry_pause(Duration::from_millis(1))
            .build()
            .unwrap();
        let service = Arc::new(Service {
            busy: Mutex::new(vec![LATER; calls].into()),
            called: AtomicUsize::new(0),
            answers: Semaphore::new(calls),
        });
        let state = AppState {
            idempotency,
            service: External::from_arc(service.clone()),
        };
        let shop = Shop {
            store,
            state,
            service,
        };
        let answer = shop.send().await;
        assert_eq!(answer.0, StatusCode::CONFLICT, "{answer:?}");
        assert_eq!(shop.called(), 1);
        shop
    }

    async fn send(&self) -> (StatusCode, String) {
        let router = Router::new()
            .route("/pay/{account}", post(pay))
            .with_state(self.state.clone());
        let response = send(&router, "/pay/alice", "a key").await;
        let status = response.status();
        let body = axum::body::to_bytes(response.into_body(), 10_000).await;
        (status, String::from_utf8_lossy(&body.unwrap()).into_owned())
    }

    fn called(&self) -> usize {
        self.service.called.load(Ordering::SeqCst)
    }

    fn recovery(&self) -> Recovery<Sqlite, AppState> {
        let recovery = self.state.idempotency.recovery(self.state.clone());
        recovery.every(Duration::from_millis(20)).register(pay)
    }

    async fn until_due(&self) {
        let operations = self.state.idempotency.operations();
        until("the call may be made", PATIENCE, async || {
            operations.unresolved().await.unwrap().due == 1
        })
        .await;
    }

    async fn until_called(&self, times: usize) {
        until("the service is called", PATIENCE, async || {
            self.called() == times
        })
        .await;
    }

    async fn until_completed(&self) {
        let operations = self.state.idempotency.operations();
        until("the operation has ended", PATIENCE, async || {
            let listed = operations.list(&List::all()).await.unwrap();
            let unknown = |state| state == OperationState::Unknown;
            assert!(!listed.iter().any(|row| unknown(row.state)), "{listed:?}");
            listed.is_empty()
        })
        .await;
        assert_eq!(self.send().await, (StatusCode::OK, "alice".to_owned()));
        assert_eq!((self.called(), self.store.effects().await), (2, 1));
    }
}

#[tokio::test]
async fn a_call_that_is_put_off_for_long_is_recorded_as_not_made_and_made_later() {
    let shop = Shop::put_off(1).await;
    let recovered = shop.recovery().run_once().await.unwrap();
    assert_eq!(recovered, [], "not before the service said");
    shop.until_due().await;
    shop.service.answers.add_permits(1);
    let recovered = shop.recovery().run_once().await.unwrap();
    assert_eq!(recovered, [Recovered::Completed]);
    shop.until_completed().await;
}

#[tokio::test]
async fn calls_that_are_put_off_are_counted_over_all_attempts() {
    let shop = Shop::put_off(3).await;
    for expected in [Recovered::Later, Recovered::Completed] {
        shop.until_due().await;
        let recovered = shop.recovery().run_once().await.unwrap();
        assert_eq!(recovered, [expected]);
    }
    assert_eq!(shop.called(), 3, "once, and two retries");
    assert_eq!(shop.send().await.0, StatusCode::PAYMENT_REQUIRED);
}

#[tokio::test]
async fn what_a_dropped_recovery_has_begun_goes_on() {
    let shop = Shop::put_off(1).await;
    shop.until_due().await;
    let recovery = shop.recovery();
    tokio::select! {
        recovered = recovery.run_once() => panic!("it waits for the call: {recovered:?}"),
        () = shop.until_called(2) => {}
    }
    shop.service.answers.add_permits(1);
    shop.until_completed().await;
}

#[tokio::test]
async fn a_worker_that_is_stopped_waits_for_a_call_that_cant_be_made_again() {
    let shop = Shop::put_off(1).await;
    shop.until_due().await;
    let worker = shop.recovery().spawn();
    shop.until_called(2).await;
    let stopped = tokio::spawn(worker.stop());
    // It gives up what else runs after ten seconds.
    tokio::time::sleep(Duration::from_secs(11)).await;
    assert!(!stopped.is_finished());
    shop.service.answers.add_permits(1);
    tokio::time::timeout(PATIENCE, stopped)
        .await
        .expect("it stops once the call has ended")
        .unwrap();
    shop.until_completed().await;
}
