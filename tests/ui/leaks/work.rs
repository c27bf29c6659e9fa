//! Tasks, other services, files and programs, in the handler's own body.
#![allow(unused)]

#[path = "../support.rs"]
mod support;
use support::*;

use tokio::io::AsyncWriteExt;

async fn notify() {}

#[idempotent(scope = "account")]
async fn tasks(tx: &mut Tx<Sqlite>, account: Account) -> Result<StatusCode, ApiError> {
    use tokio::task::{self, spawn as later};
    later(notify());
    task::spawn_blocking(|| std::fs::remove_file("orders.txt")).await;
    (tokio::spawn)(notify());
    tokio::runtime::Handle::current().spawn(notify());
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.spawn(notify());
    let tracker = tokio_util::task::TaskTracker::new();
    tracker.spawn(notify());
    std::thread::Builder::new().spawn(|| ()).unwrap();
    let each: Vec<_> = ["a", "b"].iter().map(|_| tokio::spawn(notify())).collect();
    Ok(StatusCode::CREATED)
}

#[idempotent(scope = "account")]
async fn services(tx: &mut Tx<Sqlite>, account: Account) -> Result<StatusCode, ApiError> {
    reqwest::get("https://pay.example/charge").await;
    let client = reqwest::Client::new();
    client.post("https://pay.example/charge").send().await;
    reqwest::Client::builder().build().unwrap().get("https://pay.example").send().await;
    let mut socket = tokio::net::TcpStream::connect("mail.example:25").await.unwrap();
    socket.write_all(b"HELO").await;
    std::net::UdpSocket::bind("0.0.0.0:0").unwrap().send_to(b"sold", "log.example:514");
    Ok(StatusCode::CREATED)
}

#[idempotent(scope = "account")]
async fn files(tx: &mut Tx<Sqlite>, account: Account) -> Result<StatusCode, ApiError> {
    use std::fs;
    fs::write("orders.txt", "one");
    tokio::fs::rename("orders.txt", "orders.old").await;
    let file = fs::File::create("orders.txt");
    let log = std::fs::OpenOptions::new().append(true).create(true).open("log.txt");
    let own = tokio::fs::File::options().read(true).write(true).open("log.txt").await;
    std::process::Command::new("mail").arg("root").spawn();
    tokio::process::Command::new("mail").output().await;
    Ok(StatusCode::CREATED)
}

// a reason is needed, and does not let a handler end its transaction
#[idempotent(scope = "account")]
#[allow(clippy::disallowed_methods)]
async fn without_a_reason(tx: &mut Tx<Sqlite>, account: Account) -> Result<StatusCode, ApiError> {
    #[allow(clippy::disallowed_methods, reason = "it is all the same")]
    sqlx::query("COMMIT").execute(&mut *tx).await?;
    tokio::spawn(notify());
    Ok(StatusCode::CREATED)
}

fn main() {}
