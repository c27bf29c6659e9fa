//! A handler with three steps that does what its test plans, on each database.

use axum::Router;
use axum::extract::FromRef;
use axum::http::StatusCode;
use idem_runtime::steps::{DownstreamKey, Recovery};
use idem_runtime::{AssertEffectFree, Backend, External, Idempotency};
use idem_tests::servers;
use sqlx::Pool;

use crate::plan::{End, Plan, Plans, Policy, Reserve};
use crate::provider::{Charge, Order, OtherOrder, Provider, Refused};

pub(crate) struct App<DB: Backend> {
    pub(crate) idempotency: Idempotency<DB>,
    pub(crate) provider: External<Provider<DB>>,
    pub(crate) plans: Plans,
}

impl<DB: Backend> Clone for App<DB> {
    fn clone(&self) -> Self {
        Self {
            idempotency: self.idempotency.clone(),
            provider: self.provider.clone(),
            plans: self.plans.clone(),
        }
    }
}

impl<DB: Backend> FromRef<App<DB>> for Idempotency<DB> {
    fn from_ref(app: &App<DB>) -> Self {
        app.idempotency.clone()
    }
}

impl<DB: Backend> FromRef<App<DB>> for External<Provider<DB>> {
    fn from_ref(app: &App<DB>) -> Self {
        app.provider.clone()
    }
}

impl<DB: Backend> FromRef<App<DB>> for AssertEffectFree<Plans> {
    fn from_ref(app: &App<DB>) -> Self {
        AssertEffectFree::new(app.plans.clone(), "what a test wants, in memory")
    }
}

/// Which version of the handler recovers.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Version {
    First,
    /// Its definition is another.
    Second,
    /// It reads other arguments.
    OtherArguments,
}

