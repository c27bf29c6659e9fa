//! For tests of your own handlers; behind the feature `testing`.
//!
//! [`Contract`] sends a handler what a bad network sends it, and counts the effects: retries, duplicates
//! at once, a key used for another request, answers that got lost. It is the only kind of test that
//! proves the contract: one that looks at answers alone passes a handler that replays and yet writes
//! twice, and one without concurrency passes a handler that checks and then inserts.
//!
//! [`begin`] gives a unit test the transaction that a handler is called with.
//!
//! ```
//! # #[cfg(feature = "sqlite")] {
//! use axum::body::Body;
//! use http::Request;
//! use idem_runtime::testing::Contract;
//! use sqlx::SqlitePool;
//!
//! async fn orders_are_created_once(instances: Vec<axum::Router>, watcher: SqlitePool) {
//!     let order = |key: &str, item: &str| {
//!         Request::post("/orders")
//!             .header("idempotency-key", format!("\"{key}\""))
//!             .header("content-type", "application/json")
//!             .body(Body::from(format!(r#"{{"item":"{item}"}}"#)))
//!             .expect("a request")
//!     };
//!     Contract::new(instances)
//!         .request(move |key| order(key, "book"))
//!         .changed(move |key| order(key, "lamp"))
//!         .effects(async move || {
//!             sqlx::query_scalar::<_, u32>("SELECT count(*) FROM orders")
//!                 .fetch_one(&watcher)
//!                 .await
//!                 .map(u64::from)
//!         })
//!         .assert()
//!         .await;
//! }
//! # }
//! ```
//!
//! It works on tokio runtimes of either flavour, with time that is not paused.

mod answer;
mod client;
mod contract;
mod phases;
mod violation;

use sqlx::Pool;

pub use answer::Answer;
pub use contract::{Contract, PhaseReport, Report};
pub use violation::{Phase, Violation};

use crate::backend::Backend;
use crate::idempotency::Idempotency;
use crate::tx::Tx;

/// A transaction to call a handler's function with; rolled back when it is dropped.
///
/// The function runs as the framework runs it, but for the key: there is no claim, and nothing is stored.
/// What it wrote can be read through the same transaction, and is gone after the test.
///
/// ```
/// # #[cfg(feature = "sqlite")] mod example {
/// use idem_runtime::{Idempotency, IdempotentHandler, Tx, idempotent, testing};
/// use sqlx::{Sqlite, SqlitePool};
/// # use axum::extract::Path;
///
/// #[idempotent(scope = "account")]
/// async fn close(tx: &mut Tx<Sqlite>, Path(account): Path<u64>) -> String {
///     format!("{account} is closed")
/// }
///
/// async fn closing_says_so(pool: SqlitePool) {
///     let mut tx = testing::begin(&pool).await;
///     let text = close.invoke(&mut tx, (Path(7),)).await;
///     assert_eq!(text, "7 is closed");
/// }
/// # }
/// ```
///
/// # Panics
///
/// If the database can't be reached, or no connection comes free within 1.5 seconds.
///
/// # Cancel safety
///
/// Cancel safe.
pub async fn begin<DB: Backend>(pool: &Pool<DB>) -> Tx<DB> {
    let idempotency = Idempotency::new(pool.clone());
    let operation_id =
        uuid::Builder::from_random_bytes(fastrand::u128(..).to_be_bytes()).into_uuid();
    // In a task of its own: a begin that is dropped half way would leave an open transaction behind.
    let begun = tokio::spawn(async move { idempotency.begin(operation_id).await });
    match begun.await {
        Ok(Ok(tx)) => tx,
        Ok(Err(error)) => panic!("a test's transaction could not begin: {error}"),
        Err(error) => panic!("a test's transaction could not begin: {error}"),
    }
}
