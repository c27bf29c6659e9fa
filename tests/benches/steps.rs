//! A handler with three steps (atomic, external, atomic) on PostgreSQL, against the same state machine written by hand as plain
//! sqlx with the same durable points; and the recovery of ten thousand operations beside a million completed keys.
//!
//! `IDEM_POSTGRES_URL=postgres://… cargo bench -p idem-tests --no-default-features --bench steps`
//!
//! The provider answers at once, in the same process. The contenders take turns, in rounds of one run; what counts is the
//! median of the rounds' ratios. `--recovery` measures the recovery alone, `--small` beside a thousandth of the keys.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use axum::body::Body;
use axum::extract::{FromRef, FromRequestParts, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, Request, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use axum::{Json, Router};
use bytes::Bytes;
use idem_runtime::steps::{CallFailure, Classify, DownstreamKey, Recovered};
use idem_runtime::{EffectFree, External, Idempotency, Scope, Steps, idempotent};
use idem_tests::servers::{Backend, TestDatabase};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use sqlx::postgres::PgPoolOptions;
use sqlx::{PgConnection, PgPool, Postgres, Row};
use tower::ServiceExt;

const ROUNDS: usize = 7;
const ROUND: Duration = Duration::from_millis(1500);
const EXPIRED: i64 = 10_000;

#[derive(Clone)]
struct App {
    idempotency: Idempotency<Postgres>,
    gateway: External<Gateway>,
    pool: PgPool,
}

impl FromRef<App> for Idempotency<Postgres> {
    fn from_ref(app: &App) -> Self {
        app.idempotency.clone()
    }
}

impl FromRef<App> for External<Gateway> {
    fn from_ref(app: &App) -> Self {
        app.gateway.clone()
    }
}

#[derive(EffectFree, Scope, Serialize, Deserialize)]
struct Account(String);

impl<S: Send + Sync> FromRequestParts<S> for Account {
    type Rejection = StatusCode;
    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, StatusCode> {
        let token = parts.headers.get("authorization");
        token
            .and_then(|token| token.to_str().ok())
            .map(|token| Self(token.to_owned()))
            .ok_or(StatusCode::UNAUTHORIZED)
    }
}

#[derive(Clone, Serialize, Deserialize)]
struct NewCharge {
    item: String,
    cents: i64,
}

#[derive(Serialize, Deserialize)]
struct Charge {
    id: String,
}

/// A provider that answers at once.
struct Gateway;

struct Refused;

#[derive(Debug, Serialize, Deserialize)]
struct Declined;

impl Classify for Refused {
    type Refusal = Declined;
    fn classify(self) -> CallFailure<Declined> {
        CallFailure::Refused(Declined)
    }
}

impl Gateway {
    async fn charge(&self, key: &str, new: &NewCharge) -> Result<Charge, Refused> {
        if new.cents < 0 {
            return Err(Refused);
        }
        Ok(Charge {
            id: format!("ch_{key}"),
        })
    }
}

#[derive(Debug)]
struct Failed;

impl From<sqlx::Error> for Failed {
    fn from(_: sqlx::Error) -> Self {
        Self
    }
}

impl From<Declined> for Failed {
    fn from(_: Declined) -> Self {
        Self
    }
}

impl IntoResponse for Failed {
    fn into_response(self) -> Response {
        StatusCode::INTERNAL_SERVER_ERROR.into_response()
    }
}

async fn reserve(db: &mut PgConnection, account: &str, new: &NewCharge) -> sqlx::Result<i64> {
    sqlx::query_scalar("INSERT INTO orders (account, item, cents) VALUES ($1, $2, $3) RETURNING id")
        .bind(account)
        .bind(&new.item)
        .bind(new.cents)
        .fetch_one(db)
        .await
}

async fn settle(db: &mut PgConnection, order: i64, charge: &Charge) -> sqlx::Result<()> {
    sqlx::query("UPDATE orders SET charge = $2 WHERE id = $1")
        .bind(order)
        .bind(&charge.id)
        .execute(db)
        .await?;
    Ok(())
}

#[idempotent(scope = "account", ttl = "48h", operation = "charges.create")]
async fn idem(
    steps: &mut Steps<Postgres, Failed>,
    account: Account,
    State(gateway): State<External<Gateway>>,
    Json(new): Json<NewCharge>,
) -> Result<(StatusCode, Json<Charge>), Failed> {
    let order = steps
        .atomic("reserve", async |tx| {
            Ok(reserve(tx, &account.0, &new).await?)
        })
        .await?;
    let charge = steps
        .external("charge", &gateway, new)
        .key_lifetime(Duration::from_secs(24 * 3600))
        .call(async |gateway, key: &DownstreamKey, input| {
            gateway.charge(&key.to_string(), input).await
        })
        .await?;
    steps
        .atomic("settle", async |tx| Ok(settle(tx, order, &charge).await?))
        .await?;
    Ok((StatusCode::CREATED, Json(charge)))
}

/// What a careful engineer writes: three commits, each with the state that a recovery would need.
async fn by_hand(
    State(app): State<App>,
    Account(account): Account,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response, Failed> {
    let key = headers
        .get("idempotency-key")
        .and_then(|key| key.to_str().ok())
        .ok_or(Failed)?;
    let fingerprint = Sha256::digest(&body).to_vec();
    let new: NewCharge = serde_json::from_slice(&body).map_err(|_| Failed)?;
    let claimed = sqlx::query(
        "INSERT INTO by_hand (account, key, fingerprint, state, input, lease_until, created_at) \
         VALUES ($1, $2, $3, 'started', $4, now() + interval '30 seconds', now()) \
         ON CONFLICT (account, key) DO NOTHING",
    )
    .bind(&account)
    .bind(key)
    .bind(&fingerprint)
    .bind(&body[..])
    .execute(&app.pool)
    .await?;
    if claimed.rows_affected() == 0 {
        return Ok(StatusCode::CONFLICT.into_response());
    }
    let mut tx = app.pool.begin().await?;
    let order = reserve(&mut tx, &account, &new).await?;
    let downstream: String = Sha256::digest(key.as_bytes())
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    sqlx::query(
        "UPDATE by_hand SET state = 'charging', order_id = $3, downstream = $4, \
           lease_until = now() + interval '30 seconds' WHERE account = $1 AND key = $2 AND state = 'started'",
    )
    .bind(&account)
    .bind(key)
    .bind(order)
    .bind(&downstream)
    .execute(&mut *tx)
    .await?;
    tx.commit().await?;
    let charge = Gateway
        .charge(&downstream, &new)
        .await
        .map_err(|_| Failed)?;
    let answer = serde_json::to_vec(&charge).unwrap_or_default();
    let mut tx = app.pool.begin().await?;
    settle(&mut tx, order, &charge).await?;
    sqlx::query(
        "UPDATE by_hand SET state = 'completed', input = NULL, status = 201, body = $3, completed_at = now(), \
           expires_at = now() + interval '48 hours' WHERE account = $1 AND key = $2 AND state = 'charging'",
    )
    .bind(&account)
    .bind(key)
    .bind(&answer)
    .execute(&mut *tx)
    .await?;
    tx.commit().await?;
    Ok((
        StatusCode::CREATED,
        [("content-type", "application/json")],
        answer,
    )
        .into_response())
}

const SCHEMA: &str = "
    CREATE TABLE orders (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, account text NOT NULL, item text NOT NULL,
        cents bigint NOT NULL, charge text);
    CREATE TABLE by_hand (account text NOT NULL, key text NOT NULL, fingerprint bytea NOT NULL, state text NOT NULL, input bytea,
        order_id bigint, downstream text, lease_until timestamptz, status int, body bytea, created_at timestamptz NOT NULL,
        completed_at timestamptz, expires_at timestamptz, PRIMARY KEY (account, key)) WITH (fillfactor = 80);
    CREATE INDEX by_hand_lease ON by_hand (lease_until) WHERE state <> 'completed';
    CREATE INDEX by_hand_expires_at ON by_hand USING brin (expires_at);
";

async fn send(app: &Router, path: &str, key: &str) -> StatusCode {
    let request = Request::post(path)
        .header("authorization", "alice")
        .header("content-type", "application/json")
        .header("idempotency-key", key)
        .body(Body::from(
            r#"{"item":"The Rust Programming Language","cents":3995}"#,
        ))
        .expect("a valid request");
    let response = app
        .clone()
        .oneshot(request)
        .await
        .unwrap_or_else(|never| match never {});
    let status = response.status();
    let _ = axum::body::to_bytes(response.into_body(), usize::MAX).await;
    status
}

/// Charges a second, by `clients` at once.
async fn rate(app: &Router, path: &'static str, clients: usize) -> f64 {
    let done = Arc::new(AtomicU64::new(0));
    let started = Instant::now();
    let tasks: Vec<_> = (0..clients)
        .map(|_| {
            let (app, done) = (app.clone(), done.clone());
            tokio::spawn(async move {
                while started.elapsed() < ROUND {
                    let key = uuid::Uuid::new_v4().to_string();
                    assert_eq!(send(&app, path, &key).await, StatusCode::CREATED, "{path}");
                    done.fetch_add(1, Ordering::Relaxed);
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.expect("no client fails");
    }
    done.load(Ordering::Relaxed) as f64 / started.elapsed().as_secs_f64()
}

fn median(mut of: Vec<f64>) -> f64 {
    of.sort_by(f64::total_cmp);
    of[of.len() / 2]
}

async fn compare(app: &Router, clients: usize) {
    let (mut idem, mut by_hand, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        let (first, second) = if round % 2 == 0 {
            ("/idem", "/by-hand")
        } else {
            ("/by-hand", "/idem")
        };
        let rates = (
            rate(app, first, clients).await,
            rate(app, second, clients).await,
        );
        let (ours, theirs) = if round % 2 == 0 {
            rates
        } else {
            (rates.1, rates.0)
        };
        idem.push(ours);
        by_hand.push(theirs);
        // Times, and not rates: as the goal is put.
        ratios.push(theirs / ours);
    }
    println!(
        "| three steps | {clients} | {:.0} | {:.0} | **{:.2}** |",
        median(idem),
        median(by_hand),
        median(ratios)
    );
}

/// Copies of one operation whose attempt died in the call of its provider.
async fn recover(app: &App, router: &Router, completed: i64) {
    // The one to copy: its provider refuses nothing, but its process never came to the end.
    let template = "template";
    assert_eq!(send(router, "/idem", template).await, StatusCode::CREATED);
    sqlx::query(
        "INSERT INTO idem_keys (id, scope, operation, state, owner, fingerprint_version, fingerprint, status, headers, body, \
            created_at, completed_at, expires_at, retain_until) \
         SELECT sha256(('done' || n)::bytea), scope, operation, 1, owner, fingerprint_version, fingerprint, status, headers, \
            body, created_at, completed_at, expires_at, retain_until \
           FROM (SELECT * FROM idem_keys WHERE state = 1 ORDER BY created_at DESC LIMIT 1) k, generate_series(1, $1) n",
    )
    .bind(completed)
    .execute(&app.pool)
    .await
    .expect("the completed keys are made");
    sqlx::query(
        "WITH fresh AS ( \
            INSERT INTO idem_keys (id, scope, operation, state, owner, fingerprint_version, fingerprint, status, created_at, completed_at) \
            SELECT sha256(('expired' || n)::bytea), scope, operation, 0, owner, fingerprint_version, fingerprint, 0, now(), now() \
              FROM (SELECT * FROM idem_keys WHERE state = 1 ORDER BY created_at DESC LIMIT 1) k, generate_series(1, $1) n \
            RETURNING id, scope, operation, owner) \
         INSERT INTO idem_operations (id, scope, operation, operation_id, definition, owner, inputs, inputs_sealed, created_at, recorded_at, due_at) \
         SELECT id, scope, operation, substring(id for 16), 1, owner, $2, false, now(), now(), now() FROM fresh",
    )
    .bind(EXPIRED)
    .bind(&br#"["alice",null,{"item":"The Rust Programming Language","cents":3995}]"#[..])
    .execute(&app.pool)
    .await
    .expect("the expired operations are made");
    sqlx::raw_sql("ANALYZE idem_keys; ANALYZE idem_operations; CHECKPOINT")
        .execute(&app.pool)
        .await
        .expect("the tables are analyzed");
    let recovery = app
        .idempotency
        .recovery(app.clone())
        .register(idem)
        .concurrency(32);
    let started = Instant::now();
    let recovered = recovery.run_once().await.expect("the store is there");
    let seconds = started.elapsed().as_secs_f64();
    let ended = recovered
        .iter()
        .filter(|one| **one == Recovered::Completed)
        .count();
    assert_eq!(ended as i64, EXPIRED, "all are completed");
    let left: i64 = sqlx::query("SELECT count(*) FROM idem_operations")
        .fetch_one(&app.pool)
        .await
        .and_then(|row| row.try_get(0))
        .expect("the operations are counted");
    assert_eq!(left, 0);
    println!(
        "| recovery of {EXPIRED} | beside {completed} completed | {:.0} a second |",
        EXPIRED as f64 / seconds
    );
}

#[tokio::main]
async fn main() {
    let given = |flag: &str| std::env::args().any(|argument| argument == flag);
    let database = TestDatabase::create(Backend::Postgres).await;
    let pool = PgPoolOptions::new()
        .max_connections(40)
        .min_connections(40)
        .acquire_timeout(Duration::from_secs(20))
        .test_before_acquire(false)
        .connect(database.url())
        .await
        .expect("PostgreSQL is there");
    sqlx::raw_sql(SCHEMA)
        .execute(&pool)
        .await
        .expect("the tables are made");
    let idempotency = Idempotency::new(pool.clone());
    idempotency.migrate().await.expect("the schema is made");
    idempotency.check().await.expect("all is well");
    let app = App {
        idempotency,
        gateway: External::new(Gateway),
        pool,
    };
    let router = Router::new()
        .route("/idem", post(idem))
        .route("/by-hand", post(by_hand))
        .with_state(app.clone());
    if !given("--recovery") {
        println!("| PostgreSQL | clients | idem /s | by hand /s | time, idem : by hand |");
        println!("|---|---|---|---|---|");
        for clients in [1, 8, 32] {
            compare(&router, clients).await;
        }
    }
    let completed = if given("--small") { 1_000 } else { 1_000_000 };
    recover(&app, &router, completed).await;
}
