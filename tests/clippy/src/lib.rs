//! Leaks that only clippy sees, each line that it must refuse marked with `REFUSED`, and no other.

pub mod held;

use std::sync::OnceLock;

use axum::extract::Path;
use axum::http::StatusCode;
use idem_runtime::{Tx, idempotent};
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions, Connection, Sqlite, SqliteConnection, SqlitePool};
use std::fs::OpenOptions as Options;
use std::fs::write as save;
use tokio::spawn as start;
use tokio::sync::mpsc::Sender;
use tokio::sync::{Notify, watch};

static POOL: OnceLock<SqlitePool> = OnceLock::new();
static MAIL: OnceLock<Sender<String>> = OnceLock::new();
static EVENTS: OnceLock<std::sync::mpsc::Sender<String>> = OnceLock::new();
static STOCK: OnceLock<watch::Sender<u64>> = OnceLock::new();
static WAKE: Notify = Notify::const_new();

type Fallible<T> = Result<T, StatusCode>;

fn failed<E>(_: E) -> StatusCode {
    StatusCode::INTERNAL_SERVER_ERROR
}

/// Nothing in its name says what it is.
fn orders() -> &'static SqlitePool {
    POOL.get().expect("set at the start")
}

async fn insert(db: &mut SqliteConnection) -> Fallible<()> {
    sqlx::query("INSERT INTO orders DEFAULT VALUES")
        .execute(db)
        .await
        .map_err(failed)?;
    Ok(())
}

#[idempotent(scope = "account")]
pub async fn a_static_pool(tx: &mut Tx<Sqlite>, Path(account): Path<u64>) -> Fallible<String> {
    insert(tx).await?;
    let mut other = orders().acquire().await.map_err(failed)?; // REFUSED
    insert(&mut other).await?;
    let tried = orders().try_acquire(); // REFUSED
    drop(tried);
    let connect = SqliteConnection::connect; // REFUSED
    let mut third = connect("sqlite:orders.db").await.map_err(failed)?;
    insert(&mut third).await?;
    Ok(account.to_string())
}

#[idempotent(scope = "account")]
pub async fn a_renamed_import(tx: &mut Tx<Sqlite>, Path(account): Path<u64>) -> Fallible<String> {
    insert(tx).await?;
    start(async {}); // REFUSED
    save("orders.txt", account.to_string()).map_err(failed)?; // REFUSED
    Ok(account.to_string())
}

#[idempotent(scope = "account")]
pub async fn inside_join(tx: &mut Tx<Sqlite>, Path(account): Path<u64>) -> Fallible<String> {
    let (inserted, other) = tokio::join!(
        insert(tx),
        orders().acquire(), // REFUSED
    );
    inserted?;
    drop(other);
    Ok(account.to_string())
}

#[idempotent(scope = "account")]
pub async fn a_static_channel(tx: &mut Tx<Sqlite>, Path(account): Path<u64>) -> Fallible<String> {
    insert(tx).await?;
    if let Some(mail) = MAIL.get() {
        mail.send(account.to_string()).await.map_err(failed)?; // REFUSED
    }
    Ok(account.to_string())
}

#[idempotent(scope = "account")]
pub async fn other_channels(tx: &mut Tx<Sqlite>, Path(account): Path<u64>) -> Fallible<String> {
    insert(tx).await?;
    if let (Some(events), Some(stock)) = (EVENTS.get(), STOCK.get()) {
        events.send(account.to_string()).map_err(failed)?; // REFUSED
        stock.send_replace(account); // REFUSED
        WAKE.notify_one(); // REFUSED
    }
    Ok(account.to_string())
}

#[idempotent(scope = "account")]
pub async fn opened_by_options(tx: &mut Tx<Sqlite>, Path(account): Path<u64>) -> Fallible<String> {
    insert(tx).await?;
    let log = Options::new().append(true).open("orders.txt"); // REFUSED
    drop(log);
    let options = SqliteConnectOptions::new().filename("orders.db");
    let mut other = options.connect().await.map_err(failed)?; // REFUSED
    insert(&mut other).await?;
    let later = start::<std::future::Ready<()>>; // REFUSED
    later(std::future::ready(()));
    Ok(account.to_string())
}

#[idempotent(scope = "account")]
pub async fn with_a_reason(tx: &mut Tx<Sqlite>, Path(account): Path<u64>) -> Fallible<String> {
    insert(tx).await?;
    #[allow(clippy::disallowed_methods, reason = "pure, and too long for a worker thread")]
    let number = tokio::task::spawn_blocking(|| 7).await.map_err(failed)?;
    start(async {}); // REFUSED
    Ok(format!("{account}: {number}"))
}

#[idempotent(scope = "account")]
#[allow(clippy::disallowed_methods, reason = "it is told that the order may be undone")]
pub async fn all_with_a_reason(tx: &mut Tx<Sqlite>, Path(account): Path<u64>) -> Fallible<String> {
    insert(tx).await?;
    start(async {});
    tokio::spawn(async {});
    Ok(account.to_string())
}

/// No handler.
pub async fn a_worker() -> Fallible<()> {
    start(async {});
    let mut other = orders().acquire().await.map_err(failed)?;
    insert(&mut other).await?;
    save("orders.txt", "done").map_err(failed)
}
