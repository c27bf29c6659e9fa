//! RabbitMQ goes away in the middle of confirms.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use idem_runtime::outbox::Publisher as _;
use idem_runtime::outbox::amqp::Amqp;
use idem_tests::brokers::Broker;
use idem_tests::wait::{PATIENCE, until};
use lapin::types::FieldTable;
use tokio::net::TcpListener;

use crate::amqp::Topology;
use crate::assert_failed;
use crate::setup::{Relay, ids, message, messages};

#[tokio::test(flavor = "multi_thread")]
async fn a_broker_that_is_killed_in_the_middle_of_confirms_loses_nothing() {
    let mut broker = Broker::rabbitmq().await;
    let before = Topology::declared(&broker.url()).await;
    before.queue("orders.*", FieldTable::default()).await;
    let publisher = before.publisher(&broker.url());
    let (relay, messages) = (Relay::default(), messages("orders.placed", 3000));
    tokio::join!(relay.deliver(&publisher, &messages), async {
        until("some messages are published", PATIENCE, async || {
            relay.published() >= 500
        })
        .await;
        broker.kill().await;
        assert!(relay.published() < messages.len(), "killed too late");
        broker.restart().await;
    });
    assert!(relay.unconfirmed() > 0, "no confirm was lost");
    assert!(relay.unavailable() > 0, "nobody noticed");

    let mut after = Topology::connect(&broker.url()).await;
    after.name = before.name;
    let there: BTreeSet<String> = after.take_ids().await.into_iter().collect();
    assert_eq!(there, ids(&messages));
}

#[tokio::test]
async fn a_broker_that_stands_still_confirms_nothing_and_may_have_the_message_afterwards() {
    let broker = Broker::rabbitmq().await;
    let topology = Topology::declared(&broker.url()).await;
    topology.queue("orders.*", FieldTable::default()).await;
    let publisher = topology
        .publisher(&broker.url())
        .timeout(Duration::from_secs(1));
    publisher.publish(&message("orders.warm")).await.unwrap();
    broker.pause().await;
    let message = message("orders.placed");
    assert_failed!(publisher.publish(&message).await, Unconfirmed, "");
    broker.go_on().await;
    until("the message is published", PATIENCE, async || {
        publisher.publish(&message).await.is_ok()
    })
    .await;
    let there = topology.take_ids().await;
    assert!(there.contains(&message.id().to_string()), "{there:?}");
}

#[tokio::test]
async fn a_broker_that_holds_publishers_up_is_unavailable_until_it_has_memory_again() {
    let broker = Broker::rabbitmq().await;
    let topology = Topology::declared(&broker.url()).await;
    topology.queue("orders.*", FieldTable::default()).await;
    let publisher = topology
        .publisher(&broker.url())
        .timeout(Duration::from_secs(1));
    publisher.publish(&message("orders.warm")).await.unwrap();
    broker.memory("1MB").await;
    // The alarm is told to a connection that goes on publishing.
    let message = message("orders.placed");
    until("the publisher is told", PATIENCE, async || {
        let error = publisher.publish(&message).await.expect_err("held up");
        error.to_string().contains("holds publishers up")
    })
    .await;
    assert_failed!(publisher.publish(&message).await, Unavailable, "an alarm");
    broker.memory("8GB").await;
    until("the message is published", PATIENCE, async || {
        publisher.publish(&message).await.is_ok()
    })
    .await;
    let there = topology.take_ids().await;
    assert!(there.contains(&message.id().to_string()), "{there:?}");
}

#[tokio::test]
async fn a_broker_that_is_away_is_unavailable_and_asked_less_and_less() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("amqp://{}/%2f", listener.local_addr().unwrap());
    let connections = Arc::new(AtomicUsize::new(0));
    let counted = connections.clone();
    // Each connection is cut before a word is said.
    tokio::spawn(async move {
        while listener.accept().await.is_ok() {
            counted.fetch_add(1, Ordering::SeqCst);
        }
    });
    let publisher = Amqp::new(&url).unwrap();
    let (start, message) = (Instant::now(), message("orders"));
    until("three seconds pass", PATIENCE, async || {
        assert_failed!(publisher.publish(&message).await, Unavailable, "");
        start.elapsed() > Duration::from_secs(3)
    })
    .await;
    let connections = connections.load(Ordering::SeqCst);
    assert!((2..=10).contains(&connections), "{connections}");
}
