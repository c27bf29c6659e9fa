//! One operation, as its first handler does it, and as later deploys changed it: on each database.

use axum::Router;
use axum::extract::{Path, State};
use axum::handler::Handler;
use axum::routing::post;
use idem_runtime::steps::{Recovery, Retry};
use idem_runtime::{AssertEffectFree, Backend, External, Steps, Tx, idempotent};
use serde::{Deserialize, Serialize};

use super::passing::{Declared, Sourced};
use super::shop::{App, Failed, Gateway, Switch};

pub(super) const DAY: std::time::Duration = std::time::Duration::from_secs(24 * 3600);

/// Which handler is deployed.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Version {
    First,
    Renamed,
    Reordered,
    Shortened,
    Dearer,
    Redefined,
    Reread,
    Readdressed,
    Forgiving,
    Panics,
    Hurried,
    Lossy,
    /// Another operation's.
    Unrelated,
    /// Its last step fails for the moment, and its error says so.
    Declared,
    /// The same, and its error says what it came from.
    Sourced,
    /// A refusal is an error that may pass.
    Hopeful,
}

pub(crate) trait Tested: Backend {
    /// With this handler at `POST /accounts/{account}/charges`.
    fn router(app: App<Self>, version: Version) -> Router;
    /// A worker that this handler is registered with.
    fn recovery(app: &App<Self>, version: Version) -> Recovery<Self, App<Self>>;
}

fn routed<DB: Backend, H: Handler<T, App<DB>>, T: 'static>(handler: H, app: App<DB>) -> Router {
    Router::new()
        .route("/accounts/{account}/charges", post(handler))
        .with_state(app)
}

async fn pay<DB: Backend>(
    steps: &mut Steps<DB, Failed>,
    gateway: &External<Gateway>,
    cents: u64,
) -> Result<String, Failed> {
    let step = steps.external("charge", gateway, cents).key_lifetime(DAY);
    Ok(step.call(Gateway::charge).await?)
}

/// What is not written can't be read.
#[derive(Serialize, Deserialize)]
struct Unwritten {
    #[serde(skip_serializing)]
    id: u64,
}

/// A handler with these steps.
macro_rules! handler {
    ($name:ident, $db:ty, [$($option:tt)*], $account:ty, |$steps:ident, $of:ident, $gateway:ident| $body:block) => {
        #[idempotent(scope = "account", operation = "charges.create", $($option)*)]
        async fn $name(
            $steps: &mut Steps<$db, Failed>,
            Path(account): Path<$account>,
            State($gateway): State<External<Gateway>>,
        ) -> Result<String, Failed> {
            let $of = account;
            $body
        }
    };
}

