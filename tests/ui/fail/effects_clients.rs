#![allow(unused)]

#[path = "../support.rs"]
mod support;
use support::*;

use axum::extract::Extension;
use std::sync::Arc;

// what clients of other crates look like from here
mod redis {
    pub struct Client;
}
mod lapin {
    pub struct Channel;
}
mod async_nats {
    pub struct Client;
}
mod aws_sdk_s3 {
    pub struct Client;
}

#[idempotent(scope = "account")]
async fn clients(
    tx: &mut Tx<Sqlite>,
    account: Account,
    http: State<reqwest::Client>,
    request: Extension<Arc<reqwest::RequestBuilder>>,
    cache: State<redis::Client>,
    queue: State<lapin::Channel>,
    messages: State<async_nats::Client>,
    storage: State<aws_sdk_s3::Client>,
) -> StatusCode {
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
