//! Consumers of a source: what is acknowledged, given back and buried, and when.

use std::time::Duration;

use futures_util::future::join;
use idem_runtime::inbox::{Incoming, Processed};
use idem_tests::wait::{PATIENCE, until};

use super::fake::Broker;
use super::setup::{Behaviour, Desk, Order, Tested};
use crate::on_databases;

on_databases![
    a_message_is_acknowledged_after_its_commit,
    a_lost_acknowledgement_makes_a_duplicate,
    duplicates_in_one_batch_have_one_effect,
    two_consumers_of_one_message_both_run,
    an_id_may_be_a_field_of_the_payload,
    a_duplicate_is_one_whatever_its_payload,
    what_may_work_later_is_delivered_again,
    a_slow_consumer_runs_once_and_its_time_is_extended,
    what_can_not_be_extended_is_given_back_in_time,
    a_stop_finishes_what_runs_and_takes_no_more,
    no_more_run_at_once_than_are_allowed,
];

async fn a_message_is_acknowledged_after_its_commit<DB: Tested>() {
    let desk = Desk::<DB>::new().await;
    let broker = Broker::counting(desk.database());
    let consumers = DB::ledger(desk.consumers()).concurrency(1);
    let running = broker.feed(consumers).await;
    broker.publish((0..5).map(|n| Order::delivered(&format!("m{n}"), Behaviour::Work)));
    until("all are acknowledged", PATIENCE, async || {
        broker.told().acknowledged.len() == 5
    })
    .await;
    assert_eq!(
        broker.told().effects,
        [1, 2, 3, 4, 5],
        "another connection sees each first"
    );
    running.stop().await;
}

async fn a_lost_acknowledgement_makes_a_duplicate<DB: Tested>() {
    let desk = Desk::<DB>::new().await;
    let broker = Broker::new();
    let consumers = DB::ledger(desk.consumers());
    let running = broker.feed(consumers).await;
    // A process may be gone before it acknowledges: the message comes again.
    broker.lose_acknowledgements(3);
    broker.publish([Order::delivered("m1", Behaviour::Work)]);
    until("it is processed", PATIENCE, async || {
        desk.effects("1 = 1").await == 1
    })
    .await;
    until("its acknowledgements are lost", PATIENCE, async || {
        broker.acknowledgements_to_lose() == 0
    })
    .await;
    broker.publish([Order::delivered("m1", Behaviour::Work).with_delivery(2)]);
    until("it is acknowledged", PATIENCE, async || {
        broker.told().acknowledged == ["m1"]
    })
    .await;
    running.stop().await;
    assert_eq!((desk.effects("1 = 1").await, desk.probe.entered()), (1, 1));
}

async fn duplicates_in_one_batch_have_one_effect<DB: Tested>() {
    let desk = Desk::<DB>::new().await;
    let broker = Broker::new();
    let mut batch = Vec::new();
    for message in ["m1", "m2"] {
        batch.extend((0..5).map(|_| Order::delivered(message, Behaviour::Slow(50))));
    }
    broker.publish(batch);
    let consumers = DB::ledger(desk.consumers()).concurrency(10);
    let running = broker.feed(consumers).await;
    until("all are acknowledged", PATIENCE, async || {
        broker.told().acknowledged.len() == 10
    })
    .await;
    running.stop().await;
    assert_eq!((desk.effects("1 = 1").await, desk.probe.entered()), (2, 2));
    assert_eq!(broker.told().dead.len(), 0);
}

