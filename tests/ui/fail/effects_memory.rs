#![allow(unused)]

#[path = "../support.rs"]
mod support;
use support::*;

use std::collections::HashMap;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, RwLock};

#[idempotent(scope = "account")]
async fn lock(tx: &mut Tx<Sqlite>, account: Account, State(stock): State<Arc<Mutex<HashMap<String, u64>>>>) -> StatusCode {
    StatusCode::CREATED
}

#[idempotent(scope = "account")]
async fn counter(tx: &mut Tx<Sqlite>, account: Account, State(count): State<Arc<AtomicU64>>) -> StatusCode {
    StatusCode::CREATED
}

#[derive(Clone, EffectFree)]
struct Cache {
    prices: Arc<RwLock<HashMap<String, u64>>>,
}

fn main() {}
