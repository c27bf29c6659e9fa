//! What can't be processed: it is kept elsewhere, with the reason.

use idem_runtime::inbox::Incoming;
use idem_tests::wait::{PATIENCE, until};
use sha2::{Digest, Sha256};

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
    a_run_that_is_dropped_by_a_process_that_lives_is_not_counted,
    what_never_comes_back_is_buried_without_another_run,
    a_suspect_runs_while_no_other_message_does,
    a_suspect_that_fails_has_as_many_deliveries_again,
    what_is_processed_is_no_dead_letter_however_often_it_comes,
];

async fn messages_without_an_id_are_buried_each_by_itself<DB: Tested>() {
    let desk = Desk::<DB>::new().await;
    let broker = Broker::new();
    let consumers = DB::ledger(desk.consumers());
    let running = broker.feed(consumers).await;
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
    let running = broker.feed(consumers).await;
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
    let running = broker.feed(consumers).await;
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
        let running = broker.feed(consumers).await;
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
    let running = broker.feed(consumers).await;
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
    let running = broker.feed(consumers).await;
    broker.publish([Order::delivered("m1", Behaviour::Reject)]);
    until("it is buried", PATIENCE, async || {
        broker.told().dead.len() == 1
    })
    .await;
    running.stop().await;
    assert_eq!(broker.told().retried.len(), 2);
}

/// What the row's name is a digest of: tag and parts, each with its length before it.
fn digest(tag: &str, parts: &[&[u8]]) -> Vec<u8> {
    let mut hash = Sha256::new();
    for part in std::iter::once(&tag.as_bytes()).chain(parts) {
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part);
    }
    hash.finalize().to_vec()
}

/// Leaves in the database what three processes leave that died in a watched run of `m1`. They are real in the tests with brokers.
async fn three_processes_died<DB: Tested>(desk: &Desk<DB>) {
    let record = digest("idem/inbox/1", &[b"ledger", b"orders", b"m1"]);
    let entries = digest("idem/inbox-entries/1", &[&record]);
    let id: String = entries.iter().map(|byte| format!("{byte:02x}")).collect();
    let owner = "00".repeat(16);
    let values = if DB::BACKEND.is_postgres() {
        format!("'\\x{id}', 'ledger', 'orders', '\\x{owner}', 5, now(), now() + interval '1 day'")
    } else {
        format!("X'{id}', 'ledger', 'orders', X'{owner}', 5, 0, 4102444800000")
    };
    let insert = format!(
        "INSERT INTO idem_inbox (id, consumer, source, owner, state, processed_at, expires_at) VALUES ({values})"
    );
    desk.database().execute(&insert).await.unwrap();
}

async fn a_run_that_is_dropped_by_a_process_that_lives_is_not_counted<DB: Tested>() {
    let desk = Desk::<DB>::new().await;
    let broker = Broker::new();
    let consumers = DB::ledger(desk.consumers()).max_deliveries(2);
    let consumers = consumers.source("orders", broker.clone());
    let running = tokio::spawn(consumers.run_until(std::future::pending()));
    broker.publish([Order::delivered("m1", Behaviour::Wait).with_delivery(3)]);
    until("it is entered", PATIENCE, async || {
        desk.probe.entered() == 1
    })
    .await;
    assert_eq!(desk.rows("state = 3").await, 1);
    running.abort();
    assert!(running.await.unwrap_err().is_cancelled());
    until("it is forgotten", PATIENCE, async || {
        desk.rows("1 = 1").await == 0
    })
    .await;
}

