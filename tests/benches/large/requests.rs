//! The service and its requests.

use axum::Router;
use axum::body::Body;
use axum::extract::Path;
use axum::http::{Request, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use idem_runtime::{Idempotency, Tx, idempotent};
use sqlx::{PgPool, Postgres};
use tower::ServiceExt;

pub(crate) struct Failed;

impl From<sqlx::Error> for Failed {
    fn from(_: sqlx::Error) -> Self {
        Self
    }
}

impl IntoResponse for Failed {
    fn into_response(self) -> Response {
        StatusCode::BAD_GATEWAY.into_response()
    }
}

#[idempotent(scope = "account", ttl = "48h", operation = "orders.create")]
async fn order(
    tx: &mut Tx<Postgres>,
    Path(account): Path<String>,
    body: String,
) -> Result<(StatusCode, String), Failed> {
    let id: i64 =
        sqlx::query_scalar("INSERT INTO orders (account, item) VALUES ($1, $2) RETURNING id")
            .bind(&account)
            .bind(&body)
            .fetch_one(&mut *tx)
            .await?;
    let answer = format!(
        r#"{{"id":{id},"item":{body:?},"state":"accepted","links":{{"self":"/orders/{id}"}}}}"#
    );
    Ok((StatusCode::CREATED, answer))
}

/// A process that remembers no key yet.
pub(crate) fn service(pool: &PgPool) -> Router {
    service_of(Idempotency::new(pool.clone()))
}

pub(crate) fn service_of(idempotency: Idempotency<Postgres>) -> Router {
    Router::new()
        .route("/orders/{account}", post(order))
        .with_state(idempotency)
}

/// Whether it was a replay.
pub(crate) async fn send(app: &Router, key: &str) -> bool {
    let request = Request::post("/orders/alice")
        .header("content-type", "text/plain")
        .header("idempotency-key", key)
        .body(Body::from("The Rust Programming Language"))
        .expect("a valid request");
    let response = app
        .clone()
        .oneshot(request)
        .await
        .unwrap_or_else(|never| match never {});
    assert_eq!(response.status(), StatusCode::CREATED);
    let replayed = response.headers().contains_key("idempotent-replayed");
    let _ = axum::body::to_bytes(response.into_body(), usize::MAX).await;
    replayed
}
