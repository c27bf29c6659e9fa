//! The order service, as its clients and its unit tests see it.
#![cfg(feature = "sqlite")]
#![allow(clippy::unwrap_used)]

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, Request, StatusCode};
use axum::{Json, Router};
use http_body_util::BodyExt;
use idem_runtime::IdempotentHandler;
use orders::auth::Account;
use orders::database;
use orders::errors::ApiError;
use orders::orders::NewOrder;
use orders::state::{AppState, Prices};
use serde_json::{Value, json};
use tempfile::TempDir;
use tower::ServiceExt;
use uuid::Uuid;

/// A service on a database file of its own.
struct Service {
    router: Router,
    state: AppState,
    _directory: TempDir,
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
        let url = format!("sqlite:{}", directory.path().join("orders.db").display());
        let pool = database::connect(&url).await.unwrap();
        let state = AppState::start(pool).await.unwrap();
        Self {
            router: orders::router().with_state(state.clone()).into_axum(),
            state,
            _directory: directory,
        }
    }

    /// Sends a request of Alice's, with further header fields.
    async fn send(&self, request: &str, fields: &[(&str, &str)], body: Value) -> Answer {
        let (method, path) = request.split_once(' ').unwrap();
        let mut request = Request::builder()
            .method(method)
            .uri(path)
            .header("content-type", "application/json");
        if !fields.iter().any(|(name, _)| *name == "authorization") {
            request = request.header("authorization", "Bearer alice-token");
        }
        for (name, value) in fields {
            request = request.header(*name, *value);
        }
        let request = request.body(Body::from(body.to_string())).unwrap();
        let response = self.router.clone().oneshot(request).await.unwrap();
        let (parts, body) = response.into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        Answer {
            status: parts.status,
            headers: parts.headers,
            body: serde_json::from_slice(&body).unwrap_or(Value::Null),
        }
    }

    async fn order(&self, key: &str, item: &str) -> Answer {
        let order = json!({"item": item, "quantity": 2});
        self.send("POST /orders", &[("idempotency-key", key)], order)
            .await
    }

    async fn count(&self) -> i64 {
        database::count_orders(&self.state.pool).await.unwrap()
    }

    async fn credit(&self) -> i64 {
        sqlx::query_scalar("SELECT credit FROM accounts WHERE id = 'alice'")
            .fetch_one(&self.state.pool)
            .await
            .unwrap()
    }

    /// Moves the end of every stored answer into the past.
    async fn let_keys_expire(&self) {
        sqlx::query("UPDATE idem_keys SET expires_at = expires_at - 10 * 86400000, retain_until = retain_until - 10 * 86400000")
            .execute(&self.state.pool)
            .await
            .unwrap();
    }
}

#[tokio::test]
async fn an_order_sent_twice_is_one_order() {
    let service = Service::start().await;
    let credit = service.credit().await;
    let first = service.order("\"k\"", "book").await;
    let second = service.order("\"k\"", "book").await;
    assert_eq!(
        (first.status, second.status),
        (StatusCode::CREATED, StatusCode::CREATED)
    );
    assert_eq!((first.is_replayed(), second.is_replayed()), (false, true));
    assert_eq!(first.body, second.body);
    assert_eq!(service.count().await, 1);
    assert_eq!(service.credit().await, credit - 3000);
}

#[tokio::test]
async fn an_order_needs_a_key_and_a_known_account() {
    let service = Service::start().await;
    let order = json!({"item": "book", "quantity": 2});
    let keyless = service.send("POST /orders", &[], order.clone()).await;
    assert_eq!(keyless.status, StatusCode::BAD_REQUEST);
    let fields = [
        ("idempotency-key", "k"),
        ("authorization", "Bearer mallory-token"),
    ];
    let stranger = service.send("POST /orders", &fields, order).await;
    assert_eq!(stranger.status, StatusCode::UNAUTHORIZED);
    assert_eq!(service.count().await, 0);
}

#[tokio::test]
async fn a_retry_after_the_records_end_finds_the_first_order() {
    let service = Service::start().await;
    let first = service.order("k", "book").await;
    let credit = service.credit().await;
    service.let_keys_expire().await;
    let late = service.order("k", "book").await;
    assert_eq!(late.status, StatusCode::OK);
    assert!(!late.is_replayed());
    assert_eq!(late.body, first.body);
    assert_eq!((service.count().await, service.credit().await), (1, credit));
}

#[tokio::test]
async fn a_key_that_made_an_order_long_ago_makes_no_other() {
    let service = Service::start().await;
    service.order("k", "book").await;
    service.let_keys_expire().await;
    let other = service.order("k", "lamp").await;
    assert_eq!(other.status, StatusCode::CONFLICT);
    assert_eq!(service.count().await, 1);
}

