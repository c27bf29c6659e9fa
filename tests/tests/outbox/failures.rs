//! Publishers that fail.

use std::time::{Duration, Instant};

use idem_tests::wait::{PATIENCE, until};
use serde_json::json;

use crate::office::Tested;
use crate::on_each_database;
use crate::publisher::{Broker, Say};
use crate::setup::{World, letter, postcard};

on_each_database!(
    a_redelivery_has_the_same_id,
    a_full_batch_of_poisoned_messages_does_not_stop_a_good_one,
    a_poisoned_message_blocks_its_own_key_until_it_is_dead,
    a_rejected_message_is_dead_at_once,
    a_reason_that_is_no_text_stops_nobody,
    a_receiver_that_asks_for_ever_is_left_alone_for_a_month,
    a_receiver_that_asks_for_time_is_given_it,
    a_publisher_that_is_out_of_reach_costs_no_attempt_and_stops_no_other,
    a_publisher_that_hangs_holds_its_own_key_up_alone,
    a_topic_without_a_publisher_says_so,
);

async fn a_redelivery_has_the_same_id<DB: Tested>() {
    let world = World::<DB>::new().await;
    let broker = Broker::new(|message| match message.attempt() {
        1..=3 => Say::LoseConfirmation,
        _ => Say::Confirm,
    });
    let ids = world.stage(vec![letter("a", 0)]).await;
    let relay = world.relay(&broker).spawn();
    until("it is confirmed", PATIENCE, async || {
        world.stored().await == 0
    })
    .await;
    relay.stop().await;
    assert_eq!(broker.ids(), vec![ids[0].clone(); 4]);
    let attempts: Vec<_> = broker.has().iter().map(|has| has.attempt).collect();
    assert_eq!(attempts, [1, 2, 3, 4]);
}

async fn a_full_batch_of_poisoned_messages_does_not_stop_a_good_one<DB: Tested>() {
    let world = World::<DB>::new().await;
    let broker = Broker::new(|message| match message.topic() {
        "poison" => Say::Fail,
        _ => Say::Confirm,
    });
    // With keys and without.
    let mut letters: Vec<_> = (0..25)
        .map(|n| letter(&format!("poisoned-{n}"), 0))
        .collect();
    for letter in &mut letters {
        letter.topic = "poison".to_owned();
    }
    letters.extend((0..25).map(|_| postcard("poison")));
    letters.push(letter("good", 0));
    letters.push(postcard("good"));
    world.stage(letters).await;
    // Due again at once, so that they are always in the way.
    let relay = world
        .relay(&broker)
        .batch(10)
        .backoff(Duration::ZERO, Duration::ZERO)
        .max_attempts(1_000_000)
        .spawn();
    until("the good ones are published", PATIENCE, async || {
        broker.has().len() == 2
    })
    .await;
    relay.stop().await;
    assert_eq!(world.stored().await, 50);
}

async fn a_poisoned_message_blocks_its_own_key_until_it_is_dead<DB: Tested>() {
    let world = World::<DB>::new().await;
    let broker = Broker::new(|message| match message.topic() {
        "poison" => Say::Fail,
        _ => Say::Confirm,
    });
    let mut poison = letter("a", 0);
    poison.topic = "poison".to_owned();
    world
        .stage(vec![poison, letter("a", 1), letter("b", 0)])
        .await;
    let patient = world
        .relay(&broker)
        .backoff(Duration::from_secs(3600), Duration::from_secs(3600));
    patient.run_once().await.unwrap();
    let keys =
        |broker: &Broker| -> Vec<_> { broker.has().into_iter().map(|has| has.key).collect() };
    assert_eq!(keys(&broker), [Some("b".to_owned())]);
    let counts = world.idempotency.outbox().counts().await.unwrap();
    assert_eq!((counts.failed, counts.pending), (1, 1));
    // Another hour, as it were.
    world.database.execute(DB::all_due()).await.unwrap();
    let relayed = world
        .relay(&broker)
        .max_attempts(2)
        .run_once()
        .await
        .unwrap();
    assert_eq!((relayed.dead, relayed.delivered), (1, 1));
    assert_eq!(keys(&broker), [Some("b".to_owned()), Some("a".to_owned())]);
    let counts = world.idempotency.outbox().counts().await.unwrap();
    assert_eq!((counts.dead, counts.pending), (1, 0));
}

async fn a_rejected_message_is_dead_at_once<DB: Tested>() {
    let world = World::<DB>::new().await;
    let broker = Broker::new(|_| Say::Reject);
    world.stage(vec![letter("a", 0)]).await;
    let relayed = world.relay(&broker).run_once().await.unwrap();
    assert_eq!(relayed.dead, 1);
    assert_eq!(broker.asked().len(), 1);
}

