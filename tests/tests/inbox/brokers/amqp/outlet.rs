//! What can't be published: to wait, or to the dead letters.

use std::time::Duration;

use idem_tests::brokers::Broker;
use idem_tests::wait::{PATIENCE, until};
use lapin::options::{BasicGetOptions, BasicNackOptions, QueueDeclareOptions};
use lapin::types::{AMQPValue, FieldTable};
use sqlx::Postgres;

use super::Queues;
use crate::setup::{Behaviour, Desk, Order, Tested};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wait_that_is_refused_holds_neither_places_nor_dead_letters_up() {
    let (desk, queues) = (Desk::<Postgres>::new().await, Queues::new().await);
    // Somebody else's queue of that name, with other arguments: the broker closes the channel of who declares it.
    let made = queues.channel.queue_declare(
        format!("{}.idem-wait.1s", queues.orders).into(),
        QueueDeclareOptions::default(),
        FieldTable::default(),
    );
    made.await.unwrap();
    let consumers = Postgres::ledger(desk.consumers())
        .concurrency(2)
        .max_deliveries(1000);
    let running = consumers
        .source("orders", queues.source())
        .spawn()
        .await
        .unwrap();
    // As many as there are places.
    queues.order("m1", Behaviour::Retry).await;
    queues.order("m2", Behaviour::Retry).await;
    until("they are delivered again", PATIENCE, async || {
        desk.probe.entered() >= 6
    })
    .await;
    queues.order("m3", Behaviour::Reject).await;
    let dead = queues.dead_letters(1).await;
    assert_eq!(
        dead[0].data,
        Order::new("m3", Behaviour::Reject).payload(),
        "it is the one that was refused"
    );
    desk.probe.allow_retries();
    until("they are processed", PATIENCE, async || {
        desk.effects("1 = 1").await == 2
    })
    .await;
    running.stop().await;
    assert_eq!(queues.ready(&queues.orders).await, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_broker_that_holds_publishers_up_holds_no_stop_and_no_acknowledgement_up() {
    let broker = Broker::rabbitmq().await;
    let (desk, queues) = (
        Desk::<Postgres>::new().await,
        Queues::at(&broker.url(), FieldTable::default()).await,
    );
    queues.order("m1", Behaviour::Retry).await;
    for message in 2..=5 {
        queues.order(&format!("m{message}"), Behaviour::Work).await;
    }
    broker.memory("1MB").await;
    let source = || queues.source_at(&broker.url());
    // One place is held by what can't be published.
    let consumers = || Postgres::ledger(desk.consumers().concurrency(2));
    let running = consumers()
        .source("orders", source())
        .spawn()
        .await
        .unwrap();
    until("the others are processed", PATIENCE * 2, async || {
        desk.effects("1 = 1").await == 4
    })
    .await;
    let stopped = tokio::time::timeout(PATIENCE, running.stop()).await;
    assert!(stopped.is_ok(), "it waits for the broker");
    until("what was not acknowledged is back", PATIENCE, async || {
        queues.ready(&queues.orders).await == 1
    })
    .await;
    broker.memory("8GB").await;
    desk.probe.allow_retries();
    let running = consumers()
        .source("orders", source())
        .spawn()
        .await
        .unwrap();
    until("all are processed", PATIENCE, async || {
        desk.effects("1 = 1").await == 5
    })
    .await;
    running.stop().await;
    assert_eq!(desk.effects("message = 'm1'").await, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn deliveries_that_a_quorum_queue_counted_are_counted_once() {
    let quorum = AMQPValue::LongString("quorum".into());
    let mut arguments = FieldTable::default();
    arguments.insert("x-queue-type".into(), quorum);
    let desk = Desk::<Postgres>::new().await;
    let queues = Queues::at(&super::url("IDEM_AMQP_URL"), arguments).await;
    queues.order("m1", Behaviour::Retry).await;
    // Three deliveries that somebody else gave back.
    for _ in 0..3 {
        let mut got = None;
        until("it is there", PATIENCE, async || {
            let options = BasicGetOptions::default();
            let get = queues
                .channel
                .basic_get(queues.orders.as_str().into(), options);
            got = get.await.unwrap();
            got.is_some()
        })
        .await;
        let requeue = BasicNackOptions {
            requeue: true,
            ..BasicNackOptions::default()
        };
        let acker = &got.unwrap().delivery.acker;
        acker.nack(requeue).await.unwrap();
    }
    let consumers = Postgres::ledger(desk.consumers())
        .retry_pause(Duration::from_millis(20), Duration::from_millis(20))
        .max_deliveries(6);
    let running = consumers
        .source("orders", queues.source())
        .spawn()
        .await
        .unwrap();
    let dead = queues.dead_letters(1).await;
    running.stop().await;
    let headers = dead[0].properties.headers().clone().unwrap();
    let deliveries = headers.inner().get("idem-deliveries");
    assert_eq!(deliveries, Some(&AMQPValue::LongLongInt(6)), "{headers:?}");
    assert_eq!(desk.probe.entered(), 3, "three more than there were");
}