async fn two_consumers_of_one_message_both_run<DB: Tested>() {
    let desk = Desk::<DB>::new().await;
    let broker = Broker::new();
    let consumers = DB::mail(DB::ledger(desk.consumers()));
    let running = broker.feed(consumers).await;
    broker.publish([Order::delivered("m1", Behaviour::Work)]);
    until("it is acknowledged", PATIENCE, async || {
        broker.told().acknowledged == ["m1"]
    })
    .await;
    assert_eq!(desk.effects("consumer = 'ledger'").await, 1);
    assert_eq!(desk.effects("consumer = 'mail'").await, 1);
    // One of them fails: the other is a duplicate when the message comes again.
    broker.publish([Order::delivered("m2", Behaviour::Retry)]);
    until("it is tried again", PATIENCE, async || {
        broker.told().retried.len() > 1
    })
    .await;
    assert_eq!(
        desk.effects("message = 'm2' AND consumer = 'mail'").await,
        1
    );
    desk.probe.allow_retries();
    until("it is acknowledged", PATIENCE, async || {
        broker.told().acknowledged == ["m1", "m2"]
    })
    .await;
    running.stop().await;
    assert_eq!(desk.effects("message = 'm2'").await, 2);
    assert_eq!(
        desk.effects("message = 'm2' AND consumer = 'ledger'").await,
        1
    );
}

async fn an_id_may_be_a_field_of_the_payload<DB: Tested>() {
    let desk = Desk::<DB>::new().await;
    let broker = Broker::new();
    let consumers = DB::by_field(desk.consumers());
    let running = broker.feed(consumers).await;
    // The publisher published it twice, with an id of its own each time.
    let message = || Order::delivered("e1", Behaviour::Work);
    broker.publish([
        message().with_message_id("a"),
        message().with_message_id("b"),
    ]);
    broker.publish([Incoming::new("orders.placed", &b"{}"[..]).with_message_id("c")]);
    until("all are told", PATIENCE, async || {
        let told = broker.told();
        told.acknowledged.len() + told.dead.len() == 3
    })
    .await;
    running.stop().await;
    assert_eq!(desk.effects("message = 'e1'").await, 1);
    let dead = broker.told().dead;
    assert_eq!(dead[0].0.message_id(), Some("c"));
    assert!(dead[0].1.contains("no id in the field"), "{}", dead[0].1);
}

async fn a_duplicate_is_one_whatever_its_payload<DB: Tested>() {
    let desk = Desk::<DB>::new().await;
    let broker = Broker::new();
    let consumers = DB::ledger(desk.consumers());
    let running = broker.feed(consumers).await;
    broker.publish([Order::delivered("m1", Behaviour::Work)]);
    until("it is acknowledged", PATIENCE, async || {
        broker.told().acknowledged.len() == 1
    })
    .await;
    // As if a deploy read payloads more strictly.
    broker.publish([Incoming::new("orders.placed", "no JSON").with_message_id("m1")]);
    until("it is acknowledged", PATIENCE, async || {
        broker.told().acknowledged.len() == 2
    })
    .await;
    running.stop().await;
    assert_eq!(broker.told().dead.len(), 0);
}

async fn what_may_work_later_is_delivered_again<DB: Tested>() {
    let desk = Desk::<DB>::new().await;
    let broker = Broker::new();
    let consumers = DB::ledger(desk.consumers());
    let running = broker.feed(consumers).await;
    broker.publish([Order::delivered("m1", Behaviour::Retry)]);
    until("it has failed some times", PATIENCE, async || {
        broker.told().retried.len() >= 4
    })
    .await;
    assert_eq!(desk.effects("1 = 1").await, 0);
    desk.probe.allow_retries();
    until("it is acknowledged", PATIENCE, async || {
        broker.told().acknowledged == ["m1"]
    })
    .await;
    running.stop().await;
    assert_eq!(desk.effects("1 = 1").await, 1);
    for (number, (_, after)) in broker.told().retried.iter().take(4).enumerate() {
        let longest = Duration::from_millis(20 << number);
        assert!(
            (longest / 2..=longest).contains(after),
            "{number}: {after:?}"
        );
    }
}

