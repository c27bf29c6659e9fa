#![allow(unused)]

#[path = "../support.rs"]
mod support;
use support::*;

use sqlx::PgPool;

#[derive(Clone)]
struct Shop {
    pool: PgPool,
}

struct Db(PgPool);

impl FromRef<Shop> for PgPool {
    fn from_ref(shop: &Shop) -> PgPool {
        shop.pool.clone()
    }
}

type Database = State<PgPool>;

#[idempotent(scope = "account")]
async fn whole(tx: &mut Tx<Postgres>, account: Account, State(shop): State<Shop>) -> StatusCode {
    StatusCode::CREATED
}

#[idempotent(scope = "account")]
async fn newtype(tx: &mut Tx<Postgres>, account: Account, State(db): State<Db>) -> StatusCode {
    StatusCode::CREATED
}

#[idempotent(scope = "account")]
async fn alias(tx: &mut Tx<Postgres>, account: Account, db: Database) -> StatusCode {
    StatusCode::CREATED
}

trait Application {
    type Store;
}

impl Application for Shop {
    type Store = PgPool;
}

#[idempotent(scope = "account")]
async fn associated(
    tx: &mut Tx<Postgres>,
    account: Account,
    State(store): State<<Shop as Application>::Store>,
) -> StatusCode {
    StatusCode::CREATED
}

// with `state = ..`, it is the only error
#[idempotent(scope = "account", state = AppState)]
async fn with_state(tx: &mut Tx<Sqlite>, account: Account, State(app): State<AppState>) -> StatusCode {
    StatusCode::CREATED
}

fn main() {}
