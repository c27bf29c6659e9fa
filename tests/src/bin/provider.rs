//! A payment provider that fails on request and remembers every attempt.
//!
//! `ADDR` (default 127.0.0.1:0) and `LEDGER`, a file that outlives the process, come from the
//! environment. It prints one line, `listening on http://IP:PORT`, once it can serve.

#[path = "../provider/connection.rs"]
mod connection;
#[path = "../provider/ledger.rs"]
mod ledger;

use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;
use axum::extract::connect_info::ConnectInfo;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use serde_json::json;

use connection::{Connection, Connections};
use ledger::{Charge, Ledger, Outcome};

/// What a caller asks to go wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    None,
    /// Close the connection, and charge nothing.
    DropBefore,
    /// Charge, and close the connection.
    DropAfter,
    /// Charge after this long, whether or not the caller still waits.
    Slow(Duration),
    /// Say no, and charge nothing.
    Refuse,
    /// Charge, and answer 500.
    ErrorAfter,
}

impl Fault {
    fn parse(value: &HeaderValue) -> Option<Fault> {
        Some(match value.to_str().ok()? {
            "" => Fault::None,
            "drop-before" => Fault::DropBefore,
            "drop-after" => Fault::DropAfter,
            "refuse" => Fault::Refuse,
            "500-after" => Fault::ErrorAfter,
            slow => Fault::Slow(Duration::from_millis(
                slow.strip_prefix("slow:")?.parse().ok()?,
            )),
        })
    }
}

#[tokio::main]
async fn main() -> std::io::Result<()> {
    let address = std::env::var("ADDR").unwrap_or_else(|_| "127.0.0.1:0".to_owned());
    let path = std::env::var_os("LEDGER").ok_or_else(|| {
        std::io::Error::other("LEDGER must name the file that the charges are kept in")
    })?;
    let ledger = Arc::new(Ledger::open(path.into())?);
    let application = Router::new()
        .route("/charge", post(charge))
        .route("/charges", get(list))
        .route("/charges/by-key/{key}", get(by_key))
        .route("/honour-keys/{switch}", post(honour_keys))
        .route("/healthz", get(async || StatusCode::OK))
        .with_state(ledger);

    let listener = tokio::net::TcpListener::bind(&address).await?;
    println!("listening on http://{}", listener.local_addr()?);
    axum::serve(
        Connections(listener),
        application.into_make_service_with_connect_info::<Connection>(),
    )
    .await
}

async fn charge(
    State(ledger): State<Arc<Ledger>>,
    ConnectInfo(connection): ConnectInfo<Connection>,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let key = headers.get("idempotency-key").map(|key| key.to_str());
    let Some(Ok(key)) = key else {
        return refusal(StatusCode::BAD_REQUEST, "an Idempotency-Key is needed");
    };
    let key = key.to_owned();
    // Also where nothing goes wrong: a fault that comes later is not the key's first.
    let first = ledger.arrives(&key);
    let once = headers.get("x-fault-once").filter(|_| first);
    let asked = headers.get("x-fault").or(once);
    let Some(fault) = asked.map_or(Some(Fault::None), Fault::parse) else {
        return refusal(StatusCode::BAD_REQUEST, "unknown X-Fault");
    };
    // In a task of its own: a caller that gives up takes nothing back.
    let work = tokio::spawn(async move { settle(&ledger, &key, &body, fault).await });
    let Ok(response) = work.await else {
        return refusal(StatusCode::INTERNAL_SERVER_ERROR, "the ledger failed");
    };
    if matches!(fault, Fault::DropBefore | Fault::DropAfter) {
        connection.close();
    }
    response
}

async fn settle(ledger: &Ledger, key: &str, body: &[u8], fault: Fault) -> Response {
    match fault {
        Fault::DropBefore => {
            ledger.attempt(key, body, Outcome::Dropped);
            return StatusCode::OK.into_response();
        }
        Fault::Refuse => {
            ledger.attempt(key, body, Outcome::Refused);
            return refusal(StatusCode::PAYMENT_REQUIRED, "the card was declined");
        }
        Fault::Slow(pause) => tokio::time::sleep(pause).await,
        Fault::None | Fault::DropAfter | Fault::ErrorAfter => {}
    }
    match ledger.charge(key, body) {
        Err(_) => refusal(
            StatusCode::UNPROCESSABLE_ENTITY,
            "this key was used with another body",
        ),
        Ok(_) if fault == Fault::ErrorAfter => {
            refusal(StatusCode::INTERNAL_SERVER_ERROR, "failed after the charge")
        }
        Ok(charge) => (StatusCode::CREATED, Json(charge)).into_response(),
    }
}

async fn list(State(ledger): State<Arc<Ledger>>) -> Response {
    Json(ledger.snapshot()).into_response()
}

async fn by_key(State(ledger): State<Arc<Ledger>>, Path(key): Path<String>) -> Response {
    let charges: Vec<Charge> = ledger.charges_of(&key);
    match charges.first() {
        Some(charge) => Json(charge).into_response(),
        None => refusal(StatusCode::NOT_FOUND, "no charge has this key"),
    }
}

async fn honour_keys(State(ledger): State<Arc<Ledger>>, Path(switch): Path<String>) -> Response {
    match switch.as_str() {
        "on" => ledger.honour_keys(true),
        "off" => ledger.honour_keys(false),
        _ => return refusal(StatusCode::NOT_FOUND, "on or off"),
    }
    StatusCode::NO_CONTENT.into_response()
}

fn refusal(status: StatusCode, message: &str) -> Response {
    (status, Json(json!({ "error": message }))).into_response()
}
