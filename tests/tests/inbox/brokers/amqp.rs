//! RabbitMQ.

mod outlet;

use std::time::Duration;

use idem_runtime::inbox::amqp::Amqp;
use idem_tests::wait::{PATIENCE, until};
use lapin::options::{
    BasicAckOptions, BasicGetOptions, BasicPublishOptions, ConfirmSelectOptions,
    QueueDeclareOptions,
};
use lapin::types::{AMQPValue, FieldTable};
use lapin::{BasicProperties, Channel, Connection, ConnectionProperties};
use sqlx::{Postgres, Sqlite};

use super::child::{self, POINTS};
use super::link::Link;
use super::{name, url};
use crate::on_databases;
use crate::setup::{Behaviour, Desk, Order, Tested};

on_databases![
    messages_that_come_again_have_one_effect,
    a_process_that_is_killed_doubles_nothing,
    a_message_that_kills_its_process_is_buried_and_no_other,
];

/// A queue of orders, and one of dead letters, which the source makes.
struct Queues {
    _connection: Connection,
    channel: Channel,
    orders: String,
    dead: String,
}

impl Queues {
    async fn new() -> Self {
        Self::at(&url("IDEM_AMQP_URL"), FieldTable::default()).await
    }

    /// With arguments of the queue of orders.
    async fn at(url: &str, arguments: FieldTable) -> Self {
        let properties = ConnectionProperties::default();
        let connection = Connection::connect(url, properties).await.unwrap();
        let channel = connection.create_channel().await.unwrap();
        channel
            .confirm_select(ConfirmSelectOptions::default())
            .await
            .unwrap();
        let queues = Self {
            _connection: connection,
            channel,
            orders: name("orders"),
            dead: name("dead"),
        };
        let durable = QueueDeclareOptions {
            durable: true,
            ..QueueDeclareOptions::default()
        };
        let declared =
            queues
                .channel
                .queue_declare(queues.orders.as_str().into(), durable, arguments);
        declared.await.unwrap();
        queues
    }

    fn source(&self) -> Amqp {
        self.source_at(&url("IDEM_AMQP_URL"))
    }

    fn source_at(&self, url: &str) -> Amqp {
        Amqp::new(url, &self.orders, &self.dead).redelivered_within(Duration::from_secs(3600))
    }

    async fn publish(&self, id: Option<&str>, payload: &[u8]) {
        let mut properties = BasicProperties::default().with_delivery_mode(2);
        if let Some(id) = id {
            properties = properties.with_message_id(id.into());
        }
        let published = self.channel.basic_publish(
            "".into(),
            self.orders.as_str().into(),
            BasicPublishOptions::default(),
            payload,
            properties,
        );
        assert!(published.await.unwrap().await.unwrap().is_ack());
    }

    async fn order(&self, id: &str, behaviour: Behaviour) {
        self.publish(Some(id), &Order::new(id, behaviour).payload())
            .await;
    }

    /// The messages that are ready in a queue; `None` where there is no such queue.
    async fn ready(&self, queue: &str) -> u32 {
        let look = QueueDeclareOptions {
            passive: true,
            ..QueueDeclareOptions::default()
        };
        let found = self
            .channel
            .queue_declare(queue.into(), look, FieldTable::default());
        found.await.unwrap().message_count()
    }

    async fn dead_letters(&self, number: usize) -> Vec<lapin::message::Delivery> {
        let mut dead = Vec::new();
        until("all are buried", PATIENCE, async || {
            let got = self
                .channel
                .basic_get(self.dead.as_str().into(), BasicGetOptions::default());
            if let Some(message) = got.await.unwrap() {
                message
                    .delivery
                    .acker
                    .ack(BasicAckOptions::default())
                    .await
                    .unwrap();
                dead.push(message.delivery);
            }
            dead.len() == number
        })
        .await;
        dead
    }
}

async fn messages_that_come_again_have_one_effect<DB: Tested>() {
    let (desk, queues) = (Desk::<DB>::new().await, Queues::new().await);
    for round in 0..3 {
        for message in 0..20 {
            let behaviour = if round == 0 {
                Behaviour::Work
            } else {
                Behaviour::Slow(5)
            };
            queues.order(&format!("m{message}"), behaviour).await;
        }
    }
    let consumers = DB::ledger(desk.consumers()).source("orders", queues.source());
    let running = consumers.spawn().await.unwrap();
    until("all are processed", PATIENCE, async || {
        desk.effects("1 = 1").await == 20
    })
    .await;
    until("all are taken", PATIENCE, async || {
        queues.ready(&queues.orders).await == 0
    })
    .await;
    running.stop().await;
    assert_eq!(queues.ready(&queues.orders).await, 0, "nothing comes back");
    assert_eq!(desk.effects("1 = 1").await, 20);
    assert_eq!(desk.probe.entered(), 20);
}

