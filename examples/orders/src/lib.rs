//! A small order service whose writes are safe to retry.
//!
//! Read [`orders`] first: its `create` is what `#[idempotent]` is for, and the two handlers beside it show
//! designs that are safe to repeat without a key. Then [`profile`], for the same choice on a smaller thing.

pub mod auth;
pub mod database;
pub mod demo;
pub mod errors;
pub mod orders;
pub mod profile;
pub mod state;

use idem_runtime::routing::{Router, get, post, put};

use crate::state::AppState;

/// All routes. `POST` needs an `Idempotency-Key` here and `PUT` does not: see each handler for why, or print
/// them, with `orders --report`. A write that says nothing of repeats does not compile here.
pub fn router() -> Router<AppState> {
    Router::new()
        .route("/orders", post(orders::create).get(orders::list))
        .route("/orders/{id}", put(orders::put).get(orders::get))
        .route("/orders/{id}/pay", put(orders::pay))
        .route("/profile", get(profile::get).put(profile::replace))
        .route("/profile/name", put(profile::set_name))
        .route("/profile/publish", post(profile::publish))
}
