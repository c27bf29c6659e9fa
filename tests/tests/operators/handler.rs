//! A handler with three steps that does what its test plans, on each database.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::extract::FromRef;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use idem_runtime::steps::{CallFailure, Classify, DownstreamKey, Reconciled, Recovery};
use idem_runtime::{AssertEffectFree, Backend, External, Idempotency};
use idem_tests::servers::{self, TestDatabase};
use serde::{Deserialize, Serialize, Serializer, ser};
use sqlx::Pool;

/// What the handler and its provider do from now on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    /// The name of the first step.
    pub(crate) first: &'static str,
    pub(crate) reserve: Reserve,
    pub(crate) policy: Policy,
    pub(crate) answer: Answer,
    /// Added to what the handler was asked to charge.
    pub(crate) more: i64,
    /// Of each call; a request may arrive for twice as long.
    pub(crate) timeout: Duration,
    pub(crate) end: End,
}

impl Default for Plan {
    fn default() -> Self {
        Self {
            first: "reserve",
            reserve: Reserve::Works,
            policy: Policy::AtMostOnce,
            answer: Answer::Charged,
            more: 0,
            timeout: Duration::from_secs(30),
            end: End::Answers,
        }
    }
}

/// The first step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reserve {
    Works,
    /// Its error is swallowed by the handler.
    Fails,
    EndsItsTransaction,
}

/// What follows a lost answer.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Policy {
    AtMostOnce,
    /// The provider honours keys for so long.
    Honoured(Duration),
    /// It can be asked, and can't tell.
    Asked,
}

/// What the provider does.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Answer {
    Charged,
    Lost,
    /// It charges, and answers what can't be stored.
    Unstorable,
    /// It declines, in words that can't be stored.
    UnstorableRefusal,
    /// It charges, and meanwhile somebody else takes the operation over.
    TakenOver,
    /// It charges, and its client takes a connection of the pool.
    BesideThePool,
}

/// What the handler does after the charge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Answers,
    Panics,
    /// It answers before it charges.
    Early,
}

/// A plan that a test changes.
#[derive(Clone)]
pub(crate) struct Plans(Arc<Mutex<Plan>>);

impl Plans {
    pub(crate) fn new(plan: Plan) -> Self {
        Self(Arc::new(Mutex::new(plan)))
    }

    pub(crate) fn now(&self) -> Plan {
        *self.0.lock().unwrap()
    }

    pub(crate) fn change(&self, plan: Plan) {
        *self.0.lock().unwrap() = plan;
    }
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Order {
    pub(crate) cents: i64,
}

/// The order as another version of the handler reads it.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct OtherOrder {
    pub(crate) euros: i64,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Charge {
    #[serde(serialize_with = "storable")]
    pub(crate) id: String,
}

/// The provider's refusal, and the handler's error.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Refused {
    #[serde(serialize_with = "storable")]
    pub(crate) code: String,
}

fn storable<S: Serializer>(text: &str, to: S) -> Result<S::Ok, S::Error> {
    match text {
        "unstorable" => Err(ser::Error::custom("it has no text")),
        text => to.serialize_str(text),
    }
}

impl From<sqlx::Error> for Refused {
    fn from(error: sqlx::Error) -> Self {
        Self {
            code: error.to_string(),
        }
    }
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        (StatusCode::PAYMENT_REQUIRED, self.code).into_response()
    }
}

pub(crate) enum ProviderError {
    Declined(&'static str),
    Lost,
}

impl Classify for ProviderError {
    type Refusal = Refused;

    fn classify(self) -> CallFailure<Refused> {
        match self {
            Self::Declined(code) => CallFailure::Refused(Refused {
                code: code.to_owned(),
            }),
            Self::Lost => CallFailure::Unknown("the connection was reset".to_owned()),
        }
    }
}

/// A provider in this process.
pub(crate) struct Provider<DB: Backend> {
    pub(crate) plans: Plans,
    pub(crate) database: Arc<TestDatabase>,
    pub(crate) pool: Pool<DB>,
    pub(crate) calls: Arc<AtomicU32>,
}

impl<DB: Backend> Provider<DB> {
    pub(crate) async fn charge(&self) -> Result<Charge, ProviderError> {
        self.calls.fetch_add(1, Ordering::SeqCst);
        let id = match self.plans.now().answer {
            Answer::Charged => "ch_17",
            Answer::Unstorable => "unstorable",
            Answer::UnstorableRefusal => return Err(ProviderError::Declined("unstorable")),
            Answer::Lost => return Err(ProviderError::Lost),
            Answer::TakenOver => {
                let stolen = "UPDATE idem_operations SET attempt = attempt + 1";
                self.database.execute(stolen).await.unwrap();
                "ch_17"
            }
            Answer::BesideThePool => {
                drop(self.pool.acquire().await.unwrap());
                "ch_17"
            }
        };
        Ok(Charge { id: id.to_owned() })
    }

    pub(crate) async fn find(
        &self,
        _: &DownstreamKey,
    ) -> Result<Reconciled<Charge>, ProviderError> {
        Ok(Reconciled::CannotTell(
            "two charges have this amount".to_owned(),
        ))
    }
}

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
