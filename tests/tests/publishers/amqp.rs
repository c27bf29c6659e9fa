//! RabbitMQ: what is routed, what came back, and what is refused.

use futures_util::future::join_all;
use idem_runtime::outbox::amqp::Amqp;
use idem_runtime::outbox::{OutboxMessage, Publisher as _};
use idem_tests::brokers::amqp_url;
use idem_tests::wait::{PATIENCE, until};
use lapin::message::BasicGetMessage;
use lapin::options::{
    BasicGetOptions, ExchangeDeclareOptions, QueueBindOptions, QueueDeclareOptions,
};
use lapin::types::{AMQPValue, FieldTable, LongString};
use lapin::{Channel, Connection, ConnectionProperties, ExchangeKind};
use uuid::Uuid;

use crate::assert_failed;
use crate::setup::{fresh_name, message};

/// What the application declares: an exchange of its own, and queues.
pub(crate) struct Topology {
    pub(crate) channel: Channel,
    pub(crate) name: String,
    _connection: Connection,
}

impl Topology {
    pub(crate) async fn connect(url: &str) -> Topology {
        let connection = Connection::connect(url, ConnectionProperties::default())
            .await
            .unwrap();
        Topology {
            channel: connection.create_channel().await.unwrap(),
            name: fresh_name(),
            _connection: connection,
        }
    }

    /// With a topic exchange.
    pub(crate) async fn declared(url: &str) -> Topology {
        let topology = Self::connect(url).await;
        topology.exchange().await;
        topology
    }

    async fn exchange(&self) {
        let durable = ExchangeDeclareOptions {
            durable: true,
            ..ExchangeDeclareOptions::default()
        };
        let (name, kind) = (self.name.as_str().into(), ExchangeKind::Topic);
        let declared = self
            .channel
            .exchange_declare(name, kind, durable, FieldTable::default());
        declared.await.unwrap();
    }

    /// A durable queue for a routing key; it has the exchange's name.
    pub(crate) async fn queue(&self, routing_key: &str, arguments: FieldTable) {
        let durable = QueueDeclareOptions {
            durable: true,
            ..QueueDeclareOptions::default()
        };
        self.queue_of_kind(durable, routing_key, arguments).await;
    }

    async fn queue_of_kind(
        &self,
        kind: QueueDeclareOptions,
        routing_key: &str,
        arguments: FieldTable,
    ) {
        let name = self.name.as_str();
        self.channel
            .queue_declare(name.into(), kind, arguments)
            .await
            .unwrap();
        let bound = self.channel.queue_bind(
            name.into(),
            name.into(),
            routing_key.into(),
            QueueBindOptions::default(),
            FieldTable::default(),
        );
        bound.await.unwrap();
    }

    pub(crate) async fn take(&self) -> Option<BasicGetMessage> {
        let acknowledged = BasicGetOptions { no_ack: true };
        self.channel
            .basic_get(self.name.as_str().into(), acknowledged)
            .await
            .unwrap()
    }

    pub(crate) async fn take_ids(&self) -> Vec<String> {
        let mut ids = Vec::new();
        while let Some(message) = self.take().await {
            let id = message.properties.message_id().as_ref();
            ids.push(id.expect("a message has an id").to_string());
        }
        ids
    }

    pub(crate) fn publisher(&self, url: &str) -> Amqp {
        Amqp::new(url).unwrap().exchange(&self.name)
    }
}

fn arguments(pairs: &[(&str, AMQPValue)]) -> FieldTable {
    let mut table = FieldTable::default();
    for (name, value) in pairs {
        table.insert((*name).into(), value.clone());
    }
    table
}

fn text(value: &str) -> AMQPValue {
    AMQPValue::LongString(LongString::from(value.as_bytes()))
}

