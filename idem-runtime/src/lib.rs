//! `#[idempotent]` makes an axum handler safe to retry: a request that is sent again with the same
//! `Idempotency-Key` has one effect, and gets the first answer again.
//!
#![cfg_attr(feature = "sqlite", doc = "```")]
#![cfg_attr(not(feature = "sqlite"), doc = "```ignore")]
//! use axum::extract::{FromRef, FromRequestParts, Path};
//! use axum::http::{Request, StatusCode, request::Parts};
//! use axum::{Router, body::Body, routing::post};
//! use idem_runtime::{EffectFree, Idempotency, Scope, Tx, idempotent};
//! use sqlx::{Sqlite, sqlite::SqlitePoolOptions};
//! use tower::ServiceExt;
//!
//! /// The router's state holds the pool and the defaults.
//! #[derive(Clone)]
//! struct AppState {
//!     idempotency: Idempotency<Sqlite>,
//! }
//!
//! impl FromRef<AppState> for Idempotency<Sqlite> {
//!     fn from_ref(state: &AppState) -> Self {
//!         state.idempotency.clone()
//!     }
//! }
//!
//! /// Whose keys they are: two accounts that send the same key never meet.
//! #[derive(EffectFree, Scope)]
//! struct Account(String);
//!
//! impl<S: Send + Sync> FromRequestParts<S> for Account {
//!     type Rejection = StatusCode;
//!
//!     async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, StatusCode> {
//!         match parts.headers.get("authorization").map(|value| value.as_bytes()) {
//!             Some(b"Bearer alice-token") => Ok(Self("alice".to_owned())),
//!             _ => Err(StatusCode::UNAUTHORIZED),
//!         }
//!     }
//! }
//!
//! /// Writes through `tx`. An answer below 500 commits; an `Err`, and an answer of 500 and above, rolls back.
//! #[idempotent(scope = "account", ttl = "48h")]
//! async fn order(tx: &mut Tx<Sqlite>, account: Account, Path(item): Path<String>) -> (StatusCode, String) {
//!     let id: sqlx::Result<i64> =
//!         sqlx::query_scalar("INSERT INTO orders (account, item) VALUES (?, ?) RETURNING id")
//!             .bind(&account.0)
//!             .bind(item)
//!             .fetch_one(&mut *tx)
//!             .await;
//!     match id {
//!         Ok(id) => (StatusCode::CREATED, format!("order {id}")),
//!         Err(_) => (StatusCode::INTERNAL_SERVER_ERROR, String::new()),
//!     }
//! }
//!
//! #[tokio::main]
//! async fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     // The guard finds a handler that takes a second connection.
//!     let pool = idem_runtime::guard(SqlitePoolOptions::new())
//!         .max_connections(1) // each connection to `:memory:` is a database of its own
//!         .connect("sqlite::memory:")
//!         .await?;
//!     sqlx::query("CREATE TABLE orders (id INTEGER PRIMARY KEY, account TEXT, item TEXT)")
//!         .execute(&pool)
//!         .await?;
//!     let idempotency = Idempotency::new(pool.clone());
//!     idempotency.migrate().await?;
//!     idempotency.check().await?;
//!     let app = Router::new()
//!         .route("/orders/{item}", post(order))
//!         .with_state(AppState { idempotency });
//!
//!     // The first answer got lost, and the client sends the request again.
//!     for replayed in [false, true] {
//!         let request = Request::post("/orders/book")
//!             .header("authorization", "Bearer alice-token")
//!             .header("idempotency-key", r#""8e03978e-40d5-43e8-bc93-6894a57f9324""#)
//!             .body(Body::empty())?;
//!         let answer = app.clone().oneshot(request).await?;
//!         assert_eq!(answer.status(), StatusCode::CREATED);
//!         assert_eq!(answer.headers().contains_key("idempotent-replayed"), replayed);
//!     }
//!     let orders: i64 = sqlx::query_scalar("SELECT count(*) FROM orders").fetch_one(&pool).await?;
//!     assert_eq!(orders, 1);
//!     Ok(())
//! }
//! ```
//!
//! # How it works
//!
//! The key's claim, what the handler writes through its [`Tx`], and the stored answer commit in one
//! database transaction. A crash at any moment leaves all of them or none.
//!
//! 1. The extractors that read the request's parts run, on every call: who may not call now sees no
//!    stored answer. Then `authorize`, if the attribute names it.
//! 2. The [key] is parsed, the body read whole, and the [fingerprint] taken, which
//!    tells a retry from another request with the same key. The body's extractor runs.
//! 3. A transaction begins and claims the key. A stored answer is sent again; another request with the key
//!    is refused (422); a duplicate of a running request waits for its answer.
//! 4. The handler runs, with a borrowed transaction that it can't commit.
//! 5. What becomes of the answer is the word of its error's [`Disposition`], or the attribute's `errors`.
//!    `Ok` below 500 stores it and commits; all else is rolled back.
//!
//! All of it goes on when the client hangs up, and [`Idempotency::drain`] waits for it at shutdown.
//!
//! # What is not covered
//!
//! A handler can **run** twice with one key: after a rollback, a crash, a serialization failure, or when its
//! key is past its `ttl`. What it wrote through `tx` in a run that did not commit is gone; what it did elsewhere (another service, a
//! mail, a connection of its own) is not. The [`guard`] finds connections that a handler takes from a
//! guarded pool. The README has the whole table, situation by situation.
//!
//! [`Tx::operation_id`] is the same for every attempt: put it in a `UNIQUE` column, or send it to another service as
//! its idempotency key.
//!
//! # Features
//!
//! | feature | |
//! |---|---|
//! | `sqlite` (default) | SQLite, through sqlx's driver |
//! | `postgres` | PostgreSQL 15 and later |
//! | `mysql` | MariaDB 10.11 and later; MySQL, which has some statements of its own (run on 9.7) |
//! | `metrics` | the [signals](telemetry) as metrics too, through the `metrics` facade |
//! | `axum-extra` | its extractors as a handler's arguments: cookies, typed headers, `Query`, `Form`, `Cached`, `WithRejection` |
//! | `chrono`, `time`, `rust_decimal` | dates and decimals in the state of a handler; in a request they need no feature |
//! | `reqwest` | its errors say what they mean for an [external step](steps): [`Classify`](steps::Classify) |
//! | `nats`, `amqp`, `webhook` | publishers of the [outbox]; the first two also sources of the [inbox] |
//! | `testing` | the module `testing`, for tests of your own handlers |
//! | `cli` | the program `idem`, for operators, on every database: `cargo install --path idem-runtime --features cli` |
//!
//! At least one database is needed to do anything.
//!
//! # Where to look
//!
//! | | |
//! |---|---|
//! | [`macro@idempotent`] | the attribute: all its arguments and their defaults |
//! | [`routing`], [`macro@repeat_safe`] | routes on which every write says what a repeat does, and their report |
//! | [`Idempotency`], [`IdempotencyBuilder`] | start-up, defaults, migrations, shutdown, sweeping, erasing |
//! | [`Tx`] | what a handler writes through |
//! | [`Scope`] and [`scope`] | whose keys they are |
//! | [`EffectFree`], [`External`] and [`capability`] | what a handler may take |
//! | [`Disposition`], [`ErrorKind`] | what an error leaves of its key |
//! | [`key`] | the `Idempotency-Key` field and its two forms |
//! | [`fingerprint`] | what counts as the same request |
//! | [`response`] | which fields of an answer are stored |
//! | [`problem`] | every error answer, with its stable code |
//! | [`region`] | accounts that have a home region, and what others are told |
//! | [`telemetry`] | signals: one a request |
//! | [`operations`] | operations with recovery points that are not resolved, and decisions about them |
//! | [`macro@consumer`], [`inbox`] | messages of a broker, each processed once |
//! | [`outbox`] | messages that commit with the effect: [`Tx::outbox`], the relay, publishers, dead letters |
//! | [`inbox`], [`macro@consumer`] | messages that are processed once |
//! | [`Sweeper`], [`Erased`] | how records end |
//! | [`PayloadCipher`], [`Replay`] | stored answers encrypted, or built again |