async fn a_slow_consumer_runs_once_and_its_time_is_extended<DB: Tested>() {
    let desk = Desk::<DB>::new().await;
    let broker = Broker::after_silence(Duration::from_secs(3));
    let consumers = DB::ledger(desk.consumers());
    let running = broker.feed(consumers).await;
    broker.publish([Order::delivered("m1", Behaviour::Wait)]);
    // Each third of the time-out: it's longer than that.
    until("its time is extended", PATIENCE, async || {
        broker.told().extended >= 4
    })
    .await;
    desk.probe.gate().add_permits(1);
    until("it is acknowledged", PATIENCE, async || {
        broker.told().acknowledged == ["m1"]
    })
    .await;
    running.stop().await;
    assert_eq!(
        broker.told().late,
        0,
        "it would have been delivered to somebody else"
    );
    assert_eq!((desk.effects("1 = 1").await, desk.probe.entered()), (1, 1));
}

async fn what_can_not_be_extended_is_given_back_in_time<DB: Tested>() {
    let desk = Desk::<DB>::with(|builder| builder.timeout(Duration::from_millis(400))).await;
    let broker = Broker::after(Duration::from_secs(6));
    let consumers = DB::ledger(desk.consumers());
    let running = broker.feed(consumers).await;
    // Somebody else works on the message for longer than the broker waits.
    let inbox = desk.idempotency.inbox().timeout(PATIENCE);
    let elsewhere = inbox.process("ledger", "orders", "m1", async |tx| {
        DB::effect(tx, "elsewhere", "m1").await?;
        desk.probe.enter();
        desk.probe.gate().acquire().await.unwrap().forget();
        Ok::<_, sqlx::Error>(())
    });
    let delivered = async {
        until("the message is taken", PATIENCE, async || {
            desk.probe.entered() == 1
        })
        .await;
        broker.publish([Order::delivered("m1", Behaviour::Work)]);
        until("it is given back", PATIENCE, async || {
            !broker.told().retried.is_empty()
        })
        .await;
        desk.probe.gate().add_permits(1);
        until("it is a duplicate", PATIENCE, async || {
            broker.told().acknowledged == ["m1"]
        })
        .await;
    };
    let (processed, ()) = join(elsewhere, delivered).await;
    running.stop().await;
    assert_eq!(processed.unwrap(), Processed::Done(()));
    assert_eq!(broker.told().late, 0);
    assert_eq!((desk.effects("1 = 1").await, desk.probe.entered()), (1, 1));
}

async fn a_stop_finishes_what_runs_and_takes_no_more<DB: Tested>() {
    let desk = Desk::<DB>::new().await;
    let broker = Broker::new();
    let consumers = DB::ledger(desk.consumers()).concurrency(1);
    let running = broker.feed(consumers).await;
    broker.publish([
        Order::delivered("m1", Behaviour::Wait),
        Order::delivered("m2", Behaviour::Work),
    ]);
    until("the first runs", PATIENCE, async || {
        desk.probe.entered() == 1
    })
    .await;
    let mut stopping = tokio::spawn(running.stop());
    let early = tokio::time::timeout(Duration::from_millis(200), &mut stopping).await;
    assert!(early.is_err(), "what runs is not over");
    desk.probe.gate().add_permits(1);
    stopping.await.unwrap();
    assert_eq!(broker.told().acknowledged, ["m1"]);
    assert_eq!((broker.waiting(), desk.effects("1 = 1").await), (1, 1));
}

async fn no_more_run_at_once_than_are_allowed<DB: Tested>() {
    let desk = Desk::<DB>::new().await;
    let broker = Broker::new();
    let consumers = DB::ledger(desk.consumers()).concurrency(1);
    let running = broker.feed(consumers).await;
    broker.publish((0..3).map(|n| Order::delivered(&format!("m{n}"), Behaviour::Wait)));
    for done in 1..=3 {
        until("the next runs", PATIENCE, async || {
            desk.probe.entered() == done
        })
        .await;
        assert_eq!(broker.waiting(), 3 - done, "the others are not even taken");
        desk.probe.gate().add_permits(1);
    }
    until("all are acknowledged", PATIENCE, async || {
        broker.told().acknowledged.len() == 3
    })
    .await;
    running.stop().await;
}
