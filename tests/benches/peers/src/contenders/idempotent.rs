//! `idempotent`: a claim with a fencing token, and an answer, in Redis. Of this version only the store is for servers; the README shows
//! claim, work and completion in the handler, as here.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use bytes::Bytes;
use idempotent::entry::ExistingEntry;
use idempotent::fingerprint::{DefaultFingerprintStrategy, FingerprintStrategy};
use idempotent::store::valkey::ValkeyStore;
use idempotent::store::{IdempotencyStore, InsertResult};
use idempotent::{CachedResponse, IdempotencyEntry, IdempotencyKey, Metadata};
use sqlx::PgPool;

use super::{BoxError, Setup};
use crate::orders::{Account, Failed, insert_order};

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

#[derive(Clone)]
struct App {
    pool: PgPool,
    store: Arc<ValkeyStore>,
    lease: Duration,
}

pub(super) async fn router(setup: Setup) -> Result<Router, BoxError> {
    let client = redis::Client::open(setup.redis_url)?;
    let app = App {
        pool: setup.pool,
        store: Arc::new(ValkeyStore::new(client).await?),
        lease: setup.lease,
    };
    Ok(Router::new().route("/orders", post(order)).with_state(app))
}

async fn order(
    State(app): State<App>,
    Account(account): Account,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response, Failed> {
    let key = headers.get("idempotency-key");
    let Some(key) = key.and_then(|key| key.to_str().ok()) else {
        return Ok(StatusCode::BAD_REQUEST.into_response());
    };
    let key = IdempotencyKey::new(format!("{account}:{key}"))?;
    let fingerprint = DefaultFingerprintStrategy.compute("POST /orders", &body);
    let entry = IdempotencyEntry::new(fingerprint, app.lease);
    let token = match app.store.try_insert(&key, entry.clone()).await? {
        InsertResult::Claimed { fencing_token } => fencing_token,
        InsertResult::Exists(existing) => return replay(existing, fingerprint),
    };
    let new = serde_json::from_slice(&body)?;
    let mut tx = app.pool.begin().await?;
    let order = insert_order(&mut tx, &account, new).await?;
    tx.commit().await?;
    let body = Bytes::from(serde_json::to_vec(&order)?);
    let mut completed = entry.complete(CachedResponse {
        status_code: 201,
        metadata: Metadata::default(),
        body: body.clone(),
    });
    // The answer outlives the claim.
    completed.ttl = DAY;
    app.store.complete(&key, completed, token).await?;
    Ok(answer(StatusCode::CREATED, body))
}

fn replay(
    existing: ExistingEntry,
    fingerprint: idempotent::Fingerprint,
) -> Result<Response, Failed> {
    match existing {
        ExistingEntry::Completed(entry) if entry.fingerprint_matches(fingerprint) => {
            let response = entry.into_response();
            let status = StatusCode::from_u16(response.status_code)?;
            Ok(answer(status, response.body))
        }
        ExistingEntry::Processing(entry) if entry.fingerprint_matches(fingerprint) => {
            Ok((StatusCode::CONFLICT, "in progress").into_response())
        }
        _ => Ok(StatusCode::UNPROCESSABLE_ENTITY.into_response()),
    }
}

fn answer(status: StatusCode, body: Bytes) -> Response {
    (status, [("content-type", "application/json")], body).into_response()
}