/// What differs between the databases.
pub(crate) trait Tested: Backend {
    const BACKEND: servers::Backend;
    /// Bytes from hexadecimal.
    fn bytes(hex: &str) -> String;
    /// `POST /charges/{account}`.
    fn router(app: App<Self>) -> Router;
    fn recovery(app: &App<Self>, version: Version) -> Recovery<Self, App<Self>>;
    /// Each row of a table as text.
    fn dump(pool: &Pool<Self>, table: &'static str) -> impl Future<Output = Vec<String>> + Send;
}

/// Handlers are the same text for each database; only the type differs.
macro_rules! tested {
    ($module:ident, $db:ty, $backend:ident, $bytes:expr, $dump:expr) => {
        mod $module {
            use axum::extract::{Json, Path, State};
            use axum::routing::post;
            use idem_runtime::{Steps, Tx, idempotent};
            use sqlx::Executor;

            use super::*;

            type Store = $db;
            type Connected = <Store as sqlx::Database>::Connection;

            async fn insert(db: &mut Connected, n: i32) -> sqlx::Result<()> {
                let sql = format!("INSERT INTO effects (n) VALUES ({n})");
                db.execute(sqlx::AssertSqlSafe(sql)).await?;
                Ok(())
            }

            async fn reserve(tx: &mut Tx<Store>, how: Reserve) -> Result<(), Refused> {
                insert(tx, 1).await?;
                match how {
                    Reserve::Works => Ok(()),
                    Reserve::EndsItsTransaction => {
                        // SQLite undoes the transaction instead, with an error.
                        let _ = tx.execute("COMMIT").await;
                        Ok(())
                    }
                    Reserve::Fails => Err(Refused {
                        code: "nothing to reserve".to_owned(),
                    }),
                }
            }

            async fn charge(
                steps: &mut Steps<Store, Refused>,
                provider: &External<Provider<Store>>,
                plan: Plan,
                cents: i64,
            ) -> Result<(StatusCode, Json<Charge>), Refused> {
                let reserved = steps
                    .atomic(plan.first, async |tx: &mut Tx<Store>| {
                        reserve(tx, plan.reserve).await
                    })
                    .await;
                if plan.reserve != Reserve::Fails {
                    reserved?;
                }
                steps.resource("order", 7);
                if plan.end == End::Early {
                    let id = "none".to_owned();
                    return Ok((StatusCode::CREATED, Json(Charge { id })));
                }
                let step = steps
                    .external(
                        "charge",
                        provider,
                        Order {
                            cents: cents + plan.more,
                        },
                    )
                    .timeout(plan.timeout);
                let call = async |provider: &Provider<Store>, _: &DownstreamKey, _: &Order| {
                    provider.charge().await
                };
                let charged = match plan.policy {
                    Policy::AtMostOnce => step.at_most_once().call(call).await?,
                    Policy::Honoured(lifetime) => step.key_lifetime(lifetime).call(call).await?,
                    Policy::Asked => {
                        step.reconcile(async |provider: &Provider<Store>, key: &DownstreamKey| {
                            provider.find(key).await
                        })
                        .call(call)
                        .await?
                    }
                };
                assert!(plan.end != End::Panics, "the handler panics, as planned");
                steps
                    .atomic("settle", async |tx: &mut Tx<Store>| {
                        insert(tx, 2).await?;
                        Ok(())
                    })
                    .await?;
                Ok((StatusCode::CREATED, Json(charged)))
            }

            #[idempotent(scope = "account", operation = "charges.create")]
            async fn first(
                steps: &mut Steps<Store, Refused>,
                Path(account): Path<String>,
                State(provider): State<External<Provider<Store>>>,
                State(plans): State<AssertEffectFree<Plans>>,
                Json(order): Json<Order>,
            ) -> Result<(StatusCode, Json<Charge>), Refused> {
                charge(steps, &provider, plans.now(), order.cents).await
            }

            #[idempotent(scope = "account", operation = "charges.create", definition = 2)]
            async fn second(
                steps: &mut Steps<Store, Refused>,
                Path(account): Path<String>,
                State(provider): State<External<Provider<Store>>>,
                State(plans): State<AssertEffectFree<Plans>>,
                Json(order): Json<Order>,
            ) -> Result<(StatusCode, Json<Charge>), Refused> {
                charge(steps, &provider, plans.now(), order.cents).await
            }

            #[idempotent(scope = "account", operation = "charges.create")]
            async fn other_arguments(
                steps: &mut Steps<Store, Refused>,
                Path(account): Path<String>,
                State(provider): State<External<Provider<Store>>>,
                State(plans): State<AssertEffectFree<Plans>>,
                Json(order): Json<OtherOrder>,
            ) -> Result<(StatusCode, Json<Charge>), Refused> {
                charge(steps, &provider, plans.now(), order.euros * 100).await
            }

            impl Tested for Store {
                const BACKEND: servers::Backend = servers::Backend::$backend;

                fn bytes(hex: &str) -> String {
                    $bytes(hex)
                }

                fn router(app: App<Self>) -> Router {
                    Router::new()
                        .route("/charges/{account}", post(first))
                        .with_state(app)
                }

                fn recovery(app: &App<Self>, version: Version) -> Recovery<Self, App<Self>> {
                    let recovery = app.idempotency.recovery(app.clone());
                    match version {
                        Version::First => recovery.register(first),
                        Version::Second => recovery.register(second),
                        Version::OtherArguments => recovery.register(other_arguments),
                    }
                }

                async fn dump(pool: &Pool<Self>, table: &'static str) -> Vec<String> {
                    sqlx::query_scalar(sqlx::AssertSqlSafe($dump(table)))
                        .fetch_all(pool)
                        .await
                        .unwrap()
                }
            }
        }
    };
}

tested!(
    on_postgres,
    sqlx::Postgres,
    Postgres,
    |hex| format!("'\\x{hex}'::bytea"),
    |table| format!("SELECT t::text FROM {table} t ORDER BY 1")
);
tested!(
    on_sqlite,
    sqlx::Sqlite,
    Sqlite,
    |hex| format!("x'{hex}'"),
    |table| {
        let columns: Vec<_> = columns(table)
            .iter()
            .map(|name| format!("quote({name})"))
            .collect();
        format!(
            "SELECT {} AS row FROM {table} ORDER BY 1",
            columns.join(" || ',' || ")
        )
    }
);
tested!(
    on_mysql,
    sqlx::MySql,
    MySql,
    |hex| format!("x'{hex}'"),
    |table| {
        let columns: Vec<_> = columns(table)
            .iter()
            .map(|name| format!("ifnull(hex({name}), '-')"))
            .collect();
        format!(
            "SELECT concat_ws(',', {}) FROM {table} ORDER BY 1",
            columns.join(", ")
        )
    }
);

/// What a row of a table consists of.
fn columns(table: &str) -> &'static [&'static str] {
    match table {
        "idem_keys" => &[
            "id",
            "scope",
            "operation",
            "state",
            "attempt",
            "owner",
            "fingerprint",
            "status",
            "headers",
            "body",
            "resources",
            "created_at",
            "completed_at",
            "expires_at",
            "retain_until",
        ],
        "idem_operations" => &[
            "id",
            "scope",
            "operation",
            "operation_id",
            "definition",
            "attempt",
            "owner",
            "tries",
            "inputs",
            "journal",
            "created_at",
            "recorded_at",
            "due_at",
            "parked_at",
            "reason",
        ],
        "idem_audit" => &["entry", "id", "at", "actor", "action", "reason", "detail"],
        other => panic!("no table {other}"),
    }
}
