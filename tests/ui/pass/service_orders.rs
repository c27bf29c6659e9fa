//! Handlers as layered services write them: repositories and services by trait, generics, macros by example, multipart,
//! webhooks, units of work.
#![deny(warnings)]
#![allow(dead_code)]

#[path = "../support.rs"]
mod support;
use support::*;

use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, Extension, Multipart, OriginalUri, rejection::JsonRejection};
use axum::http::{HeaderMap, HeaderName, header};
use axum::response::Html;
use futures_util::future::BoxFuture;
use sqlx::{Connection, Executor, PgConnection};
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, SystemTime};
use uuid::Uuid;

// A repository is given the connection, and keeps none.

trait Orders: EffectFree + Send + Sync {
    fn insert<'a>(&'a self, db: &'a mut SqliteConnection, item: &'a str) -> BoxFuture<'a, sqlx::Result<i64>>;
    fn fetch_one<'a>(&'a self, db: &'a mut SqliteConnection, id: i64) -> BoxFuture<'a, sqlx::Result<String>>;
}

#[derive(EffectFree)]
struct SqlOrders {
    table: &'static str,
}

impl Orders for SqlOrders {
    fn insert<'a>(&'a self, db: &'a mut SqliteConnection, item: &'a str) -> BoxFuture<'a, sqlx::Result<i64>> {
        Box::pin(sqlx::query_scalar("INSERT INTO orders (item) VALUES (?) RETURNING id").bind(item).fetch_one(db))
    }

    fn fetch_one<'a>(&'a self, db: &'a mut SqliteConnection, id: i64) -> BoxFuture<'a, sqlx::Result<String>> {
        Box::pin(sqlx::query_scalar("SELECT item FROM orders WHERE id = ?").bind(id).fetch_one(db))
    }
}

trait Clock: EffectFree + Send + Sync {
    fn now(&self) -> SystemTime;
}

/// A use case with its dependencies.
#[derive(Clone, EffectFree)]
struct PlaceOrder {
    orders: Arc<dyn Orders>,
    clock: Arc<dyn Clock>,
    limits: BTreeMap<String, u32>,
}

struct Command {
    item: String,
    at: SystemTime,
}

impl Command {
    fn new(item: &str, at: SystemTime) -> Self {
        Self { item: item.to_owned(), at }
    }
}

impl PlaceOrder {
    async fn execute(&self, command: Command, db: &mut SqliteConnection) -> sqlx::Result<i64> {
        self.orders.insert(db, &command.item).await
    }
}

#[idempotent(scope = "account")]
async fn place(
    tx: &mut Tx<Sqlite>,
    account: Account,
    State(service): State<PlaceOrder>,
    Json(new): Json<NewOrder>,
) -> Result<Json<i64>, ApiError> {
    let command = Command::new(&new.item, service.clock.now());
    let id = service.execute(command, tx).await?;
    Ok(Json(id))
}

#[idempotent(scope = "account")]
async fn by_trait_object(
    tx: &mut Tx<Sqlite>,
    account: Account,
    State(orders): State<Arc<dyn Orders>>,
    Path(id): Path<i64>,
) -> Result<String, ApiError> {
    let item = orders.fetch_one(&mut *tx, id).await?;
    orders.insert(tx, &item).await?;
    Ok(item)
}

#[idempotent(scope = "account")]
async fn by_parameter<R>(
    tx: &mut Tx<Sqlite>,
    account: Account,
    State(orders): State<Arc<R>>,
    Json(new): Json<NewOrder>,
) -> Result<(StatusCode, HeaderMap), ApiError>
where
    R: Orders + 'static,
{
    let id = orders.insert(&mut **tx, &new.item).await?;
    let mut headers = HeaderMap::new();
    headers.insert(header::LOCATION, id.to_string().parse().map_err(|_| ApiError)?);
    Ok((StatusCode::CREATED, headers))
}

// A body that several handlers share, and handlers that differ by a type.

#[derive(Deserialize)]
struct Money {
    cents: u64,
    currency: String,
    #[serde(flatten)]
    more: HashMap<String, serde_json::Value>,
}

#[derive(Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
enum Payment {
    Card { number: String, amount: Money },
    Transfer { iban: String, amount: Money, at: Option<SystemTime> },
    Split(Vec<Payment>),
}

