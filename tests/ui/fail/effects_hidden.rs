//! Handles behind what types hide: trait objects, lazy and borrowed values, skipped fields, recursion, `macro_rules!`.
#![allow(unused)]

#[path = "../support.rs"]
mod support;
use support::*;

use axum::extract::ConnectInfo;
use sqlx::PgPool;
use std::any::Any;
use std::sync::{Arc, LazyLock, Weak};

macro_rules! takes {
    ($($name:ident: $ty:ty),* $(,)?) => {
        $(
            #[idempotent(scope = "account")]
            async fn $name(tx: &mut Tx<Sqlite>, account: Account, argument: $ty) -> StatusCode {
                StatusCode::CREATED
            }
        )*
    };
}

#[derive(Deserialize)]
struct SkippedOption {
    #[serde(skip)]
    pool: Option<PgPool>,
}

#[derive(Deserialize)]
struct SkippedClient {
    #[serde(skip)]
    client: reqwest::Client,
}

#[derive(Deserialize)]
struct SkippedCallback {
    #[serde(skip)]
    notify: Option<Arc<dyn Fn() + Send + Sync>>,
}

takes!(
    anything: State<Arc<dyn Any + Send + Sync>>,
    lazy: State<Arc<LazyLock<PgPool>>>,
    weak: State<Weak<PgPool>>,
    borrowed: State<&'static PgPool>,
    connection: ConnectInfo<PgPool>,
    transaction: State<Arc<Tx<Sqlite>>>,
    skipped_option: Option<Json<SkippedOption>>,
    skipped_client: Query<SkippedClient>,
    skipped_callback: Json<Vec<SkippedCallback>>,
    future: State<std::pin::Pin<Arc<dyn Future<Output = ()> + Send + Sync>>>,
);

// named as the type that it wraps
#[derive(EffectFree)]
struct Pool<DB: sqlx::Database> {
    inner: sqlx::Pool<DB>,
}

// holds itself, with a pool where the parameter is
#[derive(EffectFree)]
struct List<T> {
    next: Option<Box<List<PgPool>>>,
    value: T,
}

fn main() {}
