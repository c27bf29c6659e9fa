//! Handlers that break the contract, each in a way that services were found to.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::{FromRef, FromRequestParts, Path, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use axum::{Json, Router};
use idem_runtime::{EffectFree, Idempotency, Tx, idempotent};
use sqlx::{Sqlite, SqlitePool};
use tokio::sync::watch;

#[derive(Clone, FromRef)]
pub(crate) struct AppState {
    pub(crate) idempotency: Idempotency<Sqlite>,
    pub(crate) pool: SqlitePool,
    /// The keys that were looked for and not found; all instances share it.
    pub(crate) looked: Arc<watch::Sender<Vec<String>>>,
}

/// How long a key is worked on that no other request has.
const ALONE: Duration = Duration::from_secs(3);

/// A way past the check of a handler's arguments.
#[derive(Clone, EffectFree)]
struct Smuggled {
    #[effect_free(trust = "the fault that is planted here")]
    pool: SqlitePool,
}

impl FromRef<AppState> for Smuggled {
    fn from_ref(state: &AppState) -> Self {
        Smuggled {
            pool: state.pool.clone(),
        }
    }
}

async fn effect(pool: &SqlitePool) {
    sqlx::query("INSERT INTO effects (n) VALUES (1)")
        .execute(pool)
        .await
        .unwrap();
}

/// An extractor that writes, through a connection of its own: it runs on replays too.
#[derive(EffectFree)]
struct Audited;

impl FromRequestParts<AppState> for Audited {
    type Rejection = StatusCode;

    async fn from_request_parts(_: &mut Parts, state: &AppState) -> Result<Self, StatusCode> {
        effect(&state.pool).await;
        Ok(Audited)
    }
}

#[idempotent(scope = "account")]
async fn replays_yet_writes_twice(
    _tx: &mut Tx<Sqlite>,
    Path(account): Path<String>,
    _audited: Audited,
    _body: String,
) -> (StatusCode, String) {
    (StatusCode::CREATED, account)
}

#[idempotent(scope = "account", errors = "release")]
async fn answers_before_it_writes(
    _tx: &mut Tx<Sqlite>,
    Path(account): Path<String>,
    State(Smuggled { pool }): State<Smuggled>,
    _body: String,
) -> (StatusCode, String) {
    #[allow(clippy::disallowed_methods, reason = "the planted fault")]
    tokio::spawn(async move {
        tokio::time::sleep(Duration::from_millis(50)).await;
        // Both at once: whoever counts sees none of them, or two.
        sqlx::query("INSERT INTO effects (n) VALUES (1), (1)")
            .execute(&pool)
            .await
            .unwrap();
    });
    (StatusCode::CREATED, account)
}

/// What a first version of every service does: look, work, remember.
async fn checks_then_inserts(
    State(state): State<AppState>,
    headers: HeaderMap,
    body: String,
) -> Response {
    let key = format!("{:?}", headers["idempotency-key"]);
    let found: Option<(String, String)> =
        sqlx::query_as("SELECT body, answer FROM answers WHERE id = ?")
            .bind(&key)
            .fetch_optional(&state.pool)
            .await
            .unwrap();
    if let Some((first, answer)) = found {
        if first != body {
            return StatusCode::UNPROCESSABLE_ENTITY.into_response();
        }
        return (
            StatusCode::CREATED,
            [("idempotent-replayed", "true")],
            answer,
        )
            .into_response();
    }
    // A service's own work: long enough for another request to look as well.
    let mut looked = state.looked.subscribe();
    state.looked.send_modify(|looked| looked.push(key.clone()));
    let beside = async {
        let both = |looked: &Vec<String>| looked.iter().filter(|other| **other == key).count() > 1;
        let _ = looked.wait_for(both).await;
    };
    let _ = tokio::time::timeout(ALONE, beside).await;
    effect(&state.pool).await;
    sqlx::query("INSERT OR IGNORE INTO answers (id, body, answer) VALUES (?, ?, 'done')")
        .bind(&key)
        .bind(&body)
        .execute(&state.pool)
        .await
        .unwrap();
    (StatusCode::CREATED, "done").into_response()
}

/// Remembers keys and not what they were for.
async fn ignores_the_request(State(state): State<AppState>, headers: HeaderMap) -> Response {
    let key = format!("{:?}", headers["idempotency-key"]);
    let mut tx = state.pool.begin_with("BEGIN IMMEDIATE").await.unwrap();
    let inserted =
        sqlx::query("INSERT OR IGNORE INTO answers (id, body, answer) VALUES (?, '', '')")
            .bind(&key)
            .execute(&mut *tx)
            .await
            .unwrap()
            .rows_affected();
    if inserted == 1 {
        sqlx::query("INSERT INTO effects (n) VALUES (1)")
            .execute(&mut *tx)
            .await
            .unwrap();
    }
    tx.commit().await.unwrap();
    let mut response = (StatusCode::CREATED, "done").into_response();
    if inserted == 0 {
        let headers = response.headers_mut();
        headers.insert("idempotent-replayed", "true".parse().unwrap());
    }
    response
}

/// One effect, but an answer that nobody can rely on.
#[idempotent(scope = "account")]
async fn changes_its_mind(
    tx: &mut Tx<Sqlite>,
    Path(account): Path<String>,
    _body: String,
) -> Json<String> {
    sqlx::query("INSERT INTO effects (n) VALUES (1)")
        .execute(&mut *tx)
        .await
        .unwrap();
    Json(account)
}

async fn another_answer(response: Response) -> Response {
    let mut response = response;
    let now = format!("{:?}", std::time::Instant::now());
    response
        .headers_mut()
        .insert("location", now.parse().unwrap());
    response
}

pub(crate) fn service(state: AppState) -> Router {
    Router::new()
        .route("/writes-twice/{account}", post(replays_yet_writes_twice))
        .route("/late/{account}", post(answers_before_it_writes))
        .route("/checks/{account}", post(checks_then_inserts))
        .route("/ignores/{account}", post(ignores_the_request))
        .route(
            "/mind/{account}",
            post(changes_its_mind).layer(axum::middleware::map_response(another_answer)),
        )
        .with_state(state)
}
