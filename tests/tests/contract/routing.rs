//! Routes on which every write is declared, in process: what is reached, what is reported, what is refused at start.

mod reached;
mod report;
mod start;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::body::Body;
use axum::extract::{FromRef, FromRequestParts, Path, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, Request, StatusCode};
use idem_runtime::routing::Router;
use idem_runtime::{Idempotency, IdempotencyBuilder, Scope, Tx, idempotent, repeat_safe};
use idem_tests::servers::{Backend, TestDatabase};
use sqlx::Sqlite;
use sqlx::sqlite::SqlitePoolOptions;
use tower::ServiceExt;

#[derive(Clone, FromRef)]
struct App {
    idempotency: Idempotency<Sqlite>,
    runs: Runs,
}

/// How often a handler ran that writes nothing else.
#[derive(Clone, Default)]
struct Runs(Arc<AtomicUsize>);

impl Runs {
    fn add(&self) -> String {
        format!("run {}", self.0.fetch_add(1, Ordering::SeqCst) + 1)
    }

    fn number(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}

#[derive(idem_runtime::EffectFree, Scope)]
struct Account(String);

impl<S: Send + Sync> FromRequestParts<S> for Account {
    type Rejection = StatusCode;

    async fn from_request_parts(_: &mut Parts, _: &S) -> Result<Self, StatusCode> {
        Ok(Self("alice".to_owned()))
    }
}

#[idempotent(scope = "account", operation = "orders.create")]
async fn create(tx: &mut Tx<Sqlite>, account: Account) -> (StatusCode, String) {
    let id: i64 = sqlx::query_scalar("INSERT INTO orders (account) VALUES (?) RETURNING id")
        .bind(account.0)
        .fetch_one(&mut *tx)
        .await
        .expect("the order is kept");
    (StatusCode::CREATED, format!("order {id}"))
}

#[repeat_safe(conditional, why = "it is cancelled once", operation = "orders.cancel")]
async fn cancel(State(runs): State<Runs>, Path(id): Path<i64>) -> String {
    format!("{id}, {}", runs.add())
}

async fn list(State(runs): State<Runs>) -> String {
    runs.add()
}

struct Answer {
    status: StatusCode,
    headers: HeaderMap,
    body: String,
}

impl Answer {
    fn seen(&self) -> (u16, &str) {
        (self.status.as_u16(), &self.body)
    }
}

async fn send(router: &axum::Router, request: &str, fields: &[(&str, &str)]) -> Answer {
    let (method, path) = request.split_once(' ').expect("a method and a path");
    let mut request = Request::builder().method(method).uri(path);
    for (name, value) in fields {
        request = request.header(*name, *value);
    }
    let request = request.body(Body::empty()).expect("a valid request");
    let answer = router
        .clone()
        .oneshot(request)
        .await
        .unwrap_or_else(|never| match never {});
    let (parts, body) = answer.into_parts();
    let body = axum::body::to_bytes(body, usize::MAX)
        .await
        .expect("a whole body");
    Answer {
        status: parts.status,
        headers: parts.headers,
        body: String::from_utf8_lossy(&body).into_owned(),
    }
}

/// A state on a database of its own.
struct Set {
    app: App,
    _database: TestDatabase,
}

async fn set(
    configure: impl FnOnce(IdempotencyBuilder<Sqlite>) -> IdempotencyBuilder<Sqlite>,
) -> Set {
    let database = TestDatabase::create(Backend::Sqlite).await;
    database
        .execute("CREATE TABLE orders (id INTEGER PRIMARY KEY, account TEXT NOT NULL)")
        .await
        .expect("the table is made");
    let pool = SqlitePoolOptions::new()
        .acquire_timeout(std::time::Duration::from_secs(20))
        .connect(database.url())
        .await
        .expect("the database is there");
    let idempotency = configure(Idempotency::builder(pool))
        .build()
        .expect("the settings make sense");
    idempotency.migrate().await.expect("the schema is made");
    Set {
        app: App {
            idempotency,
            runs: Runs::default(),
        },
        _database: database,
    }
}

impl Set {
    fn serve(&self, router: Router<App>) -> axum::Router {
        router.with_state(self.app.clone()).into_axum()
    }
}
