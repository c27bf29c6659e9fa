//! For tests of your own handlers; behind the feature `testing`.
//!
//! [`Contract`] sends a handler what a bad network sends it, and counts the effects: retries, duplicates
//! at once, a key used for another request, answers that got lost. It is the only kind of test that
//! proves the contract: one that looks at answers alone passes a handler that replays and yet writes
//! twice, and one without concurrency passes a handler that checks and then inserts.
//!
//! [`Crashes`] runs a handler with a crash at each of its statements and steps, lets it recover, and counts the effects.
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
mod count;
mod crashes;
mod phases;
mod transaction;
mod trial;
mod violation;

pub use answer::Answer;
pub use contract::{Contract, PhaseReport, Report};
pub use crashes::{CrashEnd, CrashPoint, CrashReport, Crashes};
pub use transaction::begin;
pub use violation::{Phase, Violation};