#[tokio::test]
async fn a_message_is_routed_with_its_id_type_time_headers_and_payload() {
    let topology = Topology::declared(&amqp_url()).await;
    topology.queue("orders.*", FieldTable::default()).await;
    let publisher = topology.publisher(&amqp_url());
    let message = message("orders.placed")
        .with_content_type("application/cloudevents+json")
        .with_header(
            "traceparent",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        );
    publisher.publish(&message).await.unwrap();

    let there = topology.take().await.expect("the queue has it");
    assert_eq!(there.routing_key.as_str(), "orders.placed");
    assert_eq!(there.data, message.payload().to_vec());
    let properties = &there.properties;
    let id = properties.message_id().as_ref().map(ToString::to_string);
    assert_eq!(id, Some(message.id().to_string()));
    let content_type = properties.content_type().as_ref().map(ToString::to_string);
    assert_eq!(
        content_type.as_deref(),
        Some("application/cloudevents+json")
    );
    assert_eq!(*properties.delivery_mode(), Some(2));
    let staged_at = message.staged_at().duration_since(std::time::UNIX_EPOCH);
    assert_eq!(*properties.timestamp(), Some(staged_at.unwrap().as_secs()));
    let headers = properties.headers().as_ref().expect("it has headers");
    let traceparent = headers.inner().get("traceparent");
    assert!(
        matches!(traceparent, Some(AMQPValue::LongString(_))),
        "{headers:?}"
    );
}

#[tokio::test]
async fn the_default_exchange_hands_a_message_to_the_queue_of_that_name() {
    let topology = Topology::declared(&amqp_url()).await;
    topology.queue("none", FieldTable::default()).await;
    let publisher = Amqp::new(&amqp_url())
        .unwrap()
        .routing_key(|message| message.topic().replace("queue:", ""));
    let message = message(&format!("queue:{}", topology.name));
    publisher.publish(&message).await.unwrap();
    assert_eq!(topology.take_ids().await, [message.id().to_string()]);
}

#[tokio::test]
async fn a_message_without_a_queue_fails_until_there_is_one() {
    let topology = Topology::declared(&amqp_url()).await;
    let publisher = topology.publisher(&amqp_url());
    let message = message("orders.placed");
    assert_failed!(publisher.publish(&message).await, Failed, "NO_ROUTE");
    topology.queue("orders.*", FieldTable::default()).await;
    publisher.publish(&message).await.unwrap();
    assert_eq!(topology.take_ids().await, [message.id().to_string()]);
}

#[tokio::test(flavor = "multi_thread")]
async fn among_many_in_flight_exactly_those_count_as_published_that_a_queue_has() {
    // A queue in memory confirms at once, together with what came back; one on disk later than that.
    for durable in [false, true] {
        let topology = Topology::declared(&amqp_url()).await;
        let kind = QueueDeclareOptions {
            durable,
            ..QueueDeclareOptions::default()
        };
        topology
            .queue_of_kind(kind, "orders.*", FieldTable::default())
            .await;
        let publisher = topology.publisher(&amqp_url());
        for round in 0..10 {
            let messages: Vec<OutboxMessage> = (0..300)
                .map(|_| {
                    let routed = fastrand::usize(..3) > 0;
                    message(if routed {
                        "orders.placed"
                    } else {
                        "nobody.wants"
                    })
                })
                .collect();
            let results = join_all(messages.iter().map(|one| publisher.publish(one))).await;
            let mut published = Vec::new();
            for (message, result) in messages.iter().zip(results) {
                if message.topic() == "orders.placed" {
                    result.unwrap_or_else(|error| panic!("{durable}, round {round}: {error}"));
                    published.push(message.id().to_string());
                } else {
                    assert_failed!(result, Failed, "NO_ROUTE");
                }
            }
            let mut there = topology.take_ids().await;
            there.sort();
            published.sort();
            assert_eq!(there, published, "{durable}, round {round}");
        }
    }
}

