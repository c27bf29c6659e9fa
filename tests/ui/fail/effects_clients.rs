#![allow(unused)]

#[path = "../support.rs"]
mod support;
use support::*;

use axum::extract::Extension;
use std::sync::Arc;

#[idempotent(scope = "account")]
async fn http(tx: &mut Tx<Sqlite>, account: Account, State(client): State<reqwest::Client>) -> StatusCode {
    StatusCode::CREATED
}

#[idempotent(scope = "account")]
async fn standard(
    tx: &mut Tx<Sqlite>,
    account: Account,
    file: State<Arc<std::fs::File>>,
    socket: State<Arc<std::net::TcpStream>>,
    channel: State<std::sync::mpsc::Sender<String>>,
    child: State<Arc<std::process::Child>>,
) -> StatusCode {
    StatusCode::CREATED
}

#[idempotent(scope = "account")]
async fn tokio(
    tx: &mut Tx<Sqlite>,
    account: Account,
    channel: State<tokio::sync::mpsc::Sender<String>>,
    runtime: State<tokio::runtime::Handle>,
    socket: State<Arc<tokio::net::TcpStream>>,
    file: State<Arc<tokio::fs::File>>,
) -> StatusCode {
    StatusCode::CREATED
}

fn main() {}
