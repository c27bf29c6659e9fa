//! The payment service, as its clients see it, beside a provider that really answers.
#![cfg(feature = "sqlite")]
#![allow(clippy::unwrap_used)]

use axum::Router;
use axum::body::Body;
use axum::http::{HeaderMap, Request, StatusCode};
use http_body_util::BodyExt;
use idem_runtime::operations::{Decision, List, OperationsError, Seen};
use idem_runtime::steps::Recovered;
use payments::database;
use payments::gateway::Gateway;
use payments::provider::{self, Entry, Ledger};
use payments::state::AppState;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::net::TcpListener;
use tower::ServiceExt;

/// A service on a database file of its own, with a provider of its own.
struct Service {
    router: Router,
    state: AppState,
    directory: TempDir,
}

struct Answer {
    status: StatusCode,
    headers: HeaderMap,
    body: Value,
}

impl Answer {
    fn is_replayed(&self) -> bool {
        self.headers.contains_key("idempotent-replayed")
    }
}

impl Service {
    async fn start() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let provider = provider::router(&directory.path().join("ledger")).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        tokio::spawn(async move { axum::serve(listener, provider).await });
        Self::beside(directory, &url).await
    }

    /// With a provider that does not listen.
    async fn alone() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        drop(listener);
        Self::beside(tempfile::tempdir().unwrap(), &url).await
    }

    async fn beside(directory: TempDir, provider: &str) -> Self {
        let path = directory.path().join("payments.db");
        let pool = database::connect(&format!("sqlite:{}", path.display()))
            .await
            .unwrap();
        let gateway = Gateway::new(provider).unwrap();
        let state = AppState::start(pool, gateway).await.unwrap();
        Self {
            router: payments::router().with_state(state.clone()).into_axum(),
            state,
            directory,
        }
    }

    async fn send(&self, request: &str, who: &str, key: &str, body: Value) -> Answer {
        let (method, path) = request.split_once(' ').unwrap();
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("content-type", "application/json")
            .header("authorization", format!("Bearer {who}-token"))
            .header("idempotency-key", key)
            .body(Body::from(body.to_string()))
            .unwrap();
        let response = self.router.clone().oneshot(request).await.unwrap();
        let (parts, body) = response.into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        Answer {
            status: parts.status,
            headers: parts.headers,
            body: serde_json::from_slice(&body).unwrap_or(Value::Null),
        }
    }

    /// Sends a payment of Alice's.
    async fn pay(&self, path: &str, key: &str, source: &str) -> Answer {
        let payment = json!({"item": "book", "source": source});
        self.send(&format!("POST {path}"), "alice", key, payment)
            .await
    }

    async fn get(&self, path: &str, who: &str) -> Value {
        let request = format!("GET {path}");
        self.send(&request, who, "unused", Value::Null).await.body
    }

    /// The provider's file, as it is after a restart.
    fn ledger(&self) -> Vec<Entry> {
        let path = self.directory.path().join("ledger");
        Ledger::open(&path).unwrap().entries()
    }

    fn payments(&self) -> Vec<String> {
        let entries = self.ledger().into_iter();
        entries.filter_map(|entry| entry.payment).collect()
    }

    async fn stock(&self) -> i64 {
        sqlx::query_scalar("SELECT stock FROM items WHERE name = 'book'")
            .fetch_one(&self.state.pool)
            .await
            .unwrap()
    }

    async fn receipts(&self) -> i64 {
        database::count_receipts(&self.state.pool).await.unwrap()
    }

    /// The only operation that has not ended.
    async fn unfinished(&self) -> Seen {
        let operations = self.state.idempotency.operations();
        let [operation] = &operations.list(&List::all()).await.unwrap()[..] else {
            panic!("one should be unfinished");
        };
        operation.seen
    }

    async fn resolve(&self, seen: Seen, decision: Decision) -> Result<(), OperationsError> {
        let operations = self.state.idempotency.operations();
        operations
            .resolve(seen, decision, "operator", "looked into the books")
            .await
    }
}

const PATHS: [&str; 3] = ["/charges", "/debits", "/redemptions"];

