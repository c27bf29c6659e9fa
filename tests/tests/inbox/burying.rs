//! What can't be processed: it is kept elsewhere, with the reason.

use idem_runtime::inbox::Incoming;
use idem_tests::wait::{PATIENCE, until};

use super::fake::Broker;
use super::setup::{Behaviour, Desk, Order, Tested};
use crate::on_databases;

on_databases![
    messages_without_an_id_are_buried_each_by_itself,
    what_can_not_be_read_is_buried,
    what_is_refused_for_good_is_buried_at_once,
    what_never_works_is_buried_in_the_end,
    a_consumer_that_loses_its_connection_each_time_is_no_outage,
    a_dead_letter_that_is_not_stored_stays_a_message,
    what_never_comes_back_is_run_alone_and_then_buried,
    a_run_that_comes_back_is_not_counted,
    what_is_processed_is_no_dead_letter_however_often_it_comes,
];

async fn messages_without_an_id_are_buried_each_by_itself<DB: Tested>() {
    let desk = Desk::<DB>::new().await;
    let broker = Broker::new();
    let consumers = DB::ledger(desk.consumers());
    let running = consumers
        .source("orders", broker.clone())
        .spawn()
        .await
        .unwrap();
    let payload = Order::new("m", Behaviour::Work).payload();
    let bare = || Incoming::new("orders.placed", payload.clone());
    broker.publish([
        bare(),
        bare(),
        bare().with_message_id(""),
        bare().with_message_id(" "),
    ]);
    until("all are buried", PATIENCE, async || {
        broker.told().dead.len() == 4
    })
    .await;
    running.stop().await;
    let mut reasons: Vec<String> = broker.told().dead.into_iter().map(|(_, why)| why).collect();
    reasons.sort();
    assert!(
        reasons[..2]
            .iter()
            .all(|why| why.starts_with("consumer `ledger`: the message has no id")),
        "{reasons:?}"
    );
    assert!(
        reasons[2..]
            .iter()
            .all(|why| why.starts_with("consumer `ledger`: the message's id is empty")),
        "{reasons:?}"
    );
    assert_eq!(
        (
            desk.effects("1 = 1").await,
            broker.told().acknowledged.len()
        ),
        (0, 0)
    );
}