#[idempotent(scope = "account", timeout = "5s", max_body = "64KiB")]
async fn pay(tx: &mut Tx<Sqlite>, account: Account, Path(order): Path<Uuid>, Json(payment): Json<Payment>) -> Result<Response, ApiError> {
    let amount = match &payment {
        Payment::Card { amount, .. } | Payment::Transfer { amount, .. } => amount.cents,
        Payment::Split(parts) => parts.len() as u64,
    };
    let operation = tx.operation_id().to_string();
    let mut statement = sqlx::query("INSERT INTO payments (order_id, cents, operation) VALUES (?, ?, ?)");
    statement = statement.bind(order.to_string()).bind(amount as i64).bind(operation);
    statement.execute(&mut *tx).await?;
    Ok((StatusCode::ACCEPTED, Html("<p>paid</p>")).into_response())
}

macro_rules! crud {
    ($module:ident, $body:ty, $sql:literal, |$new:ident| $value:expr) => {
        mod $module {
            use super::*;

            #[idempotent(scope = "account")]
            pub async fn create(tx: &mut Tx<Sqlite>, account: Account, Json($new): Json<$body>) -> Result<StatusCode, ApiError> {
                sqlx::query($sql).bind($value).execute(&mut *tx).await?;
                Ok(StatusCode::CREATED)
            }
        }
    };
}
crud!(prices, Money, "INSERT INTO prices (cents) VALUES (?)", |new| new.cents as i64);
crud!(items, NewOrder, "INSERT INTO items (name) VALUES (?)", |new| new.item);

// What is read from elsewhere than JSON.

#[idempotent(scope = "account", max_body = "10MiB")]
async fn upload(tx: &mut Tx<Sqlite>, account: Account, mut form: Multipart) -> Result<String, ApiError> {
    let mut files = 0;
    while let Some(field) = form.next_field().await.map_err(|_| ApiError)? {
        let name = field.file_name().unwrap_or("unnamed").to_owned();
        let content = field.bytes().await.map_err(|_| ApiError)?;
        sqlx::query("INSERT INTO files (name, content) VALUES (?, ?)").bind(name).bind(&content[..]).execute(&mut *tx).await?;
        files += 1;
    }
    Ok(format!("{files} files"))
}

/// Whose secret signs it.
#[derive(EffectFree, Scope)]
struct Merchant {
    id: String,
}

impl<S: Send + Sync> FromRequestParts<S> for Merchant {
    type Rejection = StatusCode;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, StatusCode> {
        let id = parts.uri.path().rsplit('/').next().unwrap_or_default();
        Ok(Self { id: id.to_owned() })
    }
}

static SIGNATURE: HeaderName = HeaderName::from_static("x-signature");
static LIMITS: LazyLock<HashMap<&str, Duration>> = LazyLock::new(|| HashMap::from([("book", Duration::from_secs(60))]));

#[idempotent(scope = "merchant", fingerprint_headers = ["x-signature"])]
async fn webhook(tx: &mut Tx<Sqlite>, merchant: Merchant, headers: HeaderMap, uri: OriginalUri, body: Bytes) -> Result<StatusCode, StatusCode> {
    let signature = headers.get(&SIGNATURE).ok_or(StatusCode::UNAUTHORIZED)?;
    if signature.len() != body.len() || LIMITS.get("book").is_none() {
        return Err(StatusCode::FORBIDDEN);
    }
    let event: serde_json::Value = serde_json::from_slice(&body).map_err(|_| StatusCode::BAD_REQUEST)?;
    let outcome = sqlx::query("INSERT INTO events (path, body) VALUES (?, ?)")
        .bind(uri.path())
        .bind(event.to_string())
        .execute(&mut *tx)
        .await;
    outcome.map(|_| StatusCode::OK).map_err(|_| StatusCode::INTERNAL_SERVER_ERROR)
}

#[idempotent(scope = "account")]
async fn lenient(
    tx: &mut Tx<Sqlite>,
    account: Account,
    Query(query): Query<HashMap<String, String>>,
    Extension(limits): Extension<Arc<BTreeMap<String, u32>>>,
    body: Result<Json<NewOrder>, JsonRejection>,
) -> Result<StatusCode, Response> {
    let Json(new) = body.map_err(IntoResponse::into_response)?;
    let dry = query.contains_key("dry");
    if !dry && limits.contains_key(&new.item) {
        insert_order(tx, &new).await.map_err(|error| ApiError::from(error).into_response())?;
    }
    Ok(StatusCode::CREATED)
}

// The transaction, passed on in every honest way.

struct Unit<'t> {
    db: &'t mut SqliteConnection,
    written: usize,
}

impl Unit<'_> {
    async fn write(&mut self, item: &str) -> sqlx::Result<()> {
        self.written += 1;
        self.db.execute(sqlx::query("INSERT INTO orders (item) VALUES (?)").bind(item)).await.map(drop)
    }
}

async fn generic<'c, E: Executor<'c, Database = Sqlite>>(executor: E, item: &str) -> sqlx::Result<()> {
    sqlx::query("INSERT INTO orders (item) VALUES (?)").bind(item).execute(executor).await.map(drop)
}

