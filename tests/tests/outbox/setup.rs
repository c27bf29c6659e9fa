//! An application on a database of its own.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::Request;
use idem_runtime::outbox::Relay;
use idem_runtime::{Idempotency, IdempotencyBuilder};
use idem_tests::http::fresh_key;
use idem_tests::servers::TestDatabase;
use serde_json::{Value, json};
use sqlx::pool::PoolOptions;
use tower::ServiceExt;

use crate::office::{App, Letter, Order, Tested};
use crate::publisher::Broker;

/// Makes each named case, an `async fn case<DB: Tested>()`, a test on every database.
#[macro_export]
macro_rules! on_each_database {
    ($($case:ident),* $(,)?) => {
        mod postgres { $crate::on_each_database!(@ sqlx::Postgres; $($case),*); }
        mod sqlite { $crate::on_each_database!(@ sqlx::Sqlite; $($case),*); }
        mod mysql { $crate::on_each_database!(@ sqlx::MySql; $($case),*); }
    };
    (@ $db:ty; $($case:ident),*) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $case() {
                super::$case::<$db>().await;
            }
        )*
    };
}

pub(crate) struct World<DB: Tested> {
    pub(crate) database: Arc<TestDatabase>,
    pub(crate) idempotency: Idempotency<DB>,
    router: Router,
}

impl<DB: Tested> World<DB> {
    pub(crate) async fn new() -> Self {
        Self::with(|builder| builder).await
    }

    pub(crate) async fn with(
        settings: impl FnOnce(IdempotencyBuilder<DB>) -> IdempotencyBuilder<DB>,
    ) -> Self {
        let database = Arc::new(TestDatabase::create(DB::BACKEND).await);
        Self::at(database, settings).await
    }

    /// Another process, as it were, on the same database.
    pub(crate) async fn beside(&self) -> Self {
        Self::at(self.database.clone(), |builder| builder).await
    }

    pub(crate) async fn at(
        database: Arc<TestDatabase>,
        settings: impl FnOnce(IdempotencyBuilder<DB>) -> IdempotencyBuilder<DB>,
    ) -> Self {
        let url = database.url().to_owned();
        Self::through(database, &url, settings).await
    }

    /// Reached by another URL than its own, as through a proxy.
    pub(crate) async fn through(
        database: Arc<TestDatabase>,
        url: &str,
        settings: impl FnOnce(IdempotencyBuilder<DB>) -> IdempotencyBuilder<DB>,
    ) -> Self {
        let pool = idem_runtime::guard(PoolOptions::<DB>::new())
            .max_connections(8)
            .connect(url)
            .await
            .unwrap();
        let builder = Idempotency::builder(pool).store_timeout(Duration::from_secs(10));
        let idempotency = settings(builder).build().unwrap();
        idempotency.migrate().await.unwrap();
        let router = DB::router(App {
            idempotency: idempotency.clone(),
        });
        Self {
            database,
            idempotency,
            router,
        }
    }

    /// A relay that tries again soon.
    pub(crate) fn relay(&self, broker: &Broker) -> Relay<DB> {
        self.idempotency
            .relay()
            .publisher(broker.clone())
            .backoff(Duration::from_millis(10), Duration::from_millis(50))
            .poll(Duration::from_millis(50))
            .lease(Duration::from_secs(2))
    }

    /// A request with a key of its own; its answer's status and body.
    pub(crate) async fn order(&self, order: &Order) -> (u16, Value) {
        self.request("/letters", &fresh_key(), order, &[]).await
    }

    pub(crate) async fn request(
        &self,
        path: &str,
        key: &str,
        order: &Order,
        headers: &[(&str, &str)],
    ) -> (u16, Value) {
        let mut request = Request::post(format!("{path}/alice"))
            .header("idempotency-key", format!("\"{key}\""))
            .header("content-type", "application/json");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Body::from(json!(order).to_string())).unwrap();
        let answer = self.router.clone().oneshot(request).await.unwrap();
        let status = answer.status().as_u16();
        let body = to_bytes(answer.into_body(), usize::MAX).await.unwrap();
        let text = || Value::String(String::from_utf8_lossy(&body).into_owned());
        (
            status,
            serde_json::from_slice(&body).unwrap_or_else(|_| text()),
        )
    }

    /// Stages letters that are to be staged. Their ids.
    pub(crate) async fn stage(&self, letters: Vec<Letter>) -> Vec<String> {
        let order = Order {
            letters,
            ..Order::default()
        };
        let (status, body) = self.order(&order).await;
        assert_eq!(status, 200, "{body}");
        serde_json::from_value(body).unwrap()
    }

    /// How many messages are in the database.
    pub(crate) async fn stored(&self) -> i64 {
        let all = "SELECT COUNT(*) FROM idem_outbox";
        self.database.number(all).await
    }
}

/// The `n`th letter of a key.
pub(crate) fn letter(key: &str, n: u64) -> Letter {
    Letter {
        topic: "orders.placed".to_owned(),
        key: Some(key.to_owned()),
        payload: json!({ "n": n }),
        ..Letter::default()
    }
}

/// A letter without a key.
pub(crate) fn postcard(topic: &str) -> Letter {
    Letter {
        topic: topic.to_owned(),
        ..Letter::default()
    }
}