#[tokio::test]
async fn a_declined_order_stays_declined() {
    let service = Service::start().await;
    let fields = [
        ("idempotency-key", "k"),
        ("authorization", "Bearer bob-token"),
    ];
    let desk = json!({"item": "desk", "quantity": 1});
    let first = service.send("POST /orders", &fields, desk.clone()).await;
    sqlx::query("UPDATE accounts SET credit = 1000000 WHERE id = 'bob'")
        .execute(&service.state.pool)
        .await
        .unwrap();
    let second = service.send("POST /orders", &fields, desk).await;
    for answer in [&first, &second] {
        assert_eq!(answer.status, StatusCode::PAYMENT_REQUIRED);
        assert_eq!(answer.headers["content-type"], "application/problem+json");
    }
    assert_eq!((first.is_replayed(), second.is_replayed()), (false, true));
    assert_eq!(first.body, second.body);
    assert_eq!(service.count().await, 0);
}

#[tokio::test]
async fn a_corrected_order_may_use_its_key() {
    let service = Service::start().await;
    let wrong = service.order("k", "bok").await;
    assert_eq!(wrong.status, StatusCode::UNPROCESSABLE_ENTITY);
    let corrected = service.order("k", "book").await;
    assert_eq!(corrected.status, StatusCode::CREATED);
}

#[tokio::test]
async fn an_order_is_paid_once_however_often_it_is_said() {
    let service = Service::start().await;
    let order = service.order("k", "book").await;
    let path = format!("/orders/{}", order.body["id"].as_str().unwrap());
    for _ in 0..2 {
        let paid = service
            .send(&format!("PUT {path}/pay"), &[], Value::Null)
            .await;
        assert_eq!(
            (paid.status, &paid.body["status"]),
            (StatusCode::OK, &json!("paid"))
        );
    }
    let bob = [("authorization", "Bearer bob-token")];
    let refused = service
        .send(&format!("PUT {path}/pay"), &bob, Value::Null)
        .await;
    assert_eq!(refused.status, StatusCode::NOT_FOUND);
    let shown = service.send(&format!("GET {path}"), &[], Value::Null).await;
    assert_eq!(shown.body["status"], "paid");
    let listed = service.send("GET /orders", &[], Value::Null).await;
    assert_eq!(listed.body, json!([shown.body]));
}

#[tokio::test]
async fn an_order_put_twice_is_one_order_and_never_changes() {
    let service = Service::start().await;
    let request = format!("PUT /orders/{}", Uuid::new_v4());
    let book = json!({"item": "book", "quantity": 2});
    let first = service.send(&request, &[], book.clone()).await;
    let second = service.send(&request, &[], book.clone()).await;
    assert_eq!(
        (first.status, second.status),
        (StatusCode::CREATED, StatusCode::OK)
    );
    assert_eq!(first.body, second.body);
    let lamp = json!({"item": "lamp", "quantity": 2});
    let other = service.send(&request, &[], lamp).await;
    let bob = [("authorization", "Bearer bob-token")];
    let stranger = service.send(&request, &bob, book).await;
    assert_eq!(
        (other.status, stranger.status),
        (StatusCode::CONFLICT, StatusCode::CONFLICT)
    );
    assert_eq!(service.count().await, 1);
}

#[tokio::test]
async fn a_profile_is_replaced_only_by_who_has_seen_it() {
    let service = Service::start().await;
    let name = json!({"name": "Alice B."});
    let blind = service.send("PUT /profile", &[], name.clone()).await;
    assert_eq!(blind.status, StatusCode::PRECONDITION_REQUIRED);

    let seen = service.send("GET /profile", &[], Value::Null).await;
    let fields = [("if-match", seen.headers["etag"].to_str().unwrap())];
    let first = service.send("PUT /profile", &fields, name.clone()).await;
    assert_eq!(
        (first.status, &first.body["revision"]),
        (StatusCode::OK, &json!(2))
    );
    let second = service.send("PUT /profile", &fields, name.clone()).await;
    assert_eq!(second.status, StatusCode::PRECONDITION_FAILED);

    let listed = [("if-match", "\"1\", \"2\"")];
    let third = service.send("PUT /profile", &listed, name.clone()).await;
    assert_eq!(third.headers["etag"], "\"3\"");
    let weak = service
        .send("PUT /profile", &[("if-match", "W/\"3\"")], name.clone())
        .await;
    assert_eq!(weak.status, StatusCode::PRECONDITION_FAILED);
    let any = service
        .send("PUT /profile", &[("if-match", "*")], name)
        .await;
    assert_eq!(any.status, StatusCode::OK);
}

#[tokio::test]
async fn a_name_set_twice_is_one_revision() {
    let service = Service::start().await;
    for _ in 0..2 {
        let set = service
            .send("PUT /profile/name", &[], json!({"name": "Al"}))
            .await;
        assert_eq!(set.body, json!({"name": "Al", "revision": 2}));
    }
}

