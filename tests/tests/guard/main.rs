//! What gets past the compiler and is found at run time: a connection beside the transaction, and a transaction that
//! the handler ended. Each leak is in a helper, where no lint of a handler's body looks.

mod cases;
mod hooks;
mod leaks;
mod reached;

use std::collections::HashMap;
use std::io::Write;
use std::sync::{Arc, LazyLock, Mutex};

use axum::body::Body;
use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{Request, StatusCode};
use axum::response::IntoResponse;
use axum::{Router, response::Response};
use idem_tests::servers::{Backend, TestDatabase};
use idem_tests::wait::{PATIENCE, until};
use tower::ServiceExt;

/// Whose key it is, and which test's database: the `authorization` field's text.
#[derive(idem_runtime::EffectFree, idem_runtime::Scope)]
struct Account(String);

impl<S: Send + Sync> FromRequestParts<S> for Account {
    type Rejection = StatusCode;
    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, StatusCode> {
        let token = parts.headers.get("authorization");
        token
            .and_then(|token| token.to_str().ok())
            .map(|token| Self(token.to_owned()))
            .ok_or(StatusCode::UNAUTHORIZED)
    }
}

#[derive(Debug)]
struct Failed(sqlx::Error);

impl From<sqlx::Error> for Failed {
    fn from(error: sqlx::Error) -> Self {
        Self(error)
    }
}

impl IntoResponse for Failed {
    fn into_response(self) -> Response {
        (StatusCode::IM_A_TEAPOT, self.0.to_string()).into_response()
    }
}

/// Answers of one path with one key, or with none.
async fn post(app: &Router, path: &str, account: &str, key: Option<&str>) -> (u16, String) {
    let mut request = Request::post(path).header("authorization", account);
    if let Some(key) = key {
        request = request.header("idempotency-key", key);
    }
    let request = request.body(Body::empty()).expect("a valid request");
    let response = app
        .clone()
        .oneshot(request)
        .await
        .unwrap_or_else(|never| match never {});
    let status = response.status().as_u16();
    let body = axum::body::to_bytes(response.into_body(), usize::MAX)
        .await
        .expect("a whole body");
    (status, String::from_utf8_lossy(&body).into_owned())
}

/// What was logged while it is held, on this thread.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    fn listen(&self) -> tracing::subscriber::DefaultGuard {
        let log = self.clone();
        let subscriber = tracing_subscriber::fmt()
            .with_ansi(false)
            .with_writer(move || log.clone())
            .finish();
        tracing::subscriber::set_default(subscriber)
    }

    fn text(&self) -> String {
        let written = self.0.lock().expect("no writer panics").clone();
        String::from_utf8(written).expect("events are text")
    }
}

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0
            .lock()
            .expect("no writer panics")
            .extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

macro_rules! backend {
    ($name:ident, $db:ty, $connection:ty, $backend:expr) => {
        mod $name {
            use super::*;

            crate::leaks::leaks!($db, $connection, $backend);
            crate::cases::cases!($db, $backend);
            crate::reached::reached!($db, $connection, $backend);
        }
    };
}

backend!(
    postgres,
    sqlx::Postgres,
    sqlx::PgConnection,
    Backend::Postgres
);
backend!(
    postgres_fewest,
    sqlx::Postgres,
    sqlx::PgConnection,
    Backend::PostgresFewest
);
backend!(
    sqlite,
    sqlx::Sqlite,
    sqlx::SqliteConnection,
    Backend::Sqlite
);
backend!(mysql, sqlx::MySql, sqlx::MySqlConnection, Backend::MySql);
