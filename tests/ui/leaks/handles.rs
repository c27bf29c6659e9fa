//! Handles of every kind, in the state or an extension: one handler each.
#![allow(unused)]

#[path = "../support.rs"]
mod support;
use support::*;

use axum::extract::{ConnectInfo, Extension};
use std::sync::{Arc, atomic::AtomicBool, atomic::AtomicUsize};

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
    // ways to a connection
    borrowed_pool: Extension<&'static sqlx::SqlitePool>,
    taken: State<Arc<sqlx::pool::PoolConnection<Postgres>>>,
    options: State<sqlx::sqlite::SqliteConnectOptions>,
    other_options: Extension<Arc<sqlx::postgres::PgConnectOptions>>,
    pool_options: State<Arc<sqlx::postgres::PgPoolOptions>>,
    own_begin: State<sqlx::Transaction<'static, sqlx::MySql>>,
    builder: State<Arc<idem_runtime::IdempotencyBuilder<Sqlite>>>,
    // ways to another task, program or service
    stop: State<tokio::task::AbortHandle>,
    task: State<Arc<tokio::task::JoinHandle<()>>>,
    tracker: State<tokio_util::task::TaskTracker>,
    wake: State<Arc<tokio::sync::Notify>>,
    once: Extension<Arc<tokio::sync::oneshot::Sender<u8>>>,
    broadcast: State<tokio::sync::broadcast::Sender<u8>>,
    watch: State<Arc<tokio::sync::watch::Sender<u8>>>,
    unbounded: State<tokio::sync::mpsc::UnboundedSender<u8>>,
    bounded: State<std::sync::mpsc::SyncSender<u8>>,
    unix: State<Arc<tokio::net::UnixStream>>,
    datagram: ConnectInfo<Arc<std::os::unix::net::UnixDatagram>>,
    input: State<Arc<std::process::ChildStdin>>,
    program: State<Arc<std::process::Command>>,
    routes: State<Router>,
    // memory that is shared
    flag: State<&'static AtomicBool>,
    counter: State<Arc<[AtomicUsize]>>,
    cell: State<Arc<tokio::sync::OnceCell<u8>>>,
    lock: Extension<Arc<tokio::sync::RwLock<u8>>>,
);

fn main() {}
