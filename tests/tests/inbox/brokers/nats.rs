//! NATS JetStream.

use std::time::Duration;

use async_nats::HeaderMap;
use async_nats::jetstream::consumer::PullConsumer;
use async_nats::jetstream::{self, Context, stream};
use futures_util::StreamExt;
use idem_runtime::inbox::nats::JetStream;
use idem_tests::wait::{PATIENCE, until};
use sqlx::{Postgres, Sqlite};

use super::child::{self, POINTS};
use super::{name, url};
use crate::on_databases;
use crate::setup::{Behaviour, Desk, Order, Tested};

on_databases![
    messages_that_come_again_have_one_effect,
    a_process_that_is_killed_doubles_nothing,
    a_message_that_kills_its_process_is_buried_and_no_other,
];

/// A stream of orders and one of dead letters.
pub(super) struct Streams {
    pub(super) client: async_nats::Client,
    pub(super) context: Context,
    pub(super) orders: String,
    pub(super) dead: String,
}

impl Streams {
    pub(super) async fn new() -> Self {
        Self::at(&url("IDEM_NATS_URL"), Duration::from_secs(3600)).await
    }

    pub(super) async fn at(server: &str, max_age: Duration) -> Self {
        let client = async_nats::connect(server).await.unwrap();
        let context = jetstream::new(client.clone());
        let streams = Self {
            client,
            context,
            orders: name("orders"),
            dead: name("dead"),
        };
        for subject in [&streams.orders, &streams.dead] {
            let config = stream::Config {
                name: subject.clone(),
                subjects: vec![format!("{subject}.>")],
                max_age,
                ..stream::Config::default()
            };
            streams.context.create_stream(config).await.unwrap();
        }
        streams
    }

    pub(super) fn source(&self, durable: &str) -> JetStream {
        let dead = format!("{}.letters", self.dead);
        JetStream::new(self.client.clone(), &self.orders, durable, dead)
    }

    /// How many messages a stream has.
    pub(super) async fn stored(&self, stream: &str) -> u64 {
        let mut stream = self.context.get_stream(stream).await.unwrap();
        stream.info().await.unwrap().state.messages
    }

    pub(super) async fn publish(&self, id: Option<&str>, payload: Vec<u8>) {
        let mut headers = HeaderMap::new();
        if let Some(id) = id {
            // JetStream drops a second one with a `Nats-Msg-Id`, for a while.
            headers.insert("Idem-Message-Id", id);
        }
        let subject = format!("{}.placed", self.orders);
        let stored = self
            .context
            .publish_with_headers(subject, headers, payload.into())
            .await;
        stored.unwrap().await.unwrap();
    }

    async fn order(&self, id: &str, behaviour: Behaviour) {
        self.publish(Some(id), Order::new(id, behaviour).payload())
            .await;
    }

    async fn info(&self, durable: &str) -> jetstream::consumer::Info {
        let stream = self.context.get_stream(&self.orders).await.unwrap();
        let consumer: PullConsumer = stream.get_consumer(durable).await.unwrap();
        consumer.cached_info().clone()
    }

    /// How often messages were delivered.
    pub(super) async fn deliveries(&self, durable: &str) -> u64 {
        self.info(durable).await.delivered.consumer_sequence
    }

    /// Until nothing is to be delivered or acknowledged.
    pub(super) async fn until_done(&self, durable: &str) {
        until("all are acknowledged", PATIENCE * 2, async || {
            let info = self.info(durable).await;
            (info.num_pending, info.num_ack_pending) == (0, 0)
        })
        .await;
    }

    async fn dead_letters(&self, number: usize) -> Vec<jetstream::Message> {
        let stream = self.context.get_stream(&self.dead).await.unwrap();
        let config = jetstream::consumer::pull::Config::default();
        let consumer = stream.create_consumer(config).await.unwrap();
        let batch = consumer.batch().max_messages(number).expires(PATIENCE);
        let messages = batch.messages().await.unwrap();
        messages.map(Result::unwrap).collect().await
    }
}

