//! JetStream goes away in the middle of acknowledgements.

use std::collections::BTreeSet;
use std::time::Duration;

use async_nats::connection::State;
use async_nats::jetstream::Context;
use async_nats::jetstream::context::ContextBuilder;
use async_nats::jetstream::stream::{Config, Stream};
use idem_runtime::outbox::Publisher as _;
use idem_runtime::outbox::nats::JetStream;
use idem_tests::brokers::Broker;
use idem_tests::wait::{PATIENCE, until};

use crate::assert_failed;
use crate::setup::{Relay, ids, message, messages};

async fn connected(broker: &Broker, timeout: Duration) -> (Context, Stream) {
    let client = async_nats::connect(broker.url()).await.unwrap();
    let context = ContextBuilder::new().timeout(timeout).build(client);
    let config = Config {
        name: "orders".to_owned(),
        subjects: vec!["orders.>".to_owned()],
        ..Config::default()
    };
    let stream = context.create_stream(config).await.unwrap();
    (context, stream)
}

async fn ids_in(stream: &Stream) -> Vec<String> {
    let last = stream.get_info().await.unwrap().state.last_sequence;
    let mut ids = Vec::new();
    for sequence in 1..=last {
        let there = stream.get_raw_message(sequence).await.unwrap();
        ids.push(there.headers.get("Nats-Msg-Id").unwrap().to_string());
    }
    ids
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_killed_in_the_middle_of_acknowledgements_loses_and_doubles_nothing() {
    let mut broker = Broker::nats().await;
    let (context, stream) = connected(&broker, Duration::from_secs(1)).await;
    let publisher = JetStream::new(context);
    let (relay, messages) = (Relay::default(), messages("orders.placed", 3000));
    tokio::join!(relay.deliver(&publisher, &messages), async {
        for published in [300, 1500] {
            until("some messages are published", PATIENCE, async || {
                relay.published() >= published
            })
            .await;
            let noticed = relay.unavailable();
            broker.kill().await;
            assert!(relay.published() < messages.len(), "killed too late");
            until("the client notices", PATIENCE, async || {
                relay.unavailable() > noticed
            })
            .await;
            broker.restart().await;
        }
    });
    assert!(relay.unconfirmed() > 0, "no acknowledgement was lost");

    let there = ids_in(&stream).await;
    let distinct: BTreeSet<String> = there.iter().cloned().collect();
    assert_eq!(distinct, ids(&messages));
    assert_eq!(there.len(), messages.len(), "the stream knows redeliveries");
}

#[tokio::test]
async fn a_server_that_stands_still_confirms_nothing_and_has_the_message_once_afterwards() {
    let broker = Broker::nats().await;
    let (context, stream) = connected(&broker, Duration::from_millis(500)).await;
    let publisher = JetStream::new(context);
    let message = message("orders.placed");
    broker.pause().await;
    let result = publisher.publish(&message).await;
    assert_failed!(result, Unconfirmed, "timed out");
    broker.go_on().await;
    until("the message is published", PATIENCE, async || {
        publisher.publish(&message).await.is_ok()
    })
    .await;
    assert_eq!(ids_in(&stream).await, [message.id().to_string()]);
}

#[tokio::test]
async fn a_server_that_is_away_is_unavailable() {
    let mut broker = Broker::nats().await;
    let (context, _) = connected(&broker, Duration::from_secs(1)).await;
    let client = context.client();
    let publisher = JetStream::new(context);
    broker.kill().await;
    until("the client notices", PATIENCE, async || {
        client.connection_state() != State::Connected
    })
    .await;
    let result = publisher.publish(&message("orders.placed")).await;
    assert_failed!(result, Unavailable, "not connected");
}
