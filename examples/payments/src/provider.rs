//! A fake payment provider, as a service of its own: `payments provider`.
//!
//! What a request's `source` says decides what goes wrong.
//!
//! | `source` | |
//! |---|---|
//! | `tok_declined` | 402, and no money moves |
//! | `tok_busy` | 429 at the first request, and no money moves |
//! | `tok_cut` | at the first request the connection breaks, and no money moves |
//! | `tok_lost` | money moves, and the connection breaks before the answer |
//! | `tok_slow` | money moves, and the answer comes a minute later |
//! | another | money moves |

mod ledger;

use std::io;
use std::path::Path;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{Path as PathParameter, State};
use axum::http::header::RETRY_AFTER;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use futures_util::stream;
use serde::Deserialize;
use serde_json::json;

pub use self::ledger::{Entry, Ledger};

/// The routes of a provider with its ledger in a file.
pub fn router(ledger: &Path) -> io::Result<Router> {
    Ok(Router::new()
        .route("/charges", post(charge))
        .route("/debits", post(debit))
        .route("/debits/{reference}", get(find_debit))
        .route("/redemptions", post(redeem))
        .route("/ledger", get(entries))
        .with_state(Ledger::open(ledger)?))
}

#[derive(Deserialize)]
struct Order {
    source: String,
    cents: i64,
    reference: Option<String>,
}

/// Honours `Idempotency-Key`.
async fn charge(
    State(ledger): State<Ledger>,
    headers: HeaderMap,
    Json(order): Json<Order>,
) -> Result<Response, Failure> {
    let key = headers
        .get("idempotency-key")
        .and_then(|key| key.to_str().ok());
    let Some(key) = key else {
        return Ok(StatusCode::BAD_REQUEST.into_response());
    };
    if let Some(first) = ledger.find("charge", key) {
        ledger.note(&Entry::request(
            "charge",
            Some(key),
            &order.source,
            order.cents,
        ))?;
        return Ok(paid(first).into_response());
    }
    pay(&ledger, "charge", Some(key), &order).await
}

/// Each request is a debit.
async fn debit(
    State(ledger): State<Ledger>,
    Json(order): Json<Order>,
) -> Result<Response, Failure> {
    pay(&ledger, "debit", order.reference.as_deref(), &order).await
}

async fn find_debit(
    State(ledger): State<Ledger>,
    PathParameter(reference): PathParameter<String>,
) -> Response {
    match ledger.find("debit", &reference) {
        Some(payment) => Json(json!({ "id": payment })).into_response(),
        None => StatusCode::NOT_FOUND.into_response(),
    }
}

/// Each request is a redemption, and nothing tells two of them apart.
async fn redeem(
    State(ledger): State<Ledger>,
    Json(order): Json<Order>,
) -> Result<Response, Failure> {
    pay(&ledger, "redemption", None, &order).await
}

/// What came, and what moved.
async fn entries(State(ledger): State<Ledger>) -> Json<Vec<Entry>> {
    Json(ledger.entries())
}

async fn pay(
    ledger: &Ledger,
    kind: &str,
    reference: Option<&str>,
    order: &Order,
) -> Result<Response, Failure> {
    let mut entry = Entry::request(kind, reference, &order.source, order.cents);
    let came_before = ledger.has(&entry);
    match order.source.as_str() {
        "tok_declined" => {
            ledger.note(&entry)?;
            let declined = json!({ "code": "card_declined" });
            return Ok((StatusCode::PAYMENT_REQUIRED, Json(declined)).into_response());
        }
        "tok_busy" if !came_before => {
            ledger.note(&entry)?;
            let later = [(RETRY_AFTER, "1")];
            return Ok((StatusCode::TOO_MANY_REQUESTS, later).into_response());
        }
        "tok_cut" if !came_before => {
            ledger.note(&entry)?;
            return Ok(broken());
        }
        _ => {}
    }
    let payment = ledger.pay(&mut entry)?;
    match order.source.as_str() {
        "tok_slow" => tokio::time::sleep(Duration::from_secs(60)).await,
        "tok_lost" => return Ok(broken()),
        _ => {}
    }
    Ok(paid(payment).into_response())
}

fn paid(payment: String) -> impl IntoResponse {
    (StatusCode::CREATED, Json(json!({ "id": payment })))
}

/// The connection ends before there is an answer.
fn broken() -> Response {
    let body = stream::once(async { Err::<String, _>(io::Error::other("broken")) });
    (StatusCode::CREATED, Body::from_stream(body)).into_response()
}

/// The ledger can't be written.
struct Failure;

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        tracing::error!(%error, "the ledger can't be written");
        Self
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        StatusCode::INTERNAL_SERVER_ERROR.into_response()
    }
}