async fn transactional(db: &mut SqliteConnection) -> sqlx::Result<()> {
    let mut part = db.begin().await?;
    generic(&mut *part, "part").await?;
    part.commit().await
}

#[idempotent(scope = "account")]
async fn passed_on(tx: &mut Tx<Sqlite>, account: Account, Json(items): Json<Vec<NewOrder>>) -> Result<Json<usize>, ApiError> {
    let mut unit = Unit { db: tx, written: 0 };
    for new in &items {
        unit.write(&new.item).await?;
    }
    let written = unit.written;
    generic(&mut *tx, "one").await?;
    transactional(tx).await?;
    let (_, pause) = tokio::join!(generic(&mut **tx, "two"), tokio::time::timeout(Duration::from_secs(1), async { 7 }));
    let connection: &mut SqliteConnection = tx;
    let all: Vec<String> = sqlx::query_scalar("SELECT item FROM orders").fetch_all(&mut *connection).await?;
    let total = pause.map_or(0, |seven| seven) + written + all.len();
    Ok(Json(total))
}

#[idempotent(scope = "account")]
async fn hashed(tx: &mut Tx<Sqlite>, account: Account, Json(new): Json<NewOrder>) -> Result<StatusCode, ApiError> {
    #[allow(clippy::disallowed_methods, reason = "pure, and too long for a worker thread")]
    let hash = tokio::task::spawn_blocking(move || new.item.len()).await.map_err(|_| ApiError)?;
    let pool: Vec<usize> = (0..hash).collect();
    let client = pool.iter().sum::<usize>();
    sqlx::query("INSERT INTO hashes (hash) VALUES (?)").bind(client as i64).execute(&mut *tx).await?;
    Ok(StatusCode::CREATED)
}

mod postgres {
    use super::*;

    async fn next_number(db: &mut PgConnection, account: u64) -> sqlx::Result<i64> {
        sqlx::query("SELECT pg_advisory_xact_lock($1)").bind(account as i64).execute(&mut *db).await?;
        sqlx::query_scalar("SELECT coalesce(max(number), 0) + 1 FROM invoices WHERE account = $1").bind(account as i64).fetch_one(db).await
    }

    #[idempotent(scope = "account", errors = "store")]
    pub async fn invoice(tx: &mut Tx<Postgres>, account: Account, Json(new): Json<NewOrder>) -> Result<Json<i64>, ApiError> {
        let number = next_number(tx, account.0.0).await?;
        sqlx::query("INSERT INTO invoices (number, item) VALUES ($1, $2)").bind(number).bind(&new.item).execute(&mut *tx).await?;
        Ok(Json(number))
    }
}

struct Api;

impl Api {
    #[idempotent(scope = "account")]
    #[must_use]
    pub(crate) async fn cancel(tx: &mut Tx<Sqlite>, account: Account, Path(id): Path<i64>) -> Result<(), ApiError> {
        let done = sqlx::query("UPDATE orders SET cancelled = 1 WHERE id = ? AND account = ?")
            .bind(id)
            .bind(account.0.0 as i64)
            .execute(&mut *tx)
            .await?;
        if done.rows_affected() == 0 { Err(ApiError) } else { Ok(()) }
    }
}

#[derive(Clone)]
struct App {
    idempotency: Idempotency<Sqlite>,
    place: PlaceOrder,
}

impl FromRef<App> for Idempotency<Sqlite> {
    fn from_ref(app: &App) -> Self {
        app.idempotency.clone()
    }
}

impl FromRef<App> for PlaceOrder {
    fn from_ref(app: &App) -> Self {
        app.place.clone()
    }
}

impl FromRef<App> for Arc<dyn Orders> {
    fn from_ref(app: &App) -> Self {
        app.place.orders.clone()
    }
}

impl FromRef<App> for Arc<SqlOrders> {
    fn from_ref(_: &App) -> Self {
        Arc::new(SqlOrders { table: "orders" })
    }
}

fn main() {
    let _: Router<App> = Router::new()
        .route("/place", post(place))
        .route("/object", post(by_trait_object))
        .route("/parameter", post(by_parameter::<SqlOrders>))
        .route("/pay/{order}", post(pay))
        .route("/prices", post(prices::create))
        .route("/items", post(items::create))
        .route("/upload", post(upload).layer(DefaultBodyLimit::disable()))
        .route("/webhook/{merchant}", post(webhook))
        .route("/lenient", post(lenient))
        .route("/passed_on", post(passed_on))
        .route("/hashed", post(hashed))
        .route("/cancel/{id}", post(Api::cancel));
    let _ = postgres::invoice;
}
