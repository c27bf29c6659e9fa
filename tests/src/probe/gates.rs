//! Gates: a handler that is asked to stands at one until a test opens it. So a test knows what is in flight, however
//! slow the machine is.

use std::collections::HashMap;
use std::sync::Mutex;

use axum::Json;
use axum::body::Body;
use axum::extract::{Path, Request};
use axum::http::StatusCode;
use axum::middleware::Next;
use axum::response::Response;
use futures_util::StreamExt;
use serde::Serialize;
use tokio::sync::watch;

/// The header field that names a gate.
pub(crate) const FIELD: &str = "x-probe-gate";

/// One gate; closed at first.
#[derive(Default)]
struct Gate {
    seen: Seen,
    open: watch::Sender<bool>,
}

/// What was seen at a gate so far.
#[derive(Clone, Copy, Default, Serialize)]
struct Seen {
    /// Requests that name it and have been read whole: the framework has them.
    requests: u64,
    /// Handlers that came to stand at it.
    handlers: u64,
}

static GATES: Mutex<Option<HashMap<String, Gate>>> = Mutex::new(None);

fn with<T>(name: &str, act: impl FnOnce(&mut Gate) -> T) -> T {
    let mut gates = GATES.lock().expect("no holder panics");
    let gate = gates.get_or_insert_default();
    act(gate.entry(name.to_owned()).or_default())
}

/// Stands at a gate until it is open.
pub(crate) async fn pass(name: &str) {
    let mut open = with(name, |gate| {
        gate.seen.handlers += 1;
        gate.open.subscribe()
    });
    let _ = open.wait_for(|open| *open).await;
}

/// Counts a request once its body is read, or given up.
struct Arriving(String);

impl Drop for Arriving {
    fn drop(&mut self) {
        with(&self.0, |gate| gate.seen.requests += 1);
    }
}

/// Counts the requests that name a gate.
pub(crate) async fn count(request: Request, next: Next) -> Response {
    let name = request.headers().get(FIELD);
    let Some(name) = name.and_then(|value| value.to_str().ok()) else {
        return next.run(request).await;
    };
    let arriving = Arriving(name.to_owned());
    let counted = |body: Body| {
        Body::from_stream(body.into_data_stream().map(move |data| {
            let _held = &arriving;
            data
        }))
    };
    next.run(request.map(counted)).await
}

/// `GET /gates/{name}`
pub(crate) async fn seen(Path(name): Path<String>) -> Json<impl Serialize> {
    Json(with(&name, |gate| gate.seen))
}

/// `POST /gates/{name}/open`
pub(crate) async fn open(Path(name): Path<String>) -> StatusCode {
    with(&name, |gate| gate.open.send_replace(true));
    StatusCode::NO_CONTENT
}