async fn what_never_comes_back_is_buried_without_another_run<DB: Tested>() {
    let desk = Desk::<DB>::new().await;
    three_processes_died(&desk).await;
    let broker = Broker::new();
    broker.lose_dead_letters(2);
    let consumers = DB::ledger(desk.consumers()).max_deliveries(2);
    let running = broker.feed(consumers).await;
    let message = Order::delivered("m1", Behaviour::Work);
    broker.publish([message.clone().with_delivery(6)]);
    until("it is buried", PATIENCE, async || {
        broker.told().dead.len() == 1
    })
    .await;
    assert_eq!(desk.probe.entered(), 0);
    let reason = &broker.told().dead[0].1;
    assert!(
        reason.starts_with(
            "consumer `ledger`: a poison message: its process ended in each of 3 runs"
        ),
        "{reason}"
    );
    // An operator puts it back when the fault is gone: it is a message as any other.
    until("its runs are forgotten", PATIENCE, async || {
        desk.rows("1 = 1").await == 0
    })
    .await;
    broker.publish([message.with_delivery(3)]);
    until("it is processed", PATIENCE, async || {
        desk.effects("1 = 1").await == 1
    })
    .await;
    running.stop().await;
    assert_eq!(broker.told().dead.len(), 1);
}

async fn a_suspect_runs_while_no_other_message_does<DB: Tested>() {
    let desk = Desk::<DB>::new().await;
    let broker = Broker::new();
    let consumers = DB::ledger(desk.consumers()).max_deliveries(2);
    let running = broker.feed(consumers).await;
    let message = |id: &str| Order::delivered(id, Behaviour::Slow(50));
    let ordinary = (0..8).map(|number| message(&format!("m{number}")));
    broker.publish(ordinary);
    broker.publish((8..12).map(|number| message(&format!("m{number}")).with_delivery(9)));
    until("they are processed", PATIENCE, async || {
        desk.effects("1 = 1").await == 12
    })
    .await;
    broker.publish([Order::delivered("m12", Behaviour::Wait).with_delivery(9)]);
    until("the suspect runs", PATIENCE, async || {
        desk.probe.entered() == 13
    })
    .await;
    let together = desk.probe.most_together();
    broker.publish([Order::delivered("m13", Behaviour::Work)]);
    until("it is taken", PATIENCE, async || broker.waiting() == 0).await;
    assert_eq!(desk.probe.entered(), 13, "the suspect is alone");
    desk.probe.gate().add_permits(1);
    until("all are processed", PATIENCE, async || {
        desk.effects("1 = 1").await == 14
    })
    .await;
    running.stop().await;
    assert_eq!(broker.told().dead.len(), 0);
    assert_eq!(
        (desk.rows("state > 2").await, desk.rows("state = 1").await),
        (0, 14)
    );
    assert!(DB::SINGLE_WRITER || together > 1, "others run together");
}

async fn a_suspect_that_fails_has_as_many_deliveries_again<DB: Tested>() {
    let desk = Desk::<DB>::new().await;
    let broker = Broker::new();
    let consumers = DB::ledger(desk.consumers()).max_deliveries(3);
    let running = broker.feed(consumers).await;
    broker.publish([Order::delivered("m1", Behaviour::Retry).with_delivery(4)]);
    until("it is buried", PATIENCE, async || {
        broker.told().dead.len() == 1
    })
    .await;
    running.stop().await;
    assert_eq!(desk.probe.entered(), 3, "deliveries 4, 5 and 6");
    assert_eq!(desk.rows("1 = 1").await, 0);
}

async fn what_is_processed_is_no_dead_letter_however_often_it_comes<DB: Tested>() {
    let desk = Desk::<DB>::new().await;
    three_processes_died(&desk).await;
    desk.idempotency
        .inbox()
        .process("ledger", "orders", "m1", async |_| Ok::<_, sqlx::Error>(()))
        .await
        .unwrap();
    let broker = Broker::new();
    let consumers = DB::ledger(desk.consumers()).max_deliveries(2);
    let running = broker.feed(consumers).await;
    broker.publish([Order::delivered("m1", Behaviour::Work).with_delivery(6)]);
    until("it is acknowledged", PATIENCE, async || {
        broker.told().acknowledged.len() == 1
    })
    .await;
    running.stop().await;
    assert_eq!((broker.told().dead.len(), desk.probe.entered()), (0, 0));
}
