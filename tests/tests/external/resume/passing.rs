//! Errors that may pass, once a step is recorded: they are no answer, and the operation goes on later.

use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use idem_runtime::Disposition;
use idem_runtime::steps::Recovered;
use idem_tests::servers::Backend;

use super::deployed::{Tested, Version};
use super::on_each_database;
use super::shop::{Busy, Shop};

#[derive(Debug, Disposition)]
pub(super) enum Declared {
    #[disposition(transient)]
    Away,
    #[disposition(source)]
    Database(sqlx::Error),
}

/// Says nothing of its key, but what it came from.
#[derive(Debug, thiserror::Error)]
#[error("the last step failed")]
pub(super) struct Sourced(#[from] pub(super) sqlx::Error);

impl From<Busy> for Declared {
    fn from(_: Busy) -> Self {
        Self::Away
    }
}

impl From<Busy> for Sourced {
    fn from(_: Busy) -> Self {
        Self(sqlx::Error::PoolTimedOut)
    }
}

impl From<sqlx::Error> for Declared {
    fn from(error: sqlx::Error) -> Self {
        Self::Database(error)
    }
}

impl IntoResponse for Declared {
    fn into_response(self) -> Response {
        (StatusCode::SERVICE_UNAVAILABLE, [("retry-after", "7")]).into_response()
    }
}

impl IntoResponse for Sourced {
    fn into_response(self) -> Response {
        StatusCode::SERVICE_UNAVAILABLE.into_response()
    }
}

async fn goes_on<DB: Tested>(backend: Backend, version: Version) {
    let shop = Shop::<DB>::open(backend).await;
    shop.fails_once();
    let answer = shop.send(version).await;
    assert_eq!(answer.0, 409, "{answer:?}");
    assert!(
        answer.1.contains("idempotency-key-in-progress"),
        "{answer:?}"
    );
    assert_eq!(
        shop.things("settle").await,
        0,
        "what the step wrote is undone"
    );
    let recovered = shop.recovered(version).await;
    assert_eq!(recovered, [Recovered::Completed]);
    let answer = shop.send(version).await;
    assert_eq!(answer, (200, "ch_1".to_owned()));
    assert_eq!(shop.things("settle").await, 1);
}

on_each_database! {
    an_error_that_says_it_may_pass_goes_on: goes_on(Version::Declared);
    an_error_that_came_from_a_lost_connection_goes_on: goes_on(Version::Sourced);
}
