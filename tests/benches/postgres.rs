//! First executions and replays on PostgreSQL, against the same handler with its idempotency written by
//! hand as plain sqlx, and against the handler without any.
//!
//! `IDEM_POSTGRES_URL=postgres://… cargo bench -p idem-tests --no-default-features --bench postgres`
//!
//! The contenders take turns, in rounds of one run; what counts is the median of the rounds' ratios.
//! The last rows have a proxy that adds half a millisecond to each round trip (with `--latency`, only those).
//! `--separate` sends each of the library's statements in a message of its own.

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
use idem_runtime::{EffectFree, Idempotency, RoundTrips, Tx, idempotent};
use idem_tests::proxy::Proxy;
use idem_tests::servers::{Backend, TestDatabase};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::{PgConnection, PgPool, Postgres, Row};
use tower::ServiceExt;

const ROUNDS: usize = 7;
const ROUND: Duration = Duration::from_millis(1500);

#[derive(Clone)]
struct App {
    idempotency: Idempotency<Postgres>,
    pool: PgPool,
}

impl FromRef<App> for Idempotency<Postgres> {
    fn from_ref(app: &App) -> Self {
        app.idempotency.clone()
    }
}

#[derive(EffectFree)]
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

#[derive(Deserialize)]
struct NewOrder {
    item: String,
    quantity: i32,
}

#[derive(Serialize)]
struct Order {
    id: i64,
    item: String,
    quantity: i32,
}