#[tokio::test]
async fn a_message_that_a_full_queue_refuses_fails() {
    let topology = Topology::declared(&amqp_url()).await;
    let full = arguments(&[
        ("x-max-length", AMQPValue::LongInt(1)),
        ("x-overflow", text("reject-publish")),
    ]);
    topology.queue("orders.*", full).await;
    let publisher = topology.publisher(&amqp_url());
    publisher.publish(&message("orders.placed")).await.unwrap();
    let second = message("orders.placed");
    assert_failed!(publisher.publish(&second).await, Failed, "nack");
    topology.take().await.expect("the first one");
    publisher.publish(&second).await.unwrap();
    assert_eq!(topology.take_ids().await, [second.id().to_string()]);
}

#[tokio::test]
async fn without_its_exchange_the_publisher_is_unavailable_until_it_is_declared() {
    let topology = Topology::connect(&amqp_url()).await;
    let publisher = topology.publisher(&amqp_url());
    let message = message("orders.placed");
    assert_failed!(
        publisher.publish(&message).await,
        Unavailable,
        "no exchange"
    );
    topology.exchange().await;
    topology.queue("orders.*", FieldTable::default()).await;
    until("the message is published", PATIENCE, async || {
        publisher.publish(&message).await.is_ok()
    })
    .await;
    assert_eq!(topology.take_ids().await, [message.id().to_string()]);
}

#[tokio::test]
async fn an_exchange_that_is_deleted_later_is_unavailable_too() {
    let topology = Topology::declared(&amqp_url()).await;
    topology.queue("orders.*", FieldTable::default()).await;
    let publisher = topology.publisher(&amqp_url());
    publisher.publish(&message("orders.placed")).await.unwrap();
    topology
        .channel
        .exchange_delete(topology.name.as_str().into(), Default::default())
        .await
        .unwrap();
    let second = message("orders.placed");
    assert_failed!(publisher.publish(&second).await, Unconfirmed, "no exchange");
    assert_failed!(publisher.publish(&second).await, Unavailable, "no exchange");
}

#[tokio::test]
async fn what_rabbitmq_can_never_carry_is_rejected_and_costs_nobody_the_channel() {
    let topology = Topology::declared(&amqp_url()).await;
    topology.queue("orders.*", FieldTable::default()).await;
    let publisher = topology.publisher(&amqp_url()).max_payload(1024);
    let good = || message("orders.placed");
    let long = "x".repeat(256);
    for (bad, part) in [
        (message(&long), "routing key"),
        (good().with_content_type(&long), "content type"),
        (good().with_header(&long, "x"), "name of a header"),
        (
            good().with_header("a", "x".repeat(65 * 1024)),
            "bytes of headers",
        ),
        (good().with_header("CC", "x"), "keeps the header CC"),
        (good().with_header("BCC", "x"), "keeps the header BCC"),
        (
            OutboxMessage::for_test(Uuid::now_v7(), "orders.placed", vec![b'x'; 1025]),
            "bytes of payload",
        ),
    ] {
        assert_failed!(publisher.publish(&bad).await, Rejected, part);
    }
    let largest = good().with_header("a", "x".repeat(60 * 1024));
    let empty = OutboxMessage::for_test(Uuid::now_v7(), "orders.placed", "");
    for fine in [largest, empty, good()] {
        publisher.publish(&fine).await.unwrap();
        assert_eq!(topology.take_ids().await, [fine.id().to_string()]);
    }
}

#[test]
fn a_uri_is_checked_at_once() {
    for uri in ["", "localhost", "http://localhost/"] {
        assert!(Amqp::new(uri).is_err(), "{uri}");
    }
}

#[tokio::test]
async fn a_password_is_not_shown() {
    let publisher = Amqp::new("amqp://user:hunter2@127.0.0.1:1/%2f").unwrap();
    assert!(!format!("{publisher:?}").contains("hunter2"));
    let result = publisher.publish(&message("orders")).await;
    assert_failed!(&result, Unavailable, "");
    assert!(!format!("{result:?}").contains("hunter2"));
}
