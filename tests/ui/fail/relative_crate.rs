#![allow(unused)]

#[path = "../support.rs"]
mod support;
use support::*;

#[idempotent(scope = "account", crate = "idem_runtime")]
async fn create(tx: &mut Tx<Sqlite>, account: Account) {}

#[derive(Scope)]
#[scope(crate = "idem_runtime")]
struct Tenant(String);

fn main() {}
