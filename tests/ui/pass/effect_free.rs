//! What passes the check of arguments.
#![deny(warnings)]
#![allow(dead_code)]

#[path = "../support.rs"]
mod support;
use support::*;

use axum::body::{Body, Bytes};
use axum::extract::rejection::{JsonRejection, QueryRejection};
use axum::extract::{Extension, Form, MatchedPath, Multipart, OriginalUri, RawQuery};
use axum::http::{HeaderMap, Method, Uri};
use sqlx::SqlitePool;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::marker::PhantomData;
use std::net::IpAddr;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;
use uuid::Uuid;

/// Where a pool occurs in the type, but not in a value.
#[derive(Clone, EffectFree)]
struct Tagged<T> {
    id: u64,
    tag: PhantomData<T>,
}

#[derive(Clone, EffectFree)]
enum Discount {
    None,
    Percent(u8),
    Tiers { tiers: Vec<(u64, u8)>, from: Option<Duration> },
}

#[derive(Clone, EffectFree)]
struct Tree<T> {
    value: T,
    children: Vec<Tree<T>>,
}

#[derive(Clone, EffectFree)]
struct Borrowed<'a> {
    name: &'a str,
}

#[derive(Clone, EffectFree)]
struct Settings {
    limits: HashMap<String, NonZeroU32>,
    names: Arc<BTreeMap<Uuid, Box<str>>>,
    allowed: HashSet<IpAddr>,
    nothing: Option<()>,
    value: serde_json::Value,
    discount: Discount,
    round: fn(u64) -> u64,
    #[effect_free(trust = "read at start-up, and by nobody written")]
    rates: Foreign,
    flag: AssertEffectFree<Foreign>,
    gateway: External<SqlitePool>,
}

#[derive(Clone)]
struct Foreign;

#[idempotent(scope = "account")]
async fn in_the_state(
    _tx: &mut Tx<Sqlite>,
    account: Account,
    State(settings): State<Settings>,
    State(tagged): State<Tagged<SqlitePool>>,
    Extension(tree): Extension<Tree<u64>>,
    flag: Option<Extension<AssertEffectFree<Foreign>>>,
    State(gateway): State<External<SqlitePool>>,
    State(borrowed): State<Borrowed<'static>>,
) -> String {
    let _ = (settings, tagged, tree, flag, gateway, borrowed);
    format!("{account:?}")
}

/// serde alone: neither `Clone` nor `EffectFree`.
#[derive(Deserialize)]
struct Page {
    after: Option<Uuid>,
    size: u32,
}

#[idempotent(scope = "account")]
async fn data_of_the_request(
    _tx: &mut Tx<Sqlite>,
    account: Account,
    _: Path<(Uuid, u64)>,
    _: Query<Page>,
    _: Result<Query<Page>, QueryRejection>,
    _: Method,
    _: Uri,
    _: HeaderMap,
    _: OriginalUri,
    _: MatchedPath,
    _: RawQuery,
    _: (Path<String>, Query<Page>),
    _: Option<Path<u64>>,
    body: Option<Json<NewOrder>>,
) -> String {
    format!("{account:?} {}", body.is_some())
}

macro_rules! bodies {
    ($($name:ident: $body:ty),* $(,)?) => {
        $(
            #[idempotent(scope = "account")]
            async fn $name(_tx: &mut Tx<Sqlite>, account: Account, body: $body) -> String {
                let _ = body;
                format!("{account:?}")
            }
        )*
    };
}
bodies!(
    json: Json<Vec<NewOrder>>,
    fallible: Result<Json<NewOrder>, JsonRejection>,
    form: Form<Page>,
    bytes: Bytes,
    text: String,
    unread: Body,
    multipart: Multipart,
);

trait Repo: EffectFree + Send + Sync {
    fn price(&self) -> u64;
}

#[derive(EffectFree)]
struct Orders(u64);

impl Repo for Orders {
    fn price(&self) -> u64 {
        self.0
    }
}

#[idempotent(scope = "account")]
async fn object(_tx: &mut Tx<Sqlite>, account: Account, State(repo): State<Arc<dyn Repo>>) -> String {
    format!("{account:?} {}", repo.price())
}

#[idempotent(scope = "account")]
async fn parameter<R: Clone + EffectFree>(_tx: &mut Tx<Sqlite>, account: Account, State(_): State<R>) -> String {
    format!("{account:?}")
}

#[idempotent(scope = "account")]
async fn supertrait<R>(_tx: &mut Tx<Sqlite>, account: Account, State(repo): State<Arc<R>>) -> String
where
    R: Repo,
{
    format!("{account:?} {}", repo.price())
}

#[idempotent(scope = "account")]
async fn conditional(
    _tx: &mut Tx<Sqlite>,
    account: Account,
    #[cfg(not(all()))] State(pool): State<SqlitePool>,
    #[cfg(all())] State(pricing): State<Pricing>,
) -> String {
    format!("{account:?} {}", pricing.cents)
}

trait Application {
    type Prices;
}

impl Application for AppState {
    type Prices = Pricing;
}

type Prices = <AppState as Application>::Prices;

#[idempotent(scope = "account", state = AppState)]
async fn associated(_tx: &mut Tx<Sqlite>, account: Account, State(pricing): State<Prices>) -> String {
    format!("{account:?} {}", pricing.cents)
}

/// A state whose parts are taken out by `FromRef`, a sealed client among them.
#[derive(Clone, FromRef)]
struct Shop {
    idempotency: Idempotency<Sqlite>,
    pool: SqlitePool,
    gateway: External<reqwest::Client>,
    repo: Arc<dyn Repo>,
}

#[idempotent(scope = "account", state = Shop)]
async fn substates(
    _tx: &mut Tx<Sqlite>,
    account: Account,
    State(gateway): State<External<reqwest::Client>>,
    State(repo): State<Arc<dyn Repo>>,
) -> String {
    format!("{account:?} {gateway:?} {}", repo.price())
}

fn main() {
    let _: Router<Shop> = Router::new().route("/", post(substates)).route("/object", post(object));
    let _: Router<AppState> = Router::new()
        .route("/request", post(data_of_the_request))
        .route("/conditional", post(conditional))
        .route("/associated", post(associated))
        .route("/json", post(json))
        .route("/fallible", post(fallible))
        .route("/form", post(form))
        .route("/bytes", post(bytes))
        .route("/text", post(text))
        .route("/unread", post(unread))
        .route("/multipart", post(multipart));
}
