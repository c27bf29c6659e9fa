//! Handles first uses of as many keys as it is told to, and prints how much memory it has before and after.
//!
//! `keys WARM_UP KEYS`: keys that are used before the first look, and between the first and the second.

use std::error::Error;
use std::sync::atomic::{AtomicU64, Ordering};

use axum::Router;
use axum::body::Body;
use axum::extract::{FromRef, Path};
use axum::http::{Request, StatusCode};
use axum::routing::post;
use futures_util::future::try_join_all;
use idem_runtime::{Idempotency, Tx, idempotent};
use sqlx::Sqlite;
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous};
use tower::ServiceExt;

#[derive(Clone, FromRef)]
struct App {
    idempotency: Idempotency<Sqlite>,
}

#[idempotent(scope = "account")]
async fn note(_tx: &mut Tx<Sqlite>, Path(account): Path<u64>) -> (StatusCode, String) {
    (StatusCode::CREATED, format!("a note of {account}"))
}

/// Uses so many keys, none of which comes twice.
async fn use_keys(app: &Router, keys: u64) -> Result<(), Box<dyn Error>> {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let users = (0..4).map(async |_| {
        for _ in 0..keys / 4 {
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            let request = Request::post(format!("/notes/{}", number % 1000))
                .header("idempotency-key", format!("\"key-{number:024}\""))
                .body(Body::empty())?;
            let status = app.clone().oneshot(request).await?.status();
            if status != StatusCode::CREATED {
                return Err(Box::<dyn Error>::from(format!("answered {status}")));
            }
        }
        Ok(())
    });
    try_join_all(users).await.map(drop)
}

/// What the process has in memory, in bytes.
fn resident() -> Result<u64, Box<dyn Error>> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kibibytes = line.and_then(|line| line.split_whitespace().next());
    Ok(kibibytes.ok_or("no VmRSS")?.parse::<u64>()? * 1024)
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let mut number = || {
        arguments
            .next()
            .ok_or("keys WARM_UP KEYS")?
            .parse::<u64>()
            .map_err(Box::<dyn Error>::from)
    };
    let (warm_up, keys) = (number()?, number()?);
    let directory = tempfile::TempDir::new()?;
    let options = SqliteConnectOptions::new()
        .filename(directory.path().join("keys.db"))
        .create_if_missing(true)
        .journal_mode(SqliteJournalMode::Wal)
        .synchronous(SqliteSynchronous::Off)
        // SQLite's own cache, in KiB: it grows until it is full, whenever a second connection is first used.
        .pragma("cache_size", "-200");
    let pool = SqlitePoolOptions::new()
        .max_connections(2)
        .connect_with(options)
        .await?;
    let idempotency = Idempotency::new(pool);
    idempotency.migrate().await?;
    let app = Router::new()
        .route("/notes/{account}", post(note))
        .with_state(App { idempotency });
    use_keys(&app, warm_up).await?;
    let before = resident()?;
    use_keys(&app, keys).await?;
    println!("{before} {}", resident()?);
    Ok(())
}
