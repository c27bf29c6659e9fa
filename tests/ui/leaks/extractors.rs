//! A handle that an extractor of the application's own brings.
#![allow(unused)]

#[path = "../support.rs"]
mod support;
use support::*;

use sqlx::SqlitePool;

/// Reads its part out of any state.
struct Database(SqlitePool);

impl<S: Send + Sync> FromRequestParts<S> for Database
where
    SqlitePool: FromRef<S>,
{
    type Rejection = StatusCode;

    async fn from_request_parts(_: &mut Parts, state: &S) -> Result<Self, StatusCode> {
        Ok(Self(SqlitePool::from_ref(state)))
    }
}

#[idempotent(scope = "account")]
async fn own(tx: &mut Tx<Sqlite>, account: Account, Database(pool): Database) -> StatusCode {
    StatusCode::CREATED
}

#[idempotent(scope = "account")]
async fn optional(tx: &mut Tx<Sqlite>, account: Account, database: Option<Database>) -> StatusCode {
    StatusCode::CREATED
}

/// Authentication that keeps the pool it asked.
#[derive(Clone)]
struct Session {
    user: u64,
    pool: SqlitePool,
}

/// Declared, and so checked.
#[derive(EffectFree)]
struct Context {
    user: u64,
    pool: SqlitePool,
}

/// A body with validation, and with what it is validated by.
struct Valid<T> {
    value: T,
    rules: std::sync::Arc<dyn Fn(&T) -> bool + Send + Sync>,
}

impl<S: Send + Sync, T: serde::de::DeserializeOwned> FromRequest<S> for Valid<T> {
    type Rejection = StatusCode;

    async fn from_request(_: axum::extract::Request, _: &S) -> Result<Self, StatusCode> {
        Err(StatusCode::BAD_REQUEST)
    }
}

#[idempotent(scope = "account")]
async fn validated(tx: &mut Tx<Sqlite>, account: Account, new: Valid<NewOrder>) -> StatusCode {
    StatusCode::CREATED
}

/// The handle is in what it answers when it fails.
#[derive(EffectFree)]
struct Lenient;

struct NotRead(SqlitePool);

impl<S: Send + Sync> FromRequestParts<S> for Lenient {
    type Rejection = NotRead;

    async fn from_request_parts(_: &mut Parts, _: &S) -> Result<Self, NotRead> {
        Ok(Self)
    }
}

impl IntoResponse for NotRead {
    fn into_response(self) -> Response {
        StatusCode::BAD_REQUEST.into_response()
    }
}

#[idempotent(scope = "account")]
async fn lenient(tx: &mut Tx<Sqlite>, account: Account, read: Result<Lenient, NotRead>) -> StatusCode {
    StatusCode::CREATED
}

#[derive(Deserialize)]
struct Skipped {
    item: String,
    #[serde(skip)]
    audit: Option<std::sync::Arc<dyn Fn(&str) + Send + Sync>>,
}

#[idempotent(scope = "account")]
async fn skipped(tx: &mut Tx<Sqlite>, account: Account, orders: Json<std::collections::HashMap<String, Skipped>>) -> StatusCode {
    StatusCode::CREATED
}

/// `Json` asks for no derive, but the derive checks what serde skips.
#[derive(Deserialize, EffectFree)]
struct Derived {
    item: String,
    #[serde(skip)]
    mail: Option<tokio::sync::mpsc::Sender<String>>,
}

#[idempotent(scope = "session.0.user")]
async fn as_the_scope(tx: &mut Tx<Sqlite>, session: axum::extract::Extension<Session>) -> StatusCode {
    StatusCode::CREATED
}

fn main() {}
