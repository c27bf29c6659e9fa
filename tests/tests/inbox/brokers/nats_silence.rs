//! A stream in which nothing happens for a while.

use std::time::Duration;

use idem_tests::wait::{PATIENCE, until};
use sqlx::Sqlite;

use super::nats::Streams;
use crate::setup::{Behaviour, Desk, Order, Tested};

/// Longer than a request for messages goes without a word from the server.
const SILENCE: Duration = Duration::from_millis(2500);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_that_comes_after_a_silence_is_processed_at_its_first_delivery() {
    let (desk, streams) = (Desk::<Sqlite>::new().await, Streams::new().await);
    let consumers = Sqlite::ledger(desk.consumers()).source("orders", streams.source("ledger"));
    let running = consumers.spawn().await.unwrap();
    for message in ["m0", "m1"] {
        // The silence itself is what is tested.
        tokio::time::sleep(SILENCE).await;
        let payload = Order::new(message, Behaviour::Work).payload();
        streams.publish(Some(message), payload).await;
    }
    until("both are processed", PATIENCE, async || {
        desk.effects("1 = 1").await == 2
    })
    .await;
    streams.until_done("ledger").await;
    running.stop().await;
    assert_eq!(streams.deliveries("ledger").await, 2);
}