#[tokio::test]
async fn a_payment_sent_twice_is_one_payment() {
    for path in PATHS {
        let service = Service::start().await;
        let stock = service.stock().await;
        let first = service.pay(path, "k", "tok_visa").await;
        let second = service.pay(path, "k", "tok_visa").await;
        assert_eq!(
            (first.status, second.status),
            (StatusCode::CREATED, StatusCode::CREATED)
        );
        assert_eq!((first.is_replayed(), second.is_replayed()), (false, true));
        assert_eq!(first.body, second.body);
        assert_eq!(first.body["payment"], service.payments()[0]);
        assert_eq!(service.ledger().len(), 1, "{path}");
        assert_eq!(
            (service.stock().await, service.receipts().await),
            (stock - 1, 1)
        );
    }
}

#[tokio::test]
async fn a_declined_card_stays_declined_and_gives_back_what_was_reserved() {
    for path in PATHS {
        let service = Service::start().await;
        let stock = service.stock().await;
        let first = service.pay(path, "k", "tok_declined").await;
        let second = service.pay(path, "k", "tok_declined").await;
        for answer in [&first, &second] {
            assert_eq!(answer.status, StatusCode::PAYMENT_REQUIRED);
            assert_eq!(answer.body["detail"], "nothing was paid: card_declined");
        }
        assert_eq!((first.is_replayed(), second.is_replayed()), (false, true));
        assert_eq!(
            (service.ledger().len(), service.payments().len()),
            (1, 0),
            "{path}"
        );
        assert_eq!(
            (service.stock().await, service.receipts().await),
            (stock, 0)
        );
        let orders = service.get("/orders", "alice").await;
        assert_eq!(orders[0]["status"], "cancelled");
    }
}

#[tokio::test]
async fn what_is_not_in_stock_leaves_the_key_free() {
    let service = Service::start().await;
    let sold = json!({"item": "desk", "source": "tok_visa"});
    let refused = service.send("POST /charges", "alice", "k", sold).await;
    assert_eq!(refused.status, StatusCode::UNPROCESSABLE_ENTITY);
    assert_eq!(service.ledger(), []);
    let corrected = service.pay("/charges", "k", "tok_visa").await;
    assert_eq!(corrected.status, StatusCode::CREATED);
}

#[tokio::test]
async fn a_busy_provider_is_called_again_by_the_same_request() {
    for path in PATHS {
        let service = Service::start().await;
        let answer = service.pay(path, "k", "tok_busy").await;
        assert_eq!(answer.status, StatusCode::CREATED);
        assert_eq!((service.ledger().len(), service.payments().len()), (2, 1));
    }
}

#[tokio::test]
async fn a_provider_that_cant_be_reached_is_paid_nothing() {
    let service = Service::alone().await;
    let stock = service.stock().await;
    let answer = service.pay("/redemptions", "k", "tok_visa").await;
    assert_eq!(answer.status, StatusCode::PAYMENT_REQUIRED);
    assert_eq!(
        answer.body["detail"],
        "nothing was paid: provider_unavailable"
    );
    assert_eq!(service.stock().await, stock);
}

#[tokio::test]
async fn after_a_lost_answer_a_card_is_charged_again_with_the_same_key() {
    let service = Service::start().await;
    let answer = service.pay("/charges", "k", "tok_lost").await;
    assert_eq!(answer.status, StatusCode::CREATED);
    let [first, second] = &service.ledger()[..] else {
        panic!("there should be two requests");
    };
    assert_eq!(first.reference, second.reference);
    assert_eq!(
        service.payments(),
        [answer.body["payment"].as_str().unwrap()]
    );
}

#[tokio::test]
async fn after_a_lost_answer_a_debit_is_found_by_its_reference() {
    let service = Service::start().await;
    let answer = service.pay("/debits", "k", "tok_lost").await;
    assert_eq!(answer.status, StatusCode::CREATED);
    assert_eq!(service.ledger().len(), 1);
    assert_eq!(
        service.payments(),
        [answer.body["payment"].as_str().unwrap()]
    );
}

