//! A NATS server that is killed and started again.

use std::net::TcpListener;
use std::process::Stdio;
use std::time::Duration;

use idem_tests::wait::{PATIENCE, until};
use sqlx::Postgres;
use tempfile::TempDir;
use tokio::net::TcpStream;
use tokio::process::{Child, Command};

use super::nats::Streams;
use crate::setup::{Behaviour, Desk, Order, Tested};

async fn server(directory: &TempDir, port: u16) -> Child {
    let server = Command::new("nats-server")
        .args([
            "--addr",
            "127.0.0.1",
            "--port",
            &port.to_string(),
            "--jetstream",
            "--store_dir",
        ])
        .arg(directory.path())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .expect("nats-server is installed");
    until("it listens", PATIENCE, async || {
        TcpStream::connect(("127.0.0.1", port)).await.is_ok()
    })
    .await;
    server
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_broker_that_is_killed_loses_and_doubles_nothing() {
    let directory = TempDir::new().unwrap();
    let port = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port();
    let mut broker = server(&directory, port).await;
    let hour = Duration::from_secs(3600);
    let streams = Streams::at(&format!("nats://127.0.0.1:{port}"), hour).await;
    let desk = Desk::<Postgres>::new().await;
    for message in 0..60 {
        let id = format!("m{message}");
        streams
            .publish(Some(&id), Order::new(&id, Behaviour::Slow(30)).payload())
            .await;
    }
    let source = streams.source("ledger").ack_wait(Duration::from_secs(2));
    let consumers = Postgres::ledger(desk.consumers()).concurrency(4);
    let running = consumers.source("orders", source).spawn().await.unwrap();
    for round in 1..=3 {
        until("more are processed", PATIENCE, async || {
            desk.effects("1 = 1").await >= round * 10
        })
        .await;
        broker.kill().await.unwrap();
        broker = server(&directory, port).await;
    }
    until("all are processed", PATIENCE * 2, async || {
        desk.effects("1 = 1").await == 60
    })
    .await;
    streams.until_done("ledger").await;
    running.stop().await;
    assert_eq!(desk.effects("1 = 1").await, 60);
    assert_eq!(desk.probe.entered(), 60, "each ran once");
}
