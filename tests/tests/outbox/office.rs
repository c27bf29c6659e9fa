//! Handlers that stage the letters that a request names, on each database.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex};

use axum::Router;
use axum::extract::FromRef;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use idem_runtime::{Backend, Idempotency, Tx};
use idem_tests::servers;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::sync::Semaphore;

/// What is staged.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Letter {
    pub(crate) topic: String,
    pub(crate) key: Option<String>,
    pub(crate) payload: Value,
    pub(crate) delay_ms: Option<u64>,
    pub(crate) headers: Vec<(String, String)>,
}

/// What a request asks its handler for.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Order {
    pub(crate) letters: Vec<Letter>,
    /// It waits here before it ends.
    pub(crate) gate: Option<String>,
    /// It ends with an error.
    pub(crate) refuse: bool,
}

/// Why it was not done.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Refused {
    Asked,
    Database(String),
}

impl From<sqlx::Error> for Refused {
    fn from(error: sqlx::Error) -> Self {
        Self::Database(error.to_string())
    }
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        match self {
            Self::Asked => (StatusCode::CONFLICT, "as asked".to_owned()).into_response(),
            Self::Database(text) => (StatusCode::UNPROCESSABLE_ENTITY, text).into_response(),
        }
    }
}

/// Gates by their names; each is closed until it is opened.
static GATES: LazyLock<Mutex<HashMap<String, Arc<Semaphore>>>> = LazyLock::new(Mutex::default);

pub(crate) fn gate(name: &str) -> Arc<Semaphore> {
    let mut gates = GATES.lock().expect("no holder panics");
    gates
        .entry(name.to_owned())
        .or_insert_with(|| Arc::new(Semaphore::new(0)))
        .clone()
}

pub(crate) struct App<DB: Backend> {
    pub(crate) idempotency: Idempotency<DB>,
}

impl<DB: Backend> Clone for App<DB> {
    fn clone(&self) -> Self {
        Self {
            idempotency: self.idempotency.clone(),
        }
    }
}

impl<DB: Backend> FromRef<App<DB>> for Idempotency<DB> {
    fn from_ref(app: &App<DB>) -> Self {
        app.idempotency.clone()
    }
}

async fn fill<DB: Backend>(tx: &mut Tx<DB>, order: &Order) -> Result<Vec<String>, Refused> {
    let mut ids = Vec::new();
    for letter in &order.letters {
        let mut message = tx.outbox().message(&letter.topic, &letter.payload);
        if let Some(key) = &letter.key {
            message = message.ordering_key(key);
        }
        if let Some(delay) = letter.delay_ms {
            message = message.delay(std::time::Duration::from_millis(delay));
        }
        for (name, value) in &letter.headers {
            message = message.header(name, value);
        }
        ids.push(message.stage().await?.to_string());
    }
    if let Some(name) = &order.gate {
        gate(&format!("{name}, reached")).add_permits(1);
        let passed = gate(name).acquire_owned().await;
        passed.expect("gates are not closed").forget();
    }
    if order.refuse {
        return Err(Refused::Asked);
    }
    Ok(ids)
}

/// What differs between the databases.
pub(crate) trait Tested: Backend {
    const BACKEND: servers::Backend;
    /// `POST /letters/{owner}`, and `POST /stepped/{owner}`, which stages in a step.
    fn router(app: App<Self>) -> Router;
    /// Makes all that waits due.
    fn all_due() -> &'static str;
}

macro_rules! tested {
    ($module:ident, $db:ty, $backend:ident, $past:literal) => {
        mod $module {
            use axum::extract::{Json, Path};
            use axum::routing::post;
            use idem_runtime::{Steps, Tx, idempotent};

            use super::*;

            #[idempotent(scope = "owner", timeout = "60s")]
            async fn letters(
                tx: &mut Tx<$db>,
                Path(owner): Path<String>,
                Json(order): Json<Order>,
            ) -> Result<Json<Vec<String>>, Refused> {
                fill(tx, &order).await.map(Json)
            }

            #[idempotent(scope = "owner", operation = "letters.stepped", timeout = "60s")]
            async fn stepped(
                steps: &mut Steps<$db, Refused>,
                Path(owner): Path<String>,
                Json(order): Json<Order>,
            ) -> Result<Json<Vec<String>>, Refused> {
                let ids = steps
                    .atomic("fill", async |tx: &mut Tx<$db>| fill(tx, &order).await)
                    .await?;
                Ok(Json(ids))
            }

            impl Tested for $db {
                const BACKEND: servers::Backend = servers::Backend::$backend;

                fn router(app: App<Self>) -> Router {
                    Router::new()
                        .route("/letters/{owner}", post(letters))
                        .route("/stepped/{owner}", post(stepped))
                        .with_state(app)
                }

                fn all_due() -> &'static str {
                    concat!("UPDATE idem_outbox SET state_at = ", $past)
                }
            }
        }
    };
}

tested!(postgres, sqlx::Postgres, PostgresFewest, "now()");
tested!(sqlite, sqlx::Sqlite, Sqlite, "0");
tested!(mysql, sqlx::MySql, MySql, "0");
