//! Errors that may pass, once a step is recorded: they are no answer, and the operation goes on later.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use idem_runtime::steps::{Never, Recovered};
use idem_runtime::{Disposition, External, Steps, idempotent};
use sqlx::Sqlite;

use super::shop::{Gateway, Shop};

/// Whether the database that the last step needs is away.
static AWAY: AtomicBool = AtomicBool::new(true);
static CUT_OFF: AtomicBool = AtomicBool::new(true);

#[derive(Debug, Disposition)]
enum Declared {
    #[disposition(transient)]
    Away,
    #[disposition(source)]
    Database(sqlx::Error),
}

/// Says nothing of its key, but what it came from.
#[derive(Debug, thiserror::Error)]
#[error("the last step failed")]
struct Sourced(#[from] sqlx::Error);

macro_rules! answers_503 {
    ($($error:ident)+) => {$(
        impl From<Never> for $error {
            fn from(never: Never) -> Self {
                match never {}
            }
        }

        impl IntoResponse for $error {
            fn into_response(self) -> Response {
                StatusCode::SERVICE_UNAVAILABLE.into_response()
            }
        }
    )+};
}

answers_503!(Declared Sourced);

impl From<sqlx::Error> for Declared {
    fn from(error: sqlx::Error) -> Self {
        Self::Database(error)
    }
}

macro_rules! handler {
    ($name:ident, $error:ty, $operation:literal, $away:ident, $fails:expr) => {
        #[idempotent(scope = "account", operation = $operation)]
        async fn $name(
            steps: &mut Steps<Sqlite, $error>,
            Path(account): Path<u64>,
            State(gateway): State<External<Gateway>>,
        ) -> Result<String, $error> {
            let charge = steps
                .external("charge", &gateway, account)
                .key_lifetime(Duration::from_secs(24 * 3600))
                .call(Gateway::charge)
                .await?;
            steps
                .atomic("settle", async |tx| {
                    sqlx::query("INSERT INTO things (step) VALUES ('settle')")
                        .execute(&mut *tx)
                        .await?;
                    if $away.swap(false, Ordering::SeqCst) {
                        return Err($fails);
                    }
                    Ok(())
                })
                .await?;
            Ok(charge)
        }
    };
}

handler!(declared, Declared, "charges.declared", AWAY, Declared::Away);
handler!(
    sourced,
    Sourced,
    "charges.sourced",
    CUT_OFF,
    Sourced(sqlx::Error::PoolTimedOut)
);

macro_rules! goes_on {
    ($($case:ident: $handler:ident;)*) => {$(
        #[tokio::test]
        async fn $case() {
            let shop = Shop::open().await;
            let answer = shop.send(shop.router($handler)).await;
            assert_eq!(answer.0, 409, "{answer:?}");
            assert!(answer.1.contains("idempotency-key-in-progress"), "{answer:?}");
            assert_eq!(shop.things("settle").await, 0, "what the step wrote is undone");
            let recovered = shop.recovered(|recovery| recovery.register($handler)).await;
            assert_eq!(recovered, [Recovered::Completed]);
            let answer = shop.send(shop.router($handler)).await;
            assert_eq!(answer, (200, "ch_1".to_owned()));
            assert_eq!(shop.things("settle").await, 1);
        }
    )*};
}

goes_on! {
    an_error_that_says_it_may_pass_goes_on: declared;
    an_error_that_came_from_a_lost_connection_goes_on: sourced;
}
