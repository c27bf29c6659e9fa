#![allow(unused)]

#[path = "../support.rs"]
mod support;
use support::*;

use idem_runtime::Replay;

async fn may_create(account: &Account, pricing: &State<String>) -> Result<(), StatusCode> {
    Ok(())
}

async fn again(db: &mut sqlx::PgConnection, replay: &Replay) -> StatusCode {
    StatusCode::CREATED
}

#[idempotent(scope = "account", authorize = may_create, replay_with = again)]
async fn create(
    tx: &mut Tx<Sqlite>,
    account: Account,
    State(pricing): State<Pricing>,
    Json(new): Json<NewOrder>,
) -> StatusCode {
    StatusCode::CREATED
}

#[idempotent(scope = "account", authorize = may_delete, replay_with = rebuild)]
async fn missing(tx: &mut Tx<Sqlite>, account: Account, Json(new): Json<NewOrder>) -> StatusCode {
    StatusCode::CREATED
}

fn main() {}
