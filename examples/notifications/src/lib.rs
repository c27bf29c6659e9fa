//! A small shop that tells others of its orders, each in a process of its own.
//!
//! Read [`orders`] first: a handler that stages two messages with its order. Then [`relay`], which publishes them, [`ledger`],
//! which consumes one of them, and [`receiver`], which is sent the other.

pub mod auth;
pub mod broker;
pub mod database;
pub mod demo;
pub mod errors;
pub mod ledger;
pub mod orders;
pub mod process;
pub mod receiver;
pub mod relay;
pub mod state;
pub mod stream;
pub mod worst_moment;

use idem_runtime::routing::{Router, get, post};

use crate::state::AppState;

/// The shop's routes.
pub fn router() -> Router<AppState> {
    Router::new()
        .route("/orders", post(orders::create))
        .route("/orders", get(orders::list))
}