#![cfg_attr(
    not(any(feature = "postgres", feature = "sqlite", feature = "mysql")),
    allow(dead_code, unused)
)]
#![deny(missing_docs)]
#![allow(
    clippy::result_large_err,
    reason = "axum's own rejections are responses, and are made where they are answered"
)]

extern crate self as idem_runtime;

#[doc(hidden)]
pub mod __private;
mod accept;
mod alone;
mod atomic;
mod backend;
mod backoff;
mod beginning;
mod bounds;
mod call;
pub mod capability;
mod cipher;
mod detach;
mod digest;
mod faults;
mod filter;
pub mod fingerprint;
mod flight;
mod guard;
mod idempotency;
pub mod inbox;
pub mod key;
mod lookups;
mod operation;
pub mod operations;
mod options;
pub mod outbox;
mod parcel;
pub mod problem;
pub mod region;
mod replay;
pub mod response;
mod retention;
pub mod routing;
pub mod scope;
mod settle;
pub mod steps;
pub mod telemetry;
#[cfg(feature = "testing")]
pub mod testing;
mod turn;
mod tx;
mod unprotected;

pub use backend::{Backend, Isolation, RoundTrips};
pub use call::IdempotentHandler;
pub use capability::{AssertEffectFree, EffectFree, External};
pub use cipher::{CipherError, PayloadCipher};
pub use guard::{guard, record_acquire};
pub use idem_macros::*;
pub use idempotency::{Idempotency, IdempotencyBuilder, StartupError};
pub use key::IdempotencyKey;
pub use operation::{Errors, Expired, InFlight, KeyRequirement, KeySpace, Spec};
pub use replay::Replay;
pub use retention::{Erased, RetentionError, Sweeper, SweeperHandle, Swept};
pub use scope::Scope;
pub use settle::{Disposition, ErrorKind};
pub use steps::Steps;
pub use tx::{Handle, Tx};
