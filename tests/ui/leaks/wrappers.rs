//! A pool in wrappers: what holds it is what it is.
#![allow(unused)]

#[path = "../support.rs"]
mod support;
use support::*;

use axum::extract::Extension;
use axum::http::HeaderMap;
use sqlx::SqlitePool;
use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap, LinkedList, VecDeque};
use std::mem::ManuallyDrop;
use std::pin::Pin;
use std::sync::{Arc, LazyLock, OnceLock, Weak};
use std::task::Poll;

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

takes!(
    headers: HeaderMap<SqlitePool>,
    owned: State<Cow<'static, [SqlitePool]>>,
    boxed: State<Box<[SqlitePool]>>,
    array: State<[SqlitePool; 2]>,
    deep: State<(u8, (u8, Option<(u8, Vec<SqlitePool>)>))>,
    by_name: State<BTreeMap<String, Arc<SqlitePool>>>,
    as_key: Extension<HashMap<u8, u8, SqlitePool>>,
    queue: State<VecDeque<LinkedList<SqlitePool>>>,
    failed: State<Result<u8, SqlitePool>>,
    pinned: State<Pin<Arc<SqlitePool>>>,
    ready: State<Poll<SqlitePool>>,
    once: State<Arc<OnceLock<SqlitePool>>>,
    later: State<&'static LazyLock<SqlitePool>>,
    weak: Option<Extension<Weak<SqlitePool>>>,
    kept: State<Arc<ManuallyDrop<SqlitePool>>>,
    thread: State<&'static std::thread::LocalKey<SqlitePool>>,
    function: State<fn(u8) -> Option<SqlitePool>>,
    callback: State<fn(&SqlitePool)>,
    pairs: (Path<u8>, (State<Pricing>, State<SqlitePool>)),
    json: State<Json<SqlitePool>>,
    query: Extension<Query<SqlitePool>>,
);

fn main() {}
