//! A small payment service, whose effects are not all in its database: money moves at a provider.
//!
//! Read [`payments`] first: three handlers with recovery points, one for each kind of provider. Then [`gateway`], which
//! tells what an error says of the effect, and [`state`], where the recovery worker is made.

pub mod auth;
pub mod database;
pub mod demo;
pub mod errors;
pub mod gateway;
pub mod operations;
pub mod payments;
pub mod process;
pub mod provider;
pub mod state;

use idem_runtime::routing::{Router, get, post};
use idem_runtime::steps::Recovery;

use crate::database::Db;
use crate::state::AppState;

/// All routes.
pub fn router() -> Router<AppState> {
    Router::new()
        .route("/charges", post(payments::charge))
        .route("/debits", post(payments::debit))
        .route("/redemptions", post(payments::redeem))
        .route("/orders", get(payments::list))
        .route("/operations", get(operations::list))
        .route("/operations/{id}", get(operations::status))
}

/// What goes on with payments whose process died, or whose provider did not answer. Every handler with steps belongs here: one
/// that is missing leaves its payments where the crash left them.
pub fn recovery(state: &AppState) -> Recovery<Db, AppState> {
    state
        .idempotency
        .recovery(state.clone())
        .register(payments::charge)
        .register(payments::debit)
        .register(payments::redeem)
}
