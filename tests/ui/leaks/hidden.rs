//! A handle behind a name: aliases, projections, parameters, trait objects, newtypes, macros, conditions.
#![allow(unused)]

#[path = "../support.rs"]
mod support;
use support::*;

use axum::extract::Extension;
use sqlx::{Pool, SqlitePool};
use std::ops::Deref;
use std::sync::Arc;

type Db = SqlitePool;
type Shared<T = SqlitePool> = State<Arc<T>>;

#[idempotent(scope = "account")]
async fn alias(tx: &mut Tx<Sqlite>, account: Account, db: State<Db>) -> StatusCode {
    StatusCode::CREATED
}

#[idempotent(scope = "account")]
async fn default_parameter(tx: &mut Tx<Sqlite>, account: Account, db: Shared) -> StatusCode {
    StatusCode::CREATED
}

trait Stores {
    type Of<T>;
}

impl Stores for AppState {
    type Of<T> = Vec<SqlitePool>;
}

#[idempotent(scope = "account")]
async fn projection(tx: &mut Tx<Sqlite>, account: Account, db: State<<AppState as Stores>::Of<u8>>) -> StatusCode {
    StatusCode::CREATED
}

#[idempotent(scope = "account")]
async fn parameter<T: Deref<Target = SqlitePool> + Clone>(tx: &mut Tx<Sqlite>, account: Account, db: State<T>) -> StatusCode {
    StatusCode::CREATED
}

#[idempotent(scope = "account")]
async fn sized<const N: usize>(tx: &mut Tx<Sqlite>, account: Account, db: State<[SqlitePool; N]>) -> StatusCode {
    StatusCode::CREATED
}

#[derive(Clone)]
struct Repository(SqlitePool);

impl Deref for Repository {
    type Target = SqlitePool;

    fn deref(&self) -> &SqlitePool {
        &self.0
    }
}

#[idempotent(scope = "account")]
async fn newtype(tx: &mut Tx<Sqlite>, account: Account, orders: State<Arc<Repository>>) -> StatusCode {
    StatusCode::CREATED
}

trait Orders: Send + Sync {}
trait PricedOrders: Orders + EffectFree {}

#[idempotent(scope = "account")]
async fn object(tx: &mut Tx<Sqlite>, account: Account, orders: State<Arc<dyn Orders>>) -> StatusCode {
    StatusCode::CREATED
}

#[idempotent(scope = "account")]
async fn error(tx: &mut Tx<Sqlite>, account: Account, error: Extension<Arc<dyn std::error::Error + Send + Sync>>) -> StatusCode {
    StatusCode::CREATED
}

impl Orders for Repository {}
impl PricedOrders for Repository {}

#[derive(Clone, EffectFree)]
enum Backend {
    Memory,
    Database { pool: SqlitePool },
    Sharded(Vec<Repository>),
}

#[derive(Clone, EffectFree)]
struct Service<R> {
    orders: R,
    next: Option<Box<Self>>,
}

#[idempotent(scope = "account")]
async fn service(tx: &mut Tx<Sqlite>, account: Account, service: State<Service<Repository>>) -> StatusCode {
    StatusCode::CREATED
}

#[idempotent(scope = "account")]
async fn conditional(
    tx: &mut Tx<Sqlite>,
    account: Account,
    #[cfg(all())] db: State<SqlitePool>,
    #[cfg(not(all()))] pricing: State<Pricing>,
) -> StatusCode {
    StatusCode::CREATED
}

macro_rules! handler {
    ($name:ident, $($argument:tt)*) => {
        #[idempotent(scope = "account")]
        async fn $name(tx: &mut Tx<Sqlite>, account: Account, $($argument)*) -> StatusCode {
            StatusCode::CREATED
        }
    };
}

handler!(by_macro, State(db): State<SqlitePool>);

struct Api<T>(T);

impl Api<u8> {
    #[idempotent(scope = "account")]
    async fn associated(tx: &mut Tx<Sqlite>, account: Account, Extension(db): Extension<Db>) -> StatusCode {
        StatusCode::CREATED
    }
}

fn main() {}