async fn a_reason_that_is_no_text_stops_nobody<DB: Tested>() {
    let world = World::<DB>::new().await;
    let broker = Broker::new(|message| match message.attempt() {
        1 => Say::Quote,
        _ => Say::Confirm,
    });
    world.stage(vec![letter("a", 0), letter("a", 1)]).await;
    let hour = Duration::from_secs(3600);
    let relay = world.relay(&broker).backoff(hour, hour);
    relay.run_once().await.unwrap();
    let all = idem_runtime::outbox::Messages::all();
    let listed = world.idempotency.outbox().list(&all).await.unwrap();
    let reason = json!(listed[0])["reason"].as_str().unwrap().to_owned();
    assert!(reason.contains("it says a\u{fffd}b"), "{reason}");
    assert!(reason.chars().count() <= 4000, "{}", reason.len());
    // The same relay goes on.
    world.database.execute(DB::all_due()).await.unwrap();
    let relay = world.relay(&broker).spawn();
    until("all are published", PATIENCE, async || {
        world.stored().await == 0
    })
    .await;
    relay.stop().await;
}

async fn a_receiver_that_asks_for_ever_is_left_alone_for_a_month<DB: Tested>() {
    let world = World::<DB>::new().await;
    let broker = Broker::new(|_| Say::FailFor(Duration::MAX));
    world.stage(vec![letter("a", 0), letter("b", 0)]).await;
    let longest = Duration::MAX;
    let relay = world.relay(&broker).backoff(longest, longest);
    let relayed = relay.run_once().await.unwrap();
    assert_eq!(relayed.failed, 2);
    let counts = world.idempotency.outbox().counts().await.unwrap();
    assert_eq!(counts.failed, 2);
}

async fn a_receiver_that_asks_for_time_is_given_it<DB: Tested>() {
    let asked = Duration::from_millis(1500);
    let world = World::<DB>::new().await;
    let broker = Broker::new(move |message| match message.attempt() {
        1 => Say::FailFor(asked),
        _ => Say::Confirm,
    });
    world.stage(vec![letter("a", 0)]).await;
    let begun = Instant::now();
    let soon = Duration::from_millis(10);
    let relay = world.relay(&broker).backoff(soon, soon).spawn();
    until("it is confirmed", PATIENCE, async || {
        world.stored().await == 0
    })
    .await;
    relay.stop().await;
    assert_eq!(broker.asked().len(), 2);
    assert!(broker.has()[0].at - begun >= asked);
}

async fn a_publisher_that_is_out_of_reach_costs_no_attempt_and_stops_no_other<DB: Tested>() {
    let world = World::<DB>::new().await;
    let away = Broker::new(|_| Say::Unavailable);
    let here = Broker::that_confirms();
    let mut letters: Vec<_> = (0..30).map(|_| postcard("away.x")).collect();
    letters.extend([postcard("away.but.here"), postcard("here")]);
    world.stage(letters).await;
    let relay = world
        .relay(&here)
        .to("away.", away.clone())
        .to("away.but.", here.clone())
        .batch(5)
        .backoff(Duration::from_secs(3600), Duration::from_secs(3600));
    let relayed = relay.run_once().await.unwrap();
    assert_eq!((relayed.delivered, relayed.failed), (2, 0));
    assert!(away.asked().len() <= 5, "nobody is asked during the pause");
    let back = Broker::that_confirms();
    let relayed = world.relay(&back).run_once().await.unwrap();
    assert_eq!(relayed.delivered, 30);
    assert!(back.has().iter().all(|has| has.attempt == 1));
}

async fn a_publisher_that_hangs_holds_its_own_key_up_alone<DB: Tested>() {
    let world = World::<DB>::new().await;
    let broker = Broker::new(|message| match message.topic() {
        "stuck" => Say::Hang,
        _ => Say::Confirm,
    });
    let mut stuck = letter("a", 0);
    stuck.topic = "stuck".to_owned();
    world.stage(vec![stuck, letter("a", 1)]).await;
    let relay = world
        .relay(&broker)
        .batch(4)
        .timeout(Duration::from_secs(12))
        .spawn();
    until("it hangs", PATIENCE, async || broker.asked().len() == 1).await;
    for n in 0..20 {
        world.stage(vec![letter("b", n)]).await;
    }
    until("others are published", PATIENCE, async || {
        broker.has().len() == 20
    })
    .await;
    let counts = world.idempotency.outbox().counts().await.unwrap();
    assert_eq!(counts.failed, 0, "it hangs still");
    assert!(
        broker
            .has()
            .iter()
            .all(|has| has.key.as_deref() == Some("b"))
    );
    relay.stop().await;
    let counts = world.idempotency.outbox().counts().await.unwrap();
    assert_eq!(
        (counts.failed, counts.pending),
        (1, 1),
        "no confirmation came"
    );
}

async fn a_topic_without_a_publisher_says_so<DB: Tested>() {
    let world = World::<DB>::new().await;
    let broker = Broker::that_confirms();
    world.stage(vec![postcard("users")]).await;
    let relay = world.idempotency.relay().to("orders.", broker.clone());
    let relayed = relay.run_once().await.unwrap();
    assert_eq!((relayed.failed, relayed.delivered), (1, 0));
    let outbox = world.idempotency.outbox();
    let listed = outbox
        .list(&idem_runtime::outbox::Messages::all())
        .await
        .unwrap();
    let said = json!(listed[0])["reason"].as_str().unwrap().to_owned();
    assert!(
        said.contains("no publisher") && said.contains("users"),
        "{said}"
    );
}
