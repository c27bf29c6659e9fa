#![allow(unused)]

#[path = "../support.rs"]
mod support;
use support::*;

#[idempotent(scope = "account", ttl = "5s", wait = "1m")]
async fn short(tx: &mut Tx<Sqlite>, account: Account) {}

#[idempotent(scope = "account", tombstone = "30d")]
async fn forgotten(tx: &mut Tx<Sqlite>, account: Account) {}

#[idempotent(scope = "account", ttl = "1h", ttl = "2h")]
async fn twice(tx: &mut Tx<Sqlite>, account: Account) {}

fn main() {
    let _: Router<AppState> = Router::new()
        .route("/short", post(short))
        .route("/forgotten", post(forgotten))
        .route("/twice", post(twice));
}