async fn messages_that_come_again_have_one_effect<DB: Tested>() {
    let (desk, streams) = (Desk::<DB>::new().await, Streams::new().await);
    for round in 0..3 {
        for message in 0..20 {
            let behaviour = if round == 0 {
                Behaviour::Work
            } else {
                Behaviour::Slow(5)
            };
            streams.order(&format!("m{message}"), behaviour).await;
        }
    }
    let consumers = DB::ledger(desk.consumers()).source("orders", streams.source("ledger"));
    let running = consumers.spawn().await.unwrap();
    streams.until_done("ledger").await;
    running.stop().await;
    assert_eq!(desk.effects("1 = 1").await, 20);
    assert_eq!(desk.probe.entered(), 20);
}

async fn a_process_that_is_killed_doubles_nothing<DB: Tested>() {
    let (desk, streams) = (Desk::<DB>::new().await, Streams::new().await);
    let dead = format!("{}.letters", streams.dead);
    let server = url("IDEM_NATS_URL");
    let environment = [
        ("DATABASE", desk.url()),
        ("NATS", &server),
        ("STREAM", &streams.orders),
        ("DURABLE", "ledger"),
        ("ACK_WAIT", "1000"),
        ("DEAD_LETTERS", &dead),
    ];
    let mut published = 0;
    for point in POINTS {
        for _ in 0..8 {
            let id = format!("m{published}");
            streams.publish(Some(&id), id.clone().into_bytes()).await;
            published += 1;
        }
        child::killed(child::start(&environment, Some(point)).await).await;
    }
    let last = child::start(&environment, None).await;
    streams.until_done("ledger").await;
    drop(last);
    assert_eq!(desk.effects("1 = 1").await, published);
    let messages = "SELECT COUNT(DISTINCT message) FROM effects";
    assert_eq!(desk.database().number(messages).await, published);
    let info = streams.info("ledger").await;
    assert!(
        info.delivered.consumer_sequence > info.delivered.stream_sequence,
        "some came again"
    );
}

