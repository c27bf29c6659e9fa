//! Other attributes, above and below, and conditions on the handler and its arguments.
#![deny(warnings)]

#[path = "../support.rs"]
mod support;
use support::*;

#[tracing::instrument(skip_all)]
#[idempotent(scope = "account")]
async fn above(_tx: &mut Tx<Sqlite>, account: Account) -> StatusCode {
    let _ = account;
    StatusCode::CREATED
}

/// Documented.
#[idempotent(scope = "account")]
/// Documented below, too.
#[tracing::instrument(skip_all, fields(account = ?account))]
#[allow(clippy::too_many_arguments, reason = "a test")]
#[must_use]
async fn below(
    _tx: &mut Tx<Sqlite>,
    /// Who asks.
    account: Account,
) -> StatusCode {
    StatusCode::CREATED
}

#[idempotent(scope = "account")]
#[expect(unused_variables, reason = "a test")]
async fn expected(tx: &mut Tx<Sqlite>, account: Account) -> StatusCode {
    StatusCode::CREATED
}

#[idempotent(scope = "account")]
#[cfg(not(all()))]
async fn conditional(not_even_a_type: &mut Nothing, account: Nowhere) {}

#[idempotent(scope = "account")]
#[cfg(all())]
async fn conditional(
    #[cfg(all())] tx: &mut Tx<Sqlite>,
    #[cfg(not(all()))] tx: &mut Nothing,
    account: Account,
    #[cfg(not(all()))] nothing: Nothing,
    #[cfg(all())] State(pricing): State<Pricing>,
    #[allow(unused_variables)] body: String,
) -> String {
    let _ = (tx, account);
    #[cfg(not(all()))]
    nothing();
    pricing.cents.to_string()
}

fn main() {
    let _: Router<AppState> = Router::new()
        .route("/above", post(above))
        .route("/below", post(below))
        .route("/expected", post(expected))
        .route("/conditional", post(conditional));
}