#[tokio::test]
async fn a_revision_is_published_once_even_after_the_records_end() {
    let service = Service::start().await;
    let fields = [("idempotency-key", "k")];
    let first = service
        .send("POST /profile/publish", &fields, Value::Null)
        .await;
    let second = service
        .send("POST /profile/publish", &fields, Value::Null)
        .await;
    service.let_keys_expire().await;
    let late = service
        .send("POST /profile/publish", &fields, Value::Null)
        .await;
    assert_eq!((second.is_replayed(), late.is_replayed()), (true, false));
    for answer in [first, second, late] {
        assert_eq!(
            (answer.status, &answer.body["revision"]),
            (StatusCode::OK, &json!(2))
        );
        assert_eq!(answer.headers["etag"], "\"2\"");
    }
    let notifications: i64 = sqlx::query_scalar("SELECT count(*) FROM notifications")
        .fetch_one(&service.state.pool)
        .await
        .unwrap();
    assert_eq!(notifications, 1);
}

/// A unit test of a handler: without HTTP, it returns what its author wrote.
#[tokio::test]
async fn create_takes_the_total_from_the_credit() {
    let service = Service::start().await;
    let operation_id = Uuid::new_v4();
    let mut tx = service
        .state
        .idempotency
        .test_transaction(operation_id)
        .await
        .unwrap();
    let arguments = |quantity| {
        let item = "desk".to_owned();
        let new = NewOrder { item, quantity };
        (Account("alice".to_owned()), State(Prices), Json(new))
    };
    let (status, Json(order)) = orders::orders::create
        .invoke(&mut tx, arguments(4))
        .await
        .unwrap();
    assert_eq!((status, order.total), (StatusCode::CREATED, 100_000));
    let again = orders::orders::create
        .invoke(&mut tx, arguments(4))
        .await
        .unwrap();
    assert_eq!((again.0, again.1.id), (StatusCode::OK, order.id));
    let refused = orders::orders::create
        .invoke(&mut tx, arguments(0))
        .await
        .unwrap_err();
    assert!(matches!(refused, ApiError::Validation(_)));

    drop(tx);
    assert_eq!(service.count().await, 0);
}

#[test]
fn the_demo_ends_with_one_order() {
    let output = Command::new(env!("CARGO_BIN_EXE_orders"))
        .arg("--demo")
        .output()
        .unwrap();
    let story = String::from_utf8(output.stdout).unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{story}\n{errors}");
    assert!(
        story.contains("50 requests at once: 1 × 201, 49 × replayed"),
        "{story}"
    );
    assert!(story.ends_with("orders in the database: 1\n"), "{story}");
}

/// What changes here changes what a repeat does: it wants a review.
#[test]
fn the_report_says_what_a_repeat_of_each_request_does() {
    let output = Command::new(env!("CARGO_BIN_EXE_orders"))
        .arg("--report")
        .output()
        .unwrap();
    assert!(output.status.success());
    let report = String::from_utf8(output.stdout).unwrap();
    assert_eq!(report, include_str!("report.txt"));
}

#[test]
fn an_argument_that_is_unknown_prints_what_there_is() {
    let output = Command::new(env!("CARGO_BIN_EXE_orders"))
        .arg("--dmo")
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("orders --demo"));
}

#[test]
fn an_address_of_another_database_says_what_to_run() {
    let output = Command::new(env!("CARGO_BIN_EXE_orders"))
        .env("DATABASE_URL", "postgres://localhost/orders")
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(
        errors.contains("--no-default-features --features postgres"),
        "{errors}"
    );
}

#[test]
fn a_client_that_never_ends_its_request_does_not_keep_the_server() {
    let directory = tempfile::tempdir().unwrap();
    let mut server = Command::new(env!("CARGO_BIN_EXE_orders"))
        .env(
            "DATABASE_URL",
            format!("sqlite:{}", directory.path().join("orders.db").display()),
        )
        .env("ADDR", "127.0.0.1:0")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut greeting = String::new();
    BufReader::new(server.stdout.as_mut().unwrap())
        .read_line(&mut greeting)
        .unwrap();
    let address = greeting.trim().strip_prefix("listening on http://");
    let mut client = TcpStream::connect(address.unwrap()).unwrap();
    client
        .write_all(
            b"POST /orders HTTP/1.1\r\nHost: orders\r\nAuthorization: Bearer alice-token\r\n\
              Content-Type: application/json\r\nIdempotency-Key: half\r\nContent-Length: 99\r\n\r\n{",
        )
        .unwrap();
    std::thread::sleep(Duration::from_millis(300));
    let told = Command::new("kill").arg(server.id().to_string()).status();
    assert!(told.unwrap().success());
    let until = Instant::now() + Duration::from_secs(30);
    let ended = loop {
        match server.try_wait().unwrap() {
            None if Instant::now() < until => std::thread::sleep(Duration::from_millis(100)),
            ended => break ended,
        }
    };
    // It must not live on.
    let _ = server.kill();
    assert!(ended.is_some_and(|status| status.success()), "{ended:?}");
    drop(client);
}