async fn a_message_that_kills_its_process_is_buried_and_no_other<DB: Tested>() {
    let (desk, streams) = (Desk::<DB>::new().await, Streams::new().await);
    let (dead, server) = (format!("{}.letters", streams.dead), url("IDEM_NATS_URL"));
    let environment = [
        ("DATABASE", desk.url()),
        ("NATS", &server),
        ("STREAM", &streams.orders),
        ("DURABLE", "ledger"),
        ("ACK_WAIT", "500"),
        ("DEAD_LETTERS", &dead),
        ("MAX_DELIVERIES", "2"),
    ];
    // As many as are taken at once.
    for id in ["m0", "m1", "poison", "m2"] {
        streams.publish(Some(id), id.into()).await;
    }
    let deaths = child::restarted(&environment, async || {
        desk.effects("1 = 1").await == 3 && streams.stored(&streams.dead).await == 1
    });
    // Deliveries are counted for what died with it, too; runs that are watched are not.
    assert!(deaths.await >= 5);
    streams.until_done("ledger").await;
    assert_eq!(desk.effects("message = 'poison'").await, 0);
    assert_eq!(streams.stored(&streams.dead).await, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_consumer_slower_than_the_redelivery_runs_once() {
    let (desk, streams) = (Desk::<Postgres>::new().await, Streams::new().await);
    let source = streams.source("ledger").ack_wait(Duration::from_secs(1));
    let consumers = Postgres::ledger(desk.consumers()).source("orders", source);
    let running = consumers.spawn().await.unwrap();
    streams.order("m1", Behaviour::Slow(4000)).await;
    until("it is entered", PATIENCE, async || desk.probe.entered() > 0).await;
    streams.until_done("ledger").await;
    let info = streams.info("ledger").await;
    assert_eq!(info.delivered.consumer_sequence, 1, "it was delivered once");
    running.stop().await;
    assert_eq!((desk.effects("1 = 1").await, desk.probe.entered()), (1, 1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_can_not_be_processed_is_kept_elsewhere_with_the_reason() {
    let (desk, streams) = (Desk::<Sqlite>::new().await, Streams::new().await);
    let consumers = Sqlite::ledger(desk.consumers()).max_deliveries(2);
    let running = consumers
        .source("orders", streams.source("ledger"))
        .spawn()
        .await
        .unwrap();
    let order = |id| Order::new(id, Behaviour::Work).payload();
    streams.publish(None, order("m0")).await;
    streams.publish(Some(""), order("m1")).await;
    streams.publish(Some("m2"), b"no JSON".to_vec()).await;
    streams.order("m3", Behaviour::Reject).await;
    streams.order("m4", Behaviour::Retry).await;
    let dead = streams.dead_letters(5).await;
    streams.until_done("ledger").await;
    let header = |message: &jetstream::Message, name: &str| {
        let headers = message.headers.clone().unwrap();
        headers.get(name).map(|value| value.as_str().to_owned())
    };
    let reason = |payload: &[u8]| {
        let message = dead
            .iter()
            .find(|message| message.payload == payload)
            .unwrap();
        assert_eq!(
            header(message, "Idem-Subject"),
            Some(format!("{}.placed", streams.orders))
        );
        header(message, "Idem-Reason").unwrap()
    };
    assert!(reason(&order("m0")).contains("the message has no id"));
    assert!(reason(&order("m1")).contains("the message's id is empty"));
    assert!(reason(b"no JSON").contains("the payload is no"));
    let refused = Order::new("m3", Behaviour::Reject).payload();
    assert_eq!(reason(&refused), "consumer `ledger`: unknown account");
    let failed = Order::new("m4", Behaviour::Retry).payload();
    assert!(reason(&failed).starts_with("2 deliveries did not process it"));
    assert_eq!(desk.effects("1 = 1").await, 0);
    // Published again with its id, it is the same message: it runs, and it runs once.
    desk.probe.allow_retries();
    let message = dead
        .iter()
        .find(|message| message.payload == failed)
        .unwrap();
    let id = header(message, "Idem-Message-Id").unwrap();
    assert_eq!(id, "m4");
    for _ in 0..2 {
        streams.publish(Some(&id), failed.clone()).await;
    }
    streams.until_done("ledger").await;
    running.stop().await;
    assert_eq!(desk.effects("message = 'm4'").await, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_brokers_id_tells_redeliveries_and_no_more() {
    let (desk, streams) = (Desk::<Postgres>::new().await, Streams::new().await);
    let source = streams.source("ledger").ack_wait(Duration::from_secs(1));
    let consumers = Postgres::mail(Postgres::by_broker(desk.consumers())).source("orders", source);
    let running = consumers.spawn().await.unwrap();
    // The second publication of it is another message by the broker's id, and the same by its publisher's.
    streams.order("m1", Behaviour::Work).await;
    streams.order("m1", Behaviour::Work).await;
    streams.until_done("ledger").await;
    assert_eq!(desk.effects("consumer = 'by_broker'").await, 2);
    assert_eq!(desk.effects("consumer = 'mail'").await, 1);
    // A redelivery has the id of the first delivery.
    streams.order("m2", Behaviour::Retry).await;
    until("it has failed", PATIENCE, async || {
        streams.info("ledger").await.delivered.consumer_sequence > 4
    })
    .await;
    desk.probe.allow_retries();
    streams.until_done("ledger").await;
    running.stop().await;
    assert_eq!(desk.effects("message = 'm2'").await, 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_durable_consumers_of_one_stream_both_run() {
    let (desk, streams) = (Desk::<Postgres>::new().await, Streams::new().await);
    let ledger = Postgres::ledger(desk.consumers()).source("orders", streams.source("ledger"));
    let mail = Postgres::mail(desk.consumers()).source("orders", streams.source("mail"));
    let running = [ledger.spawn().await.unwrap(), mail.spawn().await.unwrap()];
    for message in 0..10 {
        streams.order(&format!("m{message}"), Behaviour::Work).await;
    }
    streams.until_done("ledger").await;
    streams.until_done("mail").await;
    for running in running {
        running.stop().await;
    }
    assert_eq!(desk.effects("consumer = 'ledger'").await, 10);
    assert_eq!(desk.effects("consumer = 'mail'").await, 10);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stop_leaves_what_is_not_taken_to_the_next() {
    let (desk, streams) = (Desk::<Postgres>::new().await, Streams::new().await);
    for message in 0..40 {
        streams
            .order(&format!("m{message}"), Behaviour::Slow(20))
            .await;
    }
    let consumers = || {
        let source = streams.source("ledger").ack_wait(Duration::from_secs(2));
        Postgres::ledger(desk.consumers())
            .concurrency(4)
            .source("orders", source)
    };
    let running = consumers().spawn().await.unwrap();
    until("some are processed", PATIENCE, async || {
        desk.effects("1 = 1").await > 4
    })
    .await;
    running.stop().await;
    let entered = desk.probe.entered();
    let effects = usize::try_from(desk.effects("1 = 1").await).unwrap();
    assert_eq!(entered, effects, "what ran is finished");
    let running = consumers().spawn().await.unwrap();
    streams.until_done("ledger").await;
    running.stop().await;
    assert_eq!(
        (desk.effects("1 = 1").await, desk.probe.entered()),
        (40, 40)
    );
}

#[tokio::test]
async fn a_stream_that_can_not_be_consumed_safely_is_refused() {
    let desk = Desk::<Sqlite>::new().await;
    let refusal = async |source: JetStream| {
        let consumers = Sqlite::ledger(desk.consumers()).source("orders", source);
        match consumers.spawn().await {
            Err(error) => error.to_string(),
            Ok(_) => panic!("it starts"),
        }
    };
    let server = url("IDEM_NATS_URL");
    let hour = Streams::new().await;
    let missing = JetStream::new(hour.client.clone(), "none", "ledger", "dead.letters");
    let refused = refusal(missing).await;
    assert!(refused.contains("there is no stream `none`"), "{refused}");
    let lost = JetStream::new(
        hour.client.clone(),
        &hour.orders,
        "ledger",
        "nobody.keeps.this",
    );
    let refused = refusal(lost).await;
    assert!(
        refused.contains("no stream keeps `nobody.keeps.this`"),
        "{refused}"
    );
    let own = format!("{}.dead", hour.orders);
    let refused = refusal(JetStream::new(
        hour.client.clone(),
        &hour.orders,
        "ledger",
        own,
    ))
    .await;
    assert!(
        refused.contains("dead letters would come back"),
        "{refused}"
    );
    let forever = Streams::at(&server, Duration::ZERO).await;
    let refused = refusal(forever.source("ledger")).await;
    assert!(
        refused.contains("may deliver it again at any time"),
        "{refused}"
    );
    let week = Streams::at(&server, Duration::from_secs(7 * 24 * 3600)).await;
    let refused = refusal(week.source("ledger")).await;
    assert!(
        refused
            .contains("remembers a message for 86400s, and it may be delivered again for 604800s"),
        "{refused}"
    );
    let promised = week
        .source("ledger")
        .redelivered_within(Duration::from_secs(3600));
    let consumers = Sqlite::ledger(desk.consumers()).source("orders", promised);
    consumers.spawn().await.unwrap().stop().await;
    let stream = hour.context.get_stream(&hour.orders).await.unwrap();
    let limited = jetstream::consumer::pull::Config {
        durable_name: Some("limited".to_owned()),
        max_deliver: 5,
        ..Default::default()
    };
    stream.create_consumer(limited).await.unwrap();
    let refused = refusal(hour.source("limited")).await;
    assert!(refused.contains("has `max_deliver` = 5"), "{refused}");
}