async fn a_process_that_is_killed_doubles_nothing<DB: Tested>() {
    let (desk, queues) = (Desk::<DB>::new().await, Queues::new().await);
    let server = url("IDEM_AMQP_URL");
    let environment = [
        ("DATABASE", desk.url()),
        ("AMQP", &server),
        ("QUEUE", &queues.orders),
        ("DEAD_LETTERS", &queues.dead),
    ];
    let mut published = 0;
    for point in POINTS {
        for _ in 0..8 {
            let id = format!("m{published}");
            queues.publish(Some(&id), id.as_bytes()).await;
            published += 1;
        }
        child::killed(child::start(&environment, Some(point)).await).await;
    }
    let last = child::start(&environment, None).await;
    until("all are processed", PATIENCE, async || {
        desk.effects("1 = 1").await == published
    })
    .await;
    until("all are taken", PATIENCE, async || {
        queues.ready(&queues.orders).await == 0
    })
    .await;
    drop(last);
    assert_eq!(desk.effects("1 = 1").await, published);
    let messages = "SELECT COUNT(DISTINCT message) FROM effects";
    assert_eq!(desk.database().number(messages).await, published);
    assert_eq!(queues.ready(&queues.dead).await, 0);
}

async fn a_message_that_kills_its_process_is_buried_and_no_other<DB: Tested>() {
    // The one counts deliveries, the other says no more than that there was one.
    for (kind, least) in [("quorum", 5), ("classic", 3)] {
        let mut arguments = FieldTable::default();
        arguments.insert("x-queue-type".into(), AMQPValue::LongString(kind.into()));
        let server = url("IDEM_AMQP_URL");
        let (desk, queues) = (
            Desk::<DB>::new().await,
            Queues::at(&server, arguments).await,
        );
        let environment = [
            ("DATABASE", desk.url()),
            ("AMQP", &server),
            ("QUEUE", &queues.orders),
            ("DEAD_LETTERS", &queues.dead),
            ("MAX_DELIVERIES", "2"),
        ];
        let durable = QueueDeclareOptions {
            durable: true,
            ..QueueDeclareOptions::default()
        };
        let dead = queues.channel.queue_declare(
            queues.dead.as_str().into(),
            durable,
            FieldTable::default(),
        );
        dead.await.unwrap();
        for id in ["m0", "m1", "poison", "m2"] {
            queues.publish(Some(id), id.as_bytes()).await;
        }
        let deaths = child::restarted(&environment, async || {
            desk.effects("1 = 1").await == 3 && queues.ready(&queues.dead).await == 1
        });
        let deaths = deaths.await;
        let dead = queues.dead_letters(1).await;
        assert_eq!(dead[0].data, b"poison", "{kind}");
        assert!(deaths >= least, "{kind}: {deaths}");
        assert_eq!(desk.effects("message = 'poison'").await, 0);
        assert_eq!(queues.ready(&queues.dead).await, 0);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_can_not_be_processed_is_kept_elsewhere_with_the_reason() {
    let (desk, queues) = (Desk::<Sqlite>::new().await, Queues::new().await);
    let consumers = Sqlite::ledger(desk.consumers()).max_deliveries(2);
    let running = consumers
        .source("orders", queues.source())
        .spawn()
        .await
        .unwrap();
    let order = |id| Order::new(id, Behaviour::Work).payload();
    queues.publish(None, &order("m0")).await;
    queues.publish(Some(""), &order("m1")).await;
    queues.publish(Some("m2"), b"no JSON").await;
    queues.order("m3", Behaviour::Reject).await;
    queues.order("m4", Behaviour::Retry).await;
    let dead = queues.dead_letters(5).await;
    running.stop().await;
    let header = |message: &lapin::message::Delivery, name: &str| {
        let headers = message.properties.headers().clone().unwrap();
        match headers.inner().get(name) {
            Some(AMQPValue::LongString(text)) => text.to_string(),
            other => panic!("{name}: {other:?}"),
        }
    };
    let reason = |payload: &[u8]| {
        let message = dead.iter().find(|message| message.data == payload).unwrap();
        assert_eq!(header(message, "idem-routing-key"), queues.orders);
        header(message, "idem-reason")
    };
    assert!(reason(&order("m0")).contains("the message has no id"));
    assert!(reason(&order("m1")).contains("the message's id is empty"));
    assert!(reason(b"no JSON").contains("the payload is no"));
    let refused = Order::new("m3", Behaviour::Reject).payload();
    assert_eq!(reason(&refused), "consumer `ledger`: unknown account");
    let failed = Order::new("m4", Behaviour::Retry).payload();
    assert!(reason(&failed).starts_with("2 deliveries did not process it"));
    let message = dead.iter().find(|message| message.data == failed).unwrap();
    let id = message
        .properties
        .message_id()
        .as_ref()
        .map(|id| id.as_str());
    assert_eq!(id, Some("m4"), "it can be published again as the same");
    assert_eq!(desk.effects("1 = 1").await, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_may_work_later_waits_and_comes_back() {
    let (desk, queues) = (Desk::<Postgres>::new().await, Queues::new().await);
    let consumers = Postgres::ledger(desk.consumers()).source("orders", queues.source());
    let running = consumers.spawn().await.unwrap();
    queues.order("m1", Behaviour::Retry).await;
    until("it has failed twice", PATIENCE, async || {
        desk.probe.entered() >= 2
    })
    .await;
    desk.probe.allow_retries();
    until("it is processed", PATIENCE, async || {
        desk.effects("1 = 1").await == 1
    })
    .await;
    running.stop().await;
    assert_eq!(desk.effects("1 = 1").await, 1);
    for queue in [&queues.orders, &format!("{}.idem-wait.1s", queues.orders)] {
        assert_eq!(queues.ready(queue).await, 0, "{queue}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_that_is_cut_loses_and_doubles_nothing() {
    let (desk, queues) = (Desk::<Postgres>::new().await, Queues::new().await);
    let server = url("IDEM_AMQP_URL");
    let at = server.rfind('@').unwrap() + 1;
    let address = server[at..].split('/').next().unwrap();
    let link = Link::to(address.parse().unwrap()).await;
    let through = server.replace(address, &link.address().to_string());
    for message in 0..60 {
        queues
            .order(&format!("m{message}"), Behaviour::Slow(30))
            .await;
    }
    let consumers = Postgres::ledger(desk.consumers()).concurrency(4);
    let source = queues.source_at(&through);
    let running = consumers.source("orders", source).spawn().await.unwrap();
    for round in 1..=3 {
        until("more are processed", PATIENCE, async || {
            desk.effects("1 = 1").await >= round * 10
        })
        .await;
        link.cut();
    }
    until("all are processed", PATIENCE, async || {
        desk.effects("1 = 1").await == 60
    })
    .await;
    until("all are taken", PATIENCE, async || {
        queues.ready(&queues.orders).await == 0
    })
    .await;
    running.stop().await;
    assert_eq!(queues.ready(&queues.orders).await, 0);
    assert_eq!(
        (desk.effects("1 = 1").await, desk.probe.entered()),
        (60, 60)
    );
    assert_eq!(queues.ready(&queues.dead).await, 0);
}

#[tokio::test]
async fn a_queue_that_can_not_be_consumed_safely_is_refused() {
    let (desk, queues) = (Desk::<Sqlite>::new().await, Queues::new().await);
    let refusal = async |source: Amqp| {
        let consumers = Sqlite::ledger(desk.consumers()).source("orders", source);
        match consumers.spawn().await {
            Err(error) => error.to_string(),
            Ok(_) => panic!("it starts"),
        }
    };
    let server = url("IDEM_AMQP_URL");
    let refused = refusal(Amqp::new(&server, name("none"), &queues.dead)).await;
    assert!(refused.contains("there is no queue `none"), "{refused}");
    let refused = refusal(Amqp::new(&server, &queues.orders, &queues.orders)).await;
    assert!(
        refused.contains("dead letters would come back"),
        "{refused}"
    );
    let refused = refusal(queues.source().consumer_timeout(Duration::from_secs(20))).await;
    assert!(refused.contains("may take 30s in all"), "{refused}");
    let long = queues
        .source()
        .redelivered_within(Duration::from_secs(7 * 24 * 3600));
    let refused = refusal(long).await;
    assert!(
        refused.contains("it may be delivered again for 604800s"),
        "{refused}"
    );
}
