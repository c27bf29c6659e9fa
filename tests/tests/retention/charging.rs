//! Handlers that charge a card, right and wrong ones, and the provider that they charge it at.

use std::collections::HashSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::extract::{FromRef, Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use idem_runtime::steps::{DownstreamKey, Never, Reconciled, Recovery, Unclassified};
use idem_runtime::{EffectFree, External, Idempotency, Steps, Tx, idempotent};
use sqlx::{Sqlite, SqliteConnection, SqlitePool};
use uuid::Uuid;

/// A provider, and what it did.
#[derive(Debug, Default)]
pub(crate) struct Provider {
    pub(crate) honours_keys: bool,
    pub(crate) charged: Mutex<Vec<Uuid>>,
}

impl Provider {
    pub(crate) fn charges(&self) -> u64 {
        self.charged.lock().unwrap().len() as u64
    }

    async fn charge(&self, key: &DownstreamKey) -> Result<u64, Unclassified> {
        let mut charged = self.charged.lock().unwrap();
        if !(self.honours_keys && charged.contains(&key.as_uuid())) {
            charged.push(key.as_uuid());
        }
        Ok(charged.iter().collect::<HashSet<_>>().len() as u64)
    }

    async fn find(&self, key: &DownstreamKey) -> Result<Reconciled<u64>, Unclassified> {
        let charged = self.charged.lock().unwrap();
        Ok(
            match charged.iter().position(|charge| *charge == key.as_uuid()) {
                Some(position) => Reconciled::Found(position as u64 + 1),
                None => Reconciled::Absent,
            },
        )
    }
}

#[derive(Clone, FromRef)]
pub(crate) struct AppState {
    pub(crate) idempotency: Idempotency<Sqlite>,
    pub(crate) provider: External<Provider>,
    pub(crate) smuggled: Smuggled,
}

/// A way past the check of a handler's arguments.
#[derive(Clone, EffectFree)]
pub(crate) struct Smuggled {
    #[effect_free(trust = "the fault that is planted here")]
    pub(crate) provider: Arc<Provider>,
    /// A database of its own: on SQLite a second connection can't write while the handler's has the turn.
    #[effect_free(trust = "the fault that is planted here")]
    pub(crate) ledger: SqlitePool,
}

#[derive(Debug)]
pub(crate) struct Failed(String);

impl From<sqlx::Error> for Failed {
    fn from(error: sqlx::Error) -> Self {
        Failed(error.to_string())
    }
}

impl From<Never> for Failed {
    fn from(never: Never) -> Self {
        match never {}
    }
}

impl IntoResponse for Failed {
    fn into_response(self) -> Response {
        (StatusCode::INTERNAL_SERVER_ERROR, self.0).into_response()
    }
}

async fn effect(db: &mut SqliteConnection) -> Result<(), Failed> {
    sqlx::query("INSERT INTO effects (n) VALUES (1)")
        .execute(db)
        .await?;
    Ok(())
}

/// In a helper, where no lint of a handler's body looks.
async fn effect_in(ledger: &SqlitePool) -> Result<(), Failed> {
    effect(&mut *ledger.acquire().await?).await
}

async fn settled(db: &mut SqliteConnection) -> Result<(), Failed> {
    sqlx::query("UPDATE effects SET n = n + 1")
        .execute(db)
        .await?;
    Ok(())
}

/// Right where the provider honours keys.
#[idempotent(scope = "account", operation = "charges.by-key")]
pub(crate) async fn by_key(
    steps: &mut Steps<Sqlite, Failed>,
    Path(account): Path<String>,
    State(provider): State<External<Provider>>,
) -> Result<(StatusCode, String), Failed> {
    steps
        .atomic("reserve", async |tx: &mut Tx<Sqlite>| effect(tx).await)
        .await?;
    let charge = steps
        .external("charge", &provider, ())
        .key_lifetime(Duration::from_secs(3600))
        .call(async |provider: &Provider, key, ()| provider.charge(key).await)
        .await?;
    steps
        .atomic("settle", async |tx: &mut Tx<Sqlite>| settled(tx).await)
        .await?;
    Ok((StatusCode::CREATED, format!("{account}: {charge}")))
}

/// Right where the provider can be asked.
#[idempotent(scope = "account", operation = "charges.by-asking")]
pub(crate) async fn by_asking(
    steps: &mut Steps<Sqlite, Failed>,
    Path(account): Path<String>,
    State(provider): State<External<Provider>>,
) -> Result<(StatusCode, String), Failed> {
    let charge = steps
        .external("charge", &provider, ())
        .timeout(Duration::from_millis(500))
        .in_flight_limit(Duration::from_secs(1))
        .reconcile(async |provider: &Provider, key: &DownstreamKey| provider.find(key).await)
        .call(async |provider: &Provider, key, ()| provider.charge(key).await)
        .await?;
    steps
        .atomic("receipt", async |tx: &mut Tx<Sqlite>| effect(tx).await)
        .await?;
    Ok((StatusCode::CREATED, format!("{account}: {charge}")))
}

/// Right where the provider neither honours keys nor can be asked.
#[idempotent(scope = "account", operation = "charges.at-most-once")]
pub(crate) async fn at_most_once(
    steps: &mut Steps<Sqlite, Failed>,
    Path(account): Path<String>,
    State(provider): State<External<Provider>>,
) -> Result<(StatusCode, String), Failed> {
    let charge = steps
        .external("charge", &provider, ())
        .at_most_once()
        .call(async |provider: &Provider, key, ()| provider.charge(key).await)
        .await?;
    steps
        .atomic("receipt", async |tx: &mut Tx<Sqlite>| effect(tx).await)
        .await?;
    Ok((StatusCode::CREATED, format!("{account}: {charge}")))
}

/// Calls between two steps, and thus again whenever it runs again.
#[idempotent(scope = "account", operation = "charges.outside-a-step")]
pub(crate) async fn outside_a_step(
    steps: &mut Steps<Sqlite, Failed>,
    Path(account): Path<String>,
    State(Smuggled { provider, .. }): State<Smuggled>,
) -> Result<(StatusCode, String), Failed> {
    steps
        .atomic("reserve", async |tx: &mut Tx<Sqlite>| effect(tx).await)
        .await?;
    provider.charged.lock().unwrap().push(steps.operation_id());
    steps
        .atomic("settle", async |tx: &mut Tx<Sqlite>| settled(tx).await)
        .await?;
    Ok((StatusCode::CREATED, account))
}

/// Writes through another connection than its own.
#[idempotent(scope = "account")]
pub(crate) async fn beside_its_transaction(
    tx: &mut Tx<Sqlite>,
    Path(account): Path<String>,
    State(Smuggled { ledger, .. }): State<Smuggled>,
) -> Result<(StatusCode, String), Failed> {
    settled(tx).await?;
    effect_in(&ledger).await?;
    Ok((StatusCode::CREATED, account))
}

pub(crate) fn service(state: AppState) -> Router {
    Router::new()
        .route("/by-key/{account}", post(by_key))
        .route("/by-asking/{account}", post(by_asking))
        .route("/at-most-once/{account}", post(at_most_once))
        .route("/outside-a-step/{account}", post(outside_a_step))
        .route("/beside/{account}", post(beside_its_transaction))
        .with_state(state)
}

pub(crate) fn recovery(state: &AppState) -> Recovery<Sqlite, AppState> {
    state
        .idempotency
        .recovery(state.clone())
        .register(by_key)
        .register(by_asking)
        .register(at_most_once)
        .register(outside_a_step)
}
