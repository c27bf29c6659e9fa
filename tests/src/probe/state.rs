//! The application's state, and the routes that are no handlers of the framework's.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::{FromRef, Path, Query, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use idem_runtime::operations::OperationId;
use idem_runtime::problem::UriReference;
use idem_runtime::steps::{Recovery, RecoveryHandle};
use idem_runtime::{Backend, External, Idempotency};
use serde::Deserialize;
use serde_json::json;
use sqlx::Pool;
use sqlx::pool::PoolOptions;

use super::account::{Account, Tokens};
use super::business::{self, Business};
use super::charge::ChargePolicy;
use super::config::Config;
use super::events;
use super::gates;
use super::gateway::Gateway;
use super::signals;

/// How long the attempts that run have left after a SIGTERM.
const DRAIN: Duration = Duration::from_secs(30);
/// How long the library has a duplicate wait.
const DEFAULT_WAIT: Duration = Duration::from_secs(5);

pub(crate) struct App<DB: Backend> {
    idempotency: Idempotency<DB>,
    tokens: Arc<Tokens>,
    database_url: Arc<str>,
    gateway: External<Gateway>,
    charges: ChargePolicy,
}

impl<DB: Backend> Clone for App<DB> {
    fn clone(&self) -> App<DB> {
        App {
            idempotency: self.idempotency.clone(),
            tokens: Arc::clone(&self.tokens),
            database_url: Arc::clone(&self.database_url),
            gateway: self.gateway.clone(),
            charges: self.charges.clone(),
        }
    }
}

impl<DB: Backend> FromRef<App<DB>> for Idempotency<DB> {
    fn from_ref(app: &App<DB>) -> Idempotency<DB> {
        app.idempotency.clone()
    }
}

impl<DB: Backend> FromRef<App<DB>> for Arc<Tokens> {
    fn from_ref(app: &App<DB>) -> Arc<Tokens> {
        Arc::clone(&app.tokens)
    }
}

impl<DB: Backend> FromRef<App<DB>> for External<Gateway> {
    fn from_ref(app: &App<DB>) -> External<Gateway> {
        app.gateway.clone()
    }
}

impl<DB: Backend> FromRef<App<DB>> for ChargePolicy {
    fn from_ref(app: &App<DB>) -> ChargePolicy {
        app.charges.clone()
    }
}

impl<DB: Backend + Business> App<DB> {
    /// Connects, migrates, and creates the business tables.
    pub(crate) async fn new(config: &Config) -> Result<App<DB>, Box<dyn std::error::Error>> {
        signals::install();
        let mut options = PoolOptions::<DB>::new().max_connections(config.pool_size);
        if let Some(lease) = config.lease {
            // A lease outlasts the wait for a connection.
            options = options.acquire_timeout(lease);
        }
        let pool: Pool<DB> = DB::connect(idem_runtime::guard(options), config).await?;
        DB::static_pool()
            .set(pool.clone())
            .expect("one application a process");
        DB::create_tables(&pool).await?;
        let status = UriReference::parse("/operations")?;
        let mut builder = Idempotency::builder(pool)
            .status_link(status)
            .round_trips(config.round_trips)
            .hints(config.hints)
            .transaction_pooling(config.transaction_pooling);
        if let Some(isolation) = config.isolation
            && config.transaction_pooling
        {
            builder = builder.isolation(isolation.of_library());
        }
        if let Some(lease) = config.lease {
            builder = builder.lease(lease).wait(DEFAULT_WAIT.min(lease));
        }
        if let Some(wait) = config.wait {
            builder = builder.wait(wait);
        }
        if let Some(attempts) = config.max_attempts {
            builder = builder.max_attempts(attempts);
        }
        if let Some(limit) = config.max_in_flight {
            builder = builder.max_in_flight(limit);
        }
        let idempotency = builder.build()?;
        idempotency.migrate().await?;
        idempotency.check().await?;
        Ok(App {
            idempotency,
            tokens: Arc::new(Tokens::new()),
            database_url: config.database_url.as_str().into(),
            gateway: External::new(Gateway::new(&config.provider_url)?),
            charges: config.charges.clone(),
        })
    }

    /// A recovery worker with this state.
    pub(crate) fn recovery(&self) -> Recovery<DB, App<DB>> {
        self.idempotency.recovery(self.clone())
    }

    /// Serves until SIGTERM, and then until what runs has ended.
    pub(crate) async fn serve(
        self,
        handlers: Router<App<DB>>,
        recovery: Option<RecoveryHandle>,
        address: &str,
    ) -> Result<(), Box<dyn std::error::Error>> {
        let idempotency = self.idempotency.clone();
        let router = handlers
            .layer(axum::middleware::from_fn(gates::count))
            .route("/effects", get(effects::<DB>))
            .route("/operations/{id}", get(status::<DB>))
            .route("/entered", get(entered))
            .route("/tasks", get(tasks))
            .route("/gates/{name}", get(gates::seen))
            .route("/gates/{name}/open", post(gates::open))
            .route("/signals", get(async || Json(signals::counts())))
            .route("/metrics", get(async || Json(signals::metrics())))
            .route("/events", get(async || events::text()))
            .route("/revoke/{token}", post(revoke::<DB>))
            .route("/healthz", get(async || StatusCode::OK))
            .with_state(self);
        let listener = tokio::net::TcpListener::bind(address).await?;
        let mut terminated =
            tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())?;
        println!("listening on http://{}", listener.local_addr()?);
        axum::serve(listener, router)
            .with_graceful_shutdown(async move {
                terminated.recv().await;
                if let Some(recovery) = recovery {
                    recovery.stop().await;
                }
                idempotency.drain(DRAIN).await;
            })
            .await?;
        Ok(())
    }
}

#[derive(Deserialize)]
struct Of {
    account: String,
}

async fn effects<DB: Backend + Business>(
    State(app): State<App<DB>>,
    Query(Of { account }): Query<Of>,
) -> Response {
    match DB::read(&app.database_url, &account).await {
        Ok(rows) => Json(json!({ "count": rows.len(), "rows": rows })).into_response(),
        Err(error) => (StatusCode::SERVICE_UNAVAILABLE, error.to_string()).into_response(),
    }
}

/// Where an operation stands, for its owner.
async fn status<DB: Backend>(
    State(app): State<App<DB>>,
    account: Account,
    Path(id): Path<String>,
) -> Response {
    let Ok(id) = id.parse::<OperationId>() else {
        return StatusCode::NOT_FOUND.into_response();
    };
    match app.idempotency.status(id, &account).await {
        Ok(Some(status)) => Json(status).into_response(),
        Ok(None) => StatusCode::NOT_FOUND.into_response(),
        Err(error) => (StatusCode::SERVICE_UNAVAILABLE, error.to_string()).into_response(),
    }
}

#[derive(Deserialize)]
struct With {
    key_digest: Option<String>,
}

async fn entered(Query(with): Query<With>) -> Response {
    Json(json!({ "count": business::entered(with.key_digest.as_deref()) })).into_response()
}

/// How many tasks this process has.
async fn tasks() -> Json<serde_json::Value> {
    let count = tokio::runtime::Handle::current()
        .metrics()
        .num_alive_tasks();
    Json(json!({ "count": count }))
}

async fn revoke<DB: Backend>(State(app): State<App<DB>>, Path(token): Path<String>) -> StatusCode {
    if app.tokens.revoke(&token) {
        StatusCode::NO_CONTENT
    } else {
        StatusCode::NOT_FOUND
    }
}
