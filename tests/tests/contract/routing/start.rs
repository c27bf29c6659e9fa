//! What is refused at start, before the first request.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use idem_runtime::routing::{RoutingError, RoutingFault, post, put};

use super::*;

mod shops {
    use super::*;

    #[idempotent(scope = "account", operation = "orders.create")]
    pub(super) async fn open(tx: &mut Tx<Sqlite>, account: Account) {
        let _ = (tx, account);
    }

    #[repeat_safe(conditional, why = "it is opened once", operation = "orders.cancel")]
    pub(super) async fn cancel() {}
}

struct One;
struct Other;

impl One {
    #[idempotent(scope = "account")]
    async fn update(tx: &mut Tx<Sqlite>, account: Account) {
        let _ = (tx, account);
    }
}

impl Other {
    #[idempotent(scope = "account")]
    async fn update(tx: &mut Tx<Sqlite>, account: Account) {
        let _ = (tx, account);
    }
}

#[idempotent(scope = "account")]
async fn generic<T: serde::de::DeserializeOwned + idem_runtime::EffectFree>(
    tx: &mut Tx<Sqlite>,
    account: Account,
    body: axum::Json<T>,
) {
    let _ = (tx, account, body);
}

fn faults(router: Router<App>) -> Vec<RoutingFault> {
    let refused: Result<_, RoutingError> = router.try_into_axum();
    refused.map_or_else(|error| error.faults().to_vec(), |_| Vec::new())
}

#[test]
fn two_functions_of_one_name_are_refused_and_both_named() {
    let router = Router::<App>::new()
        .route("/orders", post(create))
        .nest("/shops", Router::new().route("/", post(shops::open)));
    let error = router
        .clone()
        .try_into_axum()
        .expect_err("two operations have one name");
    assert_eq!(
        error.to_string(),
        "two functions are the operation `orders.create`: `contract::routing::create` (POST /orders) and \
         `contract::routing::start::shops::open` (POST /shops); give one of them another name, `operation = \"..\"`"
    );
    let panic = catch_unwind(AssertUnwindSafe(|| router.into_axum())).expect_err("as axum does");
    let message = panic.downcast_ref::<String>().expect("a message");
    assert_eq!(*message, error.to_string());
}

#[test]
fn every_fault_is_shown_at_once() {
    let router = Router::<App>::new()
        .route("/orders", post(create).put(shops::open))
        .route("/cancel/{id}", put(cancel).post(shops::cancel));
    let error = router
        .try_into_axum()
        .expect_err("two names are taken twice");
    assert_eq!(error.faults().len(), 2);
    assert_eq!(error.to_string().lines().count(), 2);
}

#[test]
fn one_function_may_have_several_routes() {
    let router = Router::new()
        .route("/orders", post(create).put(create))
        .route("/old/orders", post(create))
        .route("/text", post(generic::<String>))
        .route("/number", post(generic::<u64>));
    assert_eq!(faults(router), []);
}

#[test]
fn functions_of_two_impls_are_two_functions() {
    let router = Router::new()
        .route("/one", post(One::update))
        .route("/other", post(Other::update));
    assert!(matches!(
        faults(router).as_slice(),
        [RoutingFault::DuplicateOperation { operation, .. }] if operation == "update"
    ));
}

#[idempotent(scope = "account", ttl = "5s")]
async fn short(tx: &mut Tx<Sqlite>, account: Account) {
    let _ = (tx, account);
}

#[idempotent(scope = "account", wait = "21s")]
async fn patient(tx: &mut Tx<Sqlite>, account: Account) {
    let _ = (tx, account);
}

#[idempotent(scope = "account", ttl = "5s", in_flight = "reject")]
async fn short_without_waiting(tx: &mut Tx<Sqlite>, account: Account) {
    let _ = (tx, account);
}

#[tokio::test]
async fn an_answer_that_expires_before_a_duplicate_stops_waiting_is_refused() {
    let set = set(|builder| builder).await;
    let router = Router::new().route("/", post(short).put(short_without_waiting));
    let found = faults(router.clone().with_state(set.app.clone()));
    assert!(
        matches!(
            found.as_slice(),
            [RoutingFault::TtlTooShort { operation, ttl, wait, .. }]
                if operation == "short" && *ttl == *wait && *wait == Duration::from_secs(5)
        ),
        "{found:?}"
    );
    // Without a state there are no defaults to compare with.
    assert_eq!(faults(router), []);
}

#[tokio::test]
async fn a_duplicate_that_waits_longer_than_the_pool_does_is_refused() {
    let set = set(|builder| builder).await;
    let router = Router::new().route("/", post(patient).put(create));
    let found = faults(router.with_state(set.app.clone()));
    assert!(
        matches!(
            found.as_slice(),
            [RoutingFault::WaitTooLong { operation, wait, acquire_timeout, .. }]
                if operation == "patient"
                    && (wait.as_secs(), acquire_timeout.as_secs()) == (21, 20)
        ),
        "{found:?}"
    );
    assert!(
        found[0]
            .to_string()
            .contains("(`contract::routing::start::patient`, POST /)")
    );
}
