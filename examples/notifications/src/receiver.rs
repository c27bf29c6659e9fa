//! A customer's receiver of webhooks: it believes what is signed, and counts each once.

use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::routing::{get, post};
use axum::{Json, Router};
use idem_runtime::inbox::{Inbox, Processed};
use idem_runtime::outbox::webhook::Verifier;
use serde::{Deserialize, Serialize};
use sqlx::{FromRow, Pool};

use crate::database::{self, Db};
use crate::orders::OrderPlaced;
use crate::worst_moment;

/// What the receiver has.
#[derive(Clone)]
pub struct Receiver {
    pub verifier: Arc<Verifier>,
    pub inbox: Inbox<Db>,
    pub pool: Pool<Db>,
}

/// What the receiver has seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, FromRow)]
pub struct Seen {
    /// Genuine webhooks that came, repetitions among them.
    pub deliveries: i64,
    /// Their ids.
    pub ids: i64,
    /// What was counted.
    pub counted: i64,
}

/// `POST /hooks`, and `GET /seen`.
pub fn router(receiver: Receiver) -> Router {
    Router::new()
        .route("/hooks", post(receive))
        .route("/seen", get(seen))
        .with_state(receiver)
}

/// The id is the inbox's: a webhook that comes again finds its row and is not counted. It is answered with 2xx all the same, or
/// it would come for ever.
async fn receive(
    State(receiver): State<Receiver>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<StatusCode, StatusCode> {
    let id = receiver
        .verifier
        .verify(&headers, &body)
        .map_err(|_| StatusCode::UNAUTHORIZED)?;
    let placed: OrderPlaced =
        serde_json::from_slice(&body).map_err(|_| StatusCode::UNPROCESSABLE_ENTITY)?;
    // For the demo, which wants to know of repetitions, too.
    let noted = database::note_delivery(&receiver.pool, id).await;
    noted.map_err(failed)?;

    let processed = receiver
        .inbox
        .process("statistics", "webhooks", id, async |tx| {
            database::count(&mut *tx, id, &placed).await
        })
        .await
        .map_err(failed)?;
    worst_moment::pass().await;
    Ok(match processed {
        Processed::Done(()) => StatusCode::NO_CONTENT,
        Processed::Duplicate => StatusCode::OK,
    })
}

async fn seen(State(receiver): State<Receiver>) -> Result<Json<Seen>, StatusCode> {
    let seen = database::seen(&receiver.pool).await.map_err(failed)?;
    Ok(Json(seen))
}

fn failed(error: sqlx::Error) -> StatusCode {
    tracing::error!(%error, "the database failed");
    StatusCode::SERVICE_UNAVAILABLE
}