/// The same text for each database; only the type differs.
macro_rules! tested {
    ($module:ident, $db:ty) => {
        mod $module {
            use super::*;

            async fn insert(tx: &mut Tx<$db>, step: &str) -> Result<u64, sqlx::Error> {
                let sql = format!("INSERT INTO things (step) VALUES ('{step}')");
                let done = sqlx::query(sqlx::AssertSqlSafe(sql))
                    .execute(&mut *tx)
                    .await?;
                Ok(done.rows_affected())
            }

            handler!(charge, $db, [], u64, |steps, account, gateway| {
                steps
                    .atomic("reserve", async |tx| Ok(insert(tx, "reserve").await?))
                    .await?;
                // Fails, and is recorded as failed once another step is.
                let refused: Result<(), Failed> =
                    steps.atomic("check", async |_| Err(Failed)).await;
                let charged = pay(steps, &gateway, account).await;
                assert!(refused.is_err());
                steps
                    .atomic("settle", async |tx| Ok(insert(tx, "settle").await?))
                    .await?;
                charged
            });

            handler!(renamed, $db, [], u64, |steps, account, gateway| {
                steps
                    .atomic("book", async |tx| Ok(insert(tx, "reserve").await?))
                    .await?;
                pay(steps, &gateway, account).await
            });

            handler!(reordered, $db, [], u64, |steps, account, gateway| {
                let charged = pay(steps, &gateway, account).await;
                steps
                    .atomic("reserve", async |tx| Ok(insert(tx, "reserve").await?))
                    .await?;
                charged
            });

            handler!(shortened, $db, [], u64, |steps, _account, _gateway| {
                steps
                    .atomic("reserve", async |tx| Ok(insert(tx, "reserve").await?))
                    .await?;
                let _: Result<(), Failed> = steps.atomic("check", async |_| Err(Failed)).await;
                Ok("later".to_owned())
            });

            handler!(dearer, $db, [], u64, |steps, account, gateway| {
                steps
                    .atomic("reserve", async |tx| Ok(insert(tx, "reserve").await?))
                    .await?;
                let _: Result<(), Failed> = steps.atomic("check", async |_| Err(Failed)).await;
                pay(steps, &gateway, account + 1).await
            });

            handler!(
                redefined,
                $db,
                [definition = 2],
                u64,
                |steps, account, gateway| {
                    steps
                        .atomic("reserve", async |tx| Ok(insert(tx, "reserve").await?))
                        .await?;
                    pay(steps, &gateway, account).await
                }
            );

            handler!(reread, $db, [], u64, |steps, account, gateway| {
                let _: String = steps
                    .atomic("reserve", async |tx| {
                        Ok(insert(tx, "reserve").await?.to_string())
                    })
                    .await?;
                pay(steps, &gateway, account).await
            });

            handler!(
                readdressed,
                $db,
                [],
                (u64, u64),
                |steps, account, gateway| { pay(steps, &gateway, account.0).await }
            );

            handler!(forgiving, $db, [], u64, |steps, account, gateway| {
                steps
                    .atomic("reserve", async |tx| Ok(insert(tx, "reserve").await?))
                    .await?;
                steps.atomic("check", async |_| Ok(())).await?;
                pay(steps, &gateway, account).await
            });

            handler!(panics, $db, [], u64, |steps, account, gateway| {
                steps
                    .atomic("reserve", async |tx| Ok(insert(tx, "reserve").await?))
                    .await?;
                let charged = pay(steps, &gateway, account).await?;
                assert_eq!(charged, "", "the fault that is planted here");
                Ok(charged)
            });

            handler!(
                hurried,
                $db,
                [timeout = "5s"],
                u64,
                |steps, account, gateway| {
                    steps
                        .atomic("reserve", async |tx| Ok(insert(tx, "reserve").await?))
                        .await?;
                    pay(steps, &gateway, account).await
                }
            );

            handler!(lossy, $db, [], u64, |steps, account, gateway| {
                let id = steps
                    .atomic("reserve", async |tx| {
                        let id = insert(tx, "reserve").await?;
                        Ok(Unwritten { id })
                    })
                    .await?;
                pay(steps, &gateway, account + id.id).await
            });

            #[idempotent(scope = "account", operation = "refunds.create")]
            async fn unrelated(
                steps: &mut Steps<$db, Failed>,
                Path(account): Path<u64>,
            ) -> Result<String, Failed> {
                steps
                    .atomic("refund", async |tx| Ok(insert(tx, "refund").await?))
                    .await?;
                Ok(account.to_string())
            }

            #[idempotent(scope = "account", operation = "charges.hopeful")]
            async fn hopeful(
                steps: &mut Steps<$db, Declared>,
                Path(account): Path<u64>,
                State(gateway): State<External<Gateway>>,
            ) -> Result<String, Declared> {
                let step = steps
                    .external("charge", &gateway, account)
                    .key_lifetime(DAY)
                    .retry(Retry::times(1).pause(std::time::Duration::from_millis(1)));
                Ok(step.call(Gateway::charge).await?)
            }

            #[idempotent(scope = "account", operation = "charges.declared")]
            async fn declared(
                steps: &mut Steps<$db, Declared>,
                Path(account): Path<u64>,
                State(gateway): State<External<Gateway>>,
                State(fails): State<AssertEffectFree<Switch>>,
            ) -> Result<String, Declared> {
                let step = steps
                    .external("charge", &gateway, account)
                    .key_lifetime(DAY);
                let charge = step.call(Gateway::charge).await?;
                steps
                    .atomic("settle", async |tx| {
                        insert(tx, "settle").await?;
                        if fails.take() {
                            Err(Declared::Away)
                        } else {
                            Ok(())
                        }
                    })
                    .await?;
                Ok(charge)
            }

            #[idempotent(scope = "account", operation = "charges.sourced")]
            async fn sourced(
                steps: &mut Steps<$db, Sourced>,
                Path(account): Path<u64>,
                State(gateway): State<External<Gateway>>,
                State(fails): State<AssertEffectFree<Switch>>,
            ) -> Result<String, Sourced> {
                let step = steps
                    .external("charge", &gateway, account)
                    .key_lifetime(DAY);
                let charge = step.call(Gateway::charge).await?;
                steps
                    .atomic("settle", async |tx| {
                        insert(tx, "settle").await?;
                        if fails.take() {
                            Err(Sourced(sqlx::Error::PoolTimedOut))
                        } else {
                            Ok(())
                        }
                    })
                    .await?;
                Ok(charge)
            }

            impl Tested for $db {
                fn router(app: App<Self>, version: Version) -> Router {
                    match version {
                        Version::First => routed(charge, app),
                        Version::Renamed => routed(renamed, app),
                        Version::Reordered => routed(reordered, app),
                        Version::Shortened => routed(shortened, app),
                        Version::Dearer => routed(dearer, app),
                        Version::Redefined => routed(redefined, app),
                        Version::Reread => routed(reread, app),
                        Version::Readdressed => routed(readdressed, app),
                        Version::Forgiving => routed(forgiving, app),
                        Version::Panics => routed(panics, app),
                        Version::Hurried => routed(hurried, app),
                        Version::Lossy => routed(lossy, app),
                        Version::Unrelated => routed(unrelated, app),
                        Version::Declared => routed(declared, app),
                        Version::Sourced => routed(sourced, app),
                        Version::Hopeful => routed(hopeful, app),
                    }
                }

                fn recovery(app: &App<Self>, version: Version) -> Recovery<Self, App<Self>> {
                    let recovery = app.recovery();
                    match version {
                        Version::First => recovery.register(charge),
                        Version::Renamed => recovery.register(renamed),
                        Version::Reordered => recovery.register(reordered),
                        Version::Shortened => recovery.register(shortened),
                        Version::Dearer => recovery.register(dearer),
                        Version::Redefined => recovery.register(redefined),
                        Version::Reread => recovery.register(reread),
                        Version::Readdressed => recovery.register(readdressed),
                        Version::Forgiving => recovery.register(forgiving),
                        Version::Panics => recovery.register(panics),
                        Version::Hurried => recovery.register(hurried),
                        Version::Lossy => recovery.register(lossy),
                        Version::Unrelated => recovery.register(unrelated),
                        Version::Declared => recovery.register(declared),
                        Version::Sourced => recovery.register(sourced),
                        Version::Hopeful => recovery.register(hopeful),
                    }
                }
            }
        }
    };
}

tested!(on_postgres, sqlx::Postgres);
tested!(on_sqlite, sqlx::Sqlite);
tested!(on_mysql, sqlx::MySql);