#[derive(Debug)]
struct Failed(#[allow(dead_code)] sqlx::Error);

impl From<sqlx::Error> for Failed {
    fn from(error: sqlx::Error) -> Self {
        Self(error)
    }
}

impl IntoResponse for Failed {
    fn into_response(self) -> Response {
        StatusCode::INTERNAL_SERVER_ERROR.into_response()
    }
}

async fn insert_order(db: &mut PgConnection, account: &str, new: NewOrder) -> sqlx::Result<Order> {
    let id = sqlx::query_scalar(
        "INSERT INTO orders (account, item, quantity) VALUES ($1, $2, $3) RETURNING id",
    )
    .bind(account)
    .bind(&new.item)
    .bind(new.quantity)
    .fetch_one(db)
    .await?;
    Ok(Order {
        id,
        item: new.item,
        quantity: new.quantity,
    })
}

#[idempotent(scope = "account", ttl = "48h")]
async fn idem(
    tx: &mut Tx<Postgres>,
    Account(account): Account,
    Json(new): Json<NewOrder>,
) -> Result<(StatusCode, Json<Order>), Failed> {
    Ok((
        StatusCode::CREATED,
        Json(insert_order(tx, &account, new).await?),
    ))
}

/// No protection: a retry makes a second order.
async fn plain(
    State(app): State<App>,
    Account(account): Account,
    Json(new): Json<NewOrder>,
) -> Result<(StatusCode, Json<Order>), Failed> {
    let mut tx = app.pool.begin().await?;
    let order = insert_order(&mut tx, &account, new).await?;
    tx.commit().await?;
    Ok((StatusCode::CREATED, Json(order)))
}

/// What a careful engineer writes: claim, work, complete, in one transaction.
async fn by_hand(
    State(app): State<App>,
    Account(account): Account,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response, Failed> {
    let Some(key) = headers
        .get("idempotency-key")
        .and_then(|key| key.to_str().ok())
    else {
        return Ok(StatusCode::BAD_REQUEST.into_response());
    };
    let fingerprint = Sha256::digest(&body).to_vec();
    let mut tx = app.pool.begin().await?;
    let claimed = sqlx::query(
        "INSERT INTO by_hand (account, key, fingerprint, created_at) VALUES ($1, $2, $3, now()) \
         ON CONFLICT (account, key) DO NOTHING",
    )
    .bind(&account)
    .bind(key)
    .bind(&fingerprint)
    .execute(&mut *tx)
    .await?;
    if claimed.rows_affected() == 0 {
        let row = sqlx::query(
            "SELECT fingerprint, status, body FROM by_hand WHERE account = $1 AND key = $2 FOR UPDATE",
        )
        .bind(&account)
        .bind(key)
        .fetch_one(&mut *tx)
        .await?;
        tx.commit().await?;
        if row.try_get::<Vec<u8>, _>(0)? != fingerprint {
            return Ok(StatusCode::UNPROCESSABLE_ENTITY.into_response());
        }
        let status = u16::try_from(row.try_get::<i32, _>(1)?).unwrap_or(500);
        let body: Vec<u8> = row.try_get(2)?;
        return Ok((
            StatusCode::from_u16(status).unwrap_or_default(),
            [("content-type", "application/json")],
            body,
        )
            .into_response());
    }
    let Ok(new) = serde_json::from_slice(&body) else {
        return Ok(StatusCode::UNPROCESSABLE_ENTITY.into_response());
    };
    let order = insert_order(&mut tx, &account, new).await?;
    let answer = serde_json::to_vec(&order).unwrap_or_default();
    sqlx::query(
        "UPDATE by_hand SET status = 201, body = $3, completed_at = now(), \
           expires_at = now() + interval '48 hours' WHERE account = $1 AND key = $2",
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
    CREATE TABLE orders (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, account text NOT NULL, item text NOT NULL, quantity int NOT NULL);
    CREATE TABLE by_hand (account text NOT NULL, key text NOT NULL, fingerprint bytea NOT NULL, status int, body bytea,
        created_at timestamptz NOT NULL, completed_at timestamptz, expires_at timestamptz, PRIMARY KEY (account, key)) WITH (fillfactor = 80);
    CREATE INDEX by_hand_expires_at ON by_hand USING brin (expires_at);
";

fn request(path: &str, key: &str) -> Request<Body> {
    Request::post(path)
        .header("authorization", "alice")
        .header("content-type", "application/json")
        .header("idempotency-key", key)
        .body(Body::from(
            r#"{"item":"The Rust Programming Language","quantity":2}"#,
        ))
        .expect("a valid request")
}

async fn send(app: &Router, path: &str, key: &str) {
    let response = app
        .clone()
        .oneshot(request(path, key))
        .await
        .unwrap_or_else(|never| match never {});
    assert_eq!(response.status(), StatusCode::CREATED, "{path}");
    let _ = axum::body::to_bytes(response.into_body(), usize::MAX).await;
}

/// Requests a second, by `clients` at once. `keys`: fresh ones, or one of those used before.
async fn rate(app: &Router, path: &'static str, clients: usize, keys: Keys) -> f64 {
    let done = Arc::new(AtomicU64::new(0));
    let started = Instant::now();
    let tasks: Vec<_> = (0..clients)
        .map(|client| {
            let (app, done) = (app.clone(), done.clone());
            tokio::spawn(async move {
                while started.elapsed() < ROUND {
                    let key = match keys {
                        Keys::Fresh => uuid::Uuid::new_v4().to_string(),
                        Keys::Used => format!("used-{client}-{}", fastrand::u32(..USED)),
                    };
                    send(&app, path, &key).await;
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

#[derive(Clone, Copy)]
enum Keys {
    Fresh,
    Used,
}

/// Keys a client has used before replays are measured.
const USED: u32 = 200;

fn median(mut of: Vec<f64>) -> f64 {
    of.sort_by(f64::total_cmp);
    of[of.len() / 2]
}

async fn compare(app: &Router, name: &str, clients: usize, keys: Keys) {
    let paths = ["/plain", "/by-hand", "/idem"];
    let paths = match keys {
        Keys::Fresh => &paths[..],
        Keys::Used => &paths[1..],
    };
    if matches!(keys, Keys::Used) {
        for path in paths {
            for client in 0..clients {
                for used in 0..USED {
                    send(app, path, &format!("used-{client}-{used}")).await;
                }
            }
        }
    }
    let mut rates: Vec<Vec<f64>> = vec![Vec::new(); paths.len()];
    for round in 0..ROUNDS {
        for turn in 0..paths.len() {
            let contender = (round + turn) % paths.len();
            rates[contender].push(rate(app, paths[contender], clients, keys).await);
        }
    }
    let ratio = |of: usize, to: usize| {
        median(
            rates[of]
                .iter()
                .zip(&rates[to])
                .map(|(of, to)| of / to)
                .collect(),
        )
    };
    let idem = paths.len() - 1;
    print!(
        "| {name} | {clients} | {:.0} | {:.0} | **{:.2}** |",
        median(rates[idem].clone()),
        median(rates[idem - 1].clone()),
        ratio(idem, idem - 1)
    );
    match keys {
        Keys::Fresh => println!(" {:.2} | {:.2} |", ratio(idem, 0), ratio(idem - 1, 0)),
        Keys::Used => println!(" | |"),
    }
}

/// One contender alone, for a profiler: `PROFILE=/idem`, or `PROFILE=/idem?used` for replays.
async fn profile(app: &Router, path: &'static str) {
    const CLIENTS: usize = 8;
    let (path, keys) = match path.strip_suffix("?used") {
        Some(path) => (path, Keys::Used),
        None => (path, Keys::Fresh),
    };
    for client in 0..CLIENTS {
        for used in 0..USED {
            send(app, path, &format!("used-{client}-{used}")).await;
        }
    }
    for _ in 0..ROUNDS {
        println!(
            "{path}: {:.0} a second",
            rate(app, path, CLIENTS, keys).await
        );
    }
}

async fn app(options: PgConnectOptions, round_trips: RoundTrips) -> Router {
    let pool = PgPoolOptions::new()
        .max_connections(40)
        .min_connections(40)
        .test_before_acquire(false)
        .connect_with(options)
        .await
        .expect("PostgreSQL is there");
    let idempotency = Idempotency::builder(pool.clone())
        .round_trips(round_trips)
        .build()
        .expect("the settings make sense");
    idempotency.migrate().await.expect("the schema is made");
    Router::new()
        .route("/plain", post(plain))
        .route("/by-hand", post(by_hand))
        .route("/idem", post(idem))
        .with_state(App { idempotency, pool })
}

#[tokio::main]
async fn main() {
    let given = |flag: &str| std::env::args().any(|argument| argument == flag);
    let only_latency = given("--latency");
    let round_trips = if given("--separate") {
        RoundTrips::Separate
    } else {
        RoundTrips::Fewest
    };
    let database = TestDatabase::create(Backend::Postgres).await;
    let options: PgConnectOptions = database.url().parse().expect("a database URL");
    let setup = PgPool::connect_with(options.clone())
        .await
        .expect("PostgreSQL is there");
    sqlx::raw_sql(SCHEMA)
        .execute(&setup)
        .await
        .expect("the tables are made");
    println!(
        "| PostgreSQL | clients | idem /s | by hand /s | idem : by hand | idem : unprotected | by hand : unprotected |"
    );
    println!("|---|---|---|---|---|---|---|");
    let direct = app(options, round_trips).await;
    if let Ok(path) = std::env::var("PROFILE") {
        return profile(&direct, path.leak()).await;
    }
    if !only_latency {
        for clients in [1, 8, 32] {
            compare(&direct, "first executions", clients, Keys::Fresh).await;
        }
        for clients in [1, 8, 32] {
            compare(&direct, "replays", clients, Keys::Used).await;
        }
    }
    let proxy = Proxy::start(Backend::Postgres, database.server_address()).await;
    proxy.set_latency(Duration::from_micros(250));
    let far: PgConnectOptions = database
        .url_through(proxy.address())
        .parse()
        .expect("a database URL");
    let far = app(far, round_trips).await;
    for clients in [8, 32] {
        compare(&far, "first executions, 0.5 ms away", clients, Keys::Fresh).await;
    }
}