async fn what_can_not_be_read_is_buried<DB: Tested>() {
    let desk = Desk::<DB>::new().await;
    let broker = Broker::new();
    let consumers = DB::ledger(desk.consumers());
    let running = consumers
        .source("orders", broker.clone())
        .spawn()
        .await
        .unwrap();
    for (id, payload) in [("m1", "no JSON"), ("m2", r#"{"behaviour":"Work"}"#)] {
        broker.publish([Incoming::new("orders.placed", payload).with_message_id(id)]);
    }
    until("both are buried", PATIENCE, async || {
        broker.told().dead.len() == 2
    })
    .await;
    running.stop().await;
    for (message, reason) in broker.told().dead {
        assert!(reason.contains("the payload is no"), "{reason}");
        assert_eq!(message.delivery(), 1, "at once");
    }
    assert_eq!(
        (desk.effects("1 = 1").await, desk.rows("1 = 1").await),
        (0, 0)
    );
}

async fn what_is_refused_for_good_is_buried_at_once<DB: Tested>() {
    let desk = Desk::<DB>::new().await;
    let broker = Broker::new();
    let consumers = DB::ledger(desk.consumers());
    let running = consumers
        .source("orders", broker.clone())
        .spawn()
        .await
        .unwrap();
    broker.publish([Order::delivered("m1", Behaviour::Reject)]);
    until("it is buried", PATIENCE, async || {
        broker.told().dead.len() == 1
    })
    .await;
    running.stop().await;
    let told = broker.told();
    assert_eq!(told.dead[0].1, "consumer `ledger`: unknown account");
    assert_eq!((told.retried.len(), told.acknowledged.len()), (0, 0));
    assert_eq!(
        (desk.effects("1 = 1").await, desk.rows("1 = 1").await),
        (0, 0)
    );
}

async fn what_never_works_is_buried_in_the_end<DB: Tested>() {
    for behaviour in [Behaviour::Retry, Behaviour::Panic] {
        let desk = Desk::<DB>::new().await;
        let broker = Broker::new();
        let consumers = DB::ledger(desk.consumers()).max_deliveries(3);
        let running = consumers
            .source("orders", broker.clone())
            .spawn()
            .await
            .unwrap();
        broker.publish([Order::delivered("m1", behaviour)]);
        until("it is buried", PATIENCE, async || {
            broker.told().dead.len() == 1
        })
        .await;
        running.stop().await;
        let told = broker.told();
        assert_eq!((told.retried.len(), desk.probe.entered()), (2, 3));
        let reason = &told.dead[0].1;
        assert!(
            reason.starts_with("3 deliveries did not process it; the last: consumer `ledger`:"),
            "{reason}"
        );
        assert_eq!(desk.effects("1 = 1").await, 0);
    }
}

async fn a_consumer_that_loses_its_connection_each_time_is_no_outage<DB: Tested>() {
    let desk = Desk::<DB>::new().await;
    let broker = Broker::new();
    let consumers = DB::ledger(desk.consumers()).max_deliveries(1);
    let running = consumers
        .source("orders", broker.clone())
        .spawn()
        .await
        .unwrap();
    broker.publish([Order::delivered("m1", Behaviour::Disconnect)]);
    until("it is buried", PATIENCE, async || {
        broker.told().dead.len() == 1
    })
    .await;
    running.stop().await;
    assert!(desk.probe.entered() > 1, "it may be an outage, at first");
}

async fn a_dead_letter_that_is_not_stored_stays_a_message<DB: Tested>() {
    let desk = Desk::<DB>::new().await;
    let broker = Broker::new();
    broker.lose_dead_letters(2);
    let consumers = DB::ledger(desk.consumers());
    let running = consumers
        .source("orders", broker.clone())
        .spawn()
        .await
        .unwrap();
    broker.publish([Order::delivered("m1", Behaviour::Reject)]);
    until("it is buried", PATIENCE, async || {
        broker.told().dead.len() == 1
    })
    .await;
    running.stop().await;
    assert_eq!(broker.told().retried.len(), 2);
}

/// Delivers a message and drops everything while its consumer runs, as a crash does.
async fn dies_with<DB: Tested>(desk: &Desk<DB>, message: Incoming) {
    let broker = Broker::new();
    let consumers = DB::ledger(desk.consumers()).max_deliveries(2);
    let consumers = consumers.source("orders", broker.clone());
    let before = desk.probe.entered();
    let running = tokio::spawn(consumers.run_until(std::future::pending()));
    broker.publish([message]);
    until("it is entered", PATIENCE, async || {
        desk.probe.entered() > before
    })
    .await;
    running.abort();
    assert!(running.await.unwrap_err().is_cancelled());
}

async fn what_never_comes_back_is_run_alone_and_then_buried<DB: Tested>() {
    let desk = Desk::<DB>::new().await;
    let message = Order::delivered("m1", Behaviour::Wait);
    for delivery in 1..=5 {
        dies_with(&desk, message.clone().with_delivery(delivery)).await;
    }
    let broker = Broker::new();
    let consumers = DB::ledger(desk.consumers()).max_deliveries(2);
    let running = consumers
        .source("orders", broker.clone())
        .spawn()
        .await
        .unwrap();
    broker.publish([message.with_delivery(6)]);
    until("it is buried", PATIENCE, async || {
        broker.told().dead.len() == 1
    })
    .await;
    running.stop().await;
    assert_eq!(
        desk.probe.entered(),
        5,
        "two deliveries, three watched runs"
    );
    let reason = &broker.told().dead[0].1;
    assert!(
        reason.starts_with("consumer `ledger`: its process ended in each of the 3 runs"),
        "{reason}"
    );
    assert_eq!(desk.effects("1 = 1").await, 0);
}

async fn a_run_that_comes_back_is_not_counted<DB: Tested>() {
    let desk = Desk::<DB>::new().await;
    let broker = Broker::new();
    let consumers = DB::ledger(desk.consumers()).max_deliveries(2);
    let running = consumers
        .source("orders", broker.clone())
        .spawn()
        .await
        .unwrap();
    let suspect = |id| Order::delivered(id, Behaviour::Wait).with_delivery(9);
    broker.publish([suspect("m1"), suspect("m2")]);
    until("one of them runs", PATIENCE, async || {
        desk.probe.entered() == 1
    })
    .await;
    // SQLite has one writer, whom the suspect's run holds.
    if !DB::SINGLE_WRITER {
        broker.publish([Order::delivered("m3", Behaviour::Work)]);
        until("others are not held up", PATIENCE, async || {
            desk.effects("message = 'm3'").await == 1
        })
        .await;
        assert_eq!(desk.probe.entered(), 2, "the other suspect waits");
    }
    desk.probe.gate().add_permits(2);
    until("both are processed", PATIENCE, async || {
        desk.effects("message <> 'm3'").await == 2
    })
    .await;
    running.stop().await;
    assert_eq!(broker.told().dead.len(), 0);
    assert_eq!(desk.rows("state > 2").await, 0);
    assert_eq!(desk.rows("state = 1").await, desk.effects("1 = 1").await);
}

async fn what_is_processed_is_no_dead_letter_however_often_it_comes<DB: Tested>() {
    let desk = Desk::<DB>::new().await;
    let message = Order::delivered("m1", Behaviour::Wait);
    for delivery in 3..=5 {
        dies_with(&desk, message.clone().with_delivery(delivery)).await;
    }
    desk.idempotency
        .inbox()
        .process("ledger", "orders", "m1", async |_| Ok::<_, sqlx::Error>(()))
        .await
        .unwrap();
    let broker = Broker::new();
    let consumers = DB::ledger(desk.consumers()).max_deliveries(2);
    let running = consumers
        .source("orders", broker.clone())
        .spawn()
        .await
        .unwrap();
    broker.publish([message.with_delivery(6)]);
    until("it is acknowledged", PATIENCE, async || {
        broker.told().acknowledged.len() == 1
    })
    .await;
    running.stop().await;
    assert_eq!((broker.told().dead.len(), desk.probe.entered()), (0, 3));
}
