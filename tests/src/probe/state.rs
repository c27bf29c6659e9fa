//! The application's state, and the routes that are no handlers of the framework's.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::{FromRef, Path, Query, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use idem_runtime::problem::UriReference;
use idem_runtime::{Backend, Idempotency};
use serde::Deserialize;
use serde_json::json;
use sqlx::Pool;
use sqlx::pool::PoolOptions;

use super::account::Tokens;
use super::business::{self, Business};
use super::config::Config;
use super::events;
use super::signals;

/// How long the attempts that run have left after a SIGTERM.
const DRAIN: Duration = Duration::from_secs(30);

pub(crate) struct App<DB: Backend> {
    idempotency: Idempotency<DB>,
    tokens: Arc<Tokens>,
    database_url: Arc<str>,
}

impl<DB: Backend> Clone for App<DB> {
    fn clone(&self) -> App<DB> {
        App {
            idempotency: self.idempotency.clone(),
            tokens: Arc::clone(&self.tokens),
            database_url: Arc::clone(&self.database_url),
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

impl<DB: Backend + Business> App<DB> {
    /// Connects, migrates, and creates the business tables.
    pub(crate) async fn new(config: &Config) -> Result<App<DB>, Box<dyn std::error::Error>> {
        signals::install();
        let options = PoolOptions::<DB>::new().max_connections(config.pool_size);
        let pool: Pool<DB> = DB::connect(idem_runtime::guard(options), config).await?;
        DB::static_pool()
            .set(pool.clone())
            .expect("one application a process");
        DB::create_tables(&pool).await?;
        let status = UriReference::parse("/operations")?;
        let mut builder = Idempotency::builder(pool)
            .status_link(status)
            .round_trips(config.round_trips);
        if let Some(wait) = config.wait {
            builder = builder.wait(wait);
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
        })
    }

    /// Serves until SIGTERM, and then until what runs has ended.
    pub(crate) async fn serve(
        self,
        handlers: Router<App<DB>>,
        address: &str,
    ) -> Result<(), Box<dyn std::error::Error>> {
        let idempotency = self.idempotency.clone();
        let router = handlers
            .route("/effects", get(effects::<DB>))
            .route("/entered", get(entered))
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

#[derive(Deserialize)]
struct With {
    key_digest: Option<String>,
}

async fn entered(Query(with): Query<With>) -> Response {
    Json(json!({ "count": business::entered(with.key_digest.as_deref()) })).into_response()
}

async fn revoke<DB: Backend>(State(app): State<App<DB>>, Path(token): Path<String>) -> StatusCode {
    if app.tokens.revoke(&token) {
        StatusCode::NO_CONTENT
    } else {
        StatusCode::NOT_FOUND
    }
}