#[tokio::test]
async fn a_debit_that_is_not_found_is_not_made_again_while_the_first_may_still_arrive() {
    let service = Service::start().await;
    let answer = service.pay("/debits", "k", "tok_cut").await;
    assert_eq!(answer.status, StatusCode::CONFLICT);
    assert_eq!(answer.body["code"], "idempotency-key-in-progress");
    let recovery = payments::recovery(&service.state);
    assert_eq!(recovery.run_once().await.unwrap(), []);
    assert_eq!(service.ledger().len(), 1);
    let unfinished = service.get("/operations", "alice").await;
    assert_eq!(unfinished[0]["state"], "started");
}

#[tokio::test]
async fn after_a_lost_answer_a_redemption_is_unknown_until_an_operator_resolves_it() {
    let service = Service::start().await;
    for _ in 0..2 {
        let answer = service.pay("/redemptions", "k", "tok_lost").await;
        assert_eq!(answer.status, StatusCode::CONFLICT);
        assert_eq!(answer.body["code"], "idempotency-outcome-unknown");
        let link = answer.headers["link"].to_str().unwrap();
        let path = link.strip_prefix('<').and_then(|link| link.split_once('>'));
        let (path, relation) = path.unwrap();
        assert_eq!(relation, "; rel=\"status\"");
        let status = service.get(path, "alice").await;
        assert_eq!(status, json!({ "state": "unknown" }));
    }
    let recovery = payments::recovery(&service.state);
    assert_eq!(recovery.run_once().await.unwrap(), []);
    assert_eq!(service.ledger().len(), 1);

    let done = Decision::Done(json!({ "id": service.payments()[0] }));
    let seen = service.unfinished().await;
    service.resolve(seen, done).await.unwrap();
    assert_eq!(recovery.run_once().await.unwrap(), [Recovered::Completed]);
    let answer = service.pay("/redemptions", "k", "tok_lost").await;
    assert_eq!(answer.status, StatusCode::CREATED);
    assert!(answer.is_replayed());
    assert_eq!(answer.body["payment"], service.payments()[0]);
    assert_eq!((service.ledger().len(), service.receipts().await), (1, 1));
}

#[tokio::test]
async fn an_operator_can_say_only_later_that_nothing_was_redeemed() {
    let service = Service::start().await;
    service.pay("/redemptions", "k", "tok_lost").await;
    let refused = Decision::Refused(json!({ "code": "not_in_the_books" }));
    let early = service.resolve(service.unfinished().await, refused).await;
    assert!(
        matches!(early, Err(OperationsError::StillInFlight { .. })),
        "{early:?}"
    );
}

#[tokio::test]
async fn a_payment_that_has_not_ended_is_shown_to_its_owner_alone() {
    let service = Service::start().await;
    service.pay("/redemptions", "k", "tok_lost").await;
    let own = service.get("/operations", "alice").await;
    assert_eq!(own[0]["operation"], "redemptions.create");
    assert_eq!(own[0]["state"], "unknown");
    assert_eq!(service.get("/operations", "bob").await, json!([]));
}

#[tokio::test]
async fn a_key_whose_record_is_gone_pays_nothing_again() {
    let service = Service::start().await;
    service.pay("/charges", "k", "tok_visa").await;
    sqlx::query("DELETE FROM idem_keys")
        .execute(&service.state.pool)
        .await
        .unwrap();
    let late = service.pay("/charges", "k", "tok_visa").await;
    assert_eq!(late.status, StatusCode::CONFLICT);
    assert_eq!(service.ledger().len(), 1);
}

#[tokio::test]
async fn a_key_past_its_ttl_pays_nothing_again() {
    let service = Service::start().await;
    service.pay("/charges", "k", "tok_visa").await;
    sqlx::query("UPDATE idem_keys SET expires_at = expires_at - 8 * 86400000, retain_until = retain_until - 8 * 86400000")
        .execute(&service.state.pool)
        .await
        .unwrap();
    let late = service.pay("/charges", "k", "tok_visa").await;
    assert_eq!(late.status, StatusCode::GONE);
    assert_eq!(service.ledger().len(), 1);
}
