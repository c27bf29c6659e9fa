#![allow(unused)]

#[path = "../support.rs"]
mod support;
use support::*;

struct Gateway;

impl Gateway {
    async fn charge(&self) {}
}

#[idempotent(scope = "account")]
async fn called(tx: &mut Tx<Sqlite>, account: Account, State(gateway): State<External<Gateway>>) -> StatusCode {
    gateway.charge().await;
    StatusCode::CREATED
}

#[idempotent(scope = "account")]
async fn opened(tx: &mut Tx<Sqlite>, account: Account, State(gateway): State<External<Gateway>>) -> StatusCode {
    gateway.open().charge().await;
    StatusCode::CREATED
}

#[idempotent(scope = "account")]
async fn taken_apart(tx: &mut Tx<Sqlite>, account: Account, State(gateway): State<External<Gateway>>) -> StatusCode {
    gateway.0.charge().await;
    StatusCode::CREATED
}

#[idempotent(scope = "account")]
async fn unsealed(tx: &mut Tx<Sqlite>, account: Account, State(gateway): State<Gateway>) -> StatusCode {
    gateway.charge().await;
    StatusCode::CREATED
}

fn main() {}
