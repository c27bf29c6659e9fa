//! The order of a key's messages.

use std::time::Duration;

use futures_util::future::join_all;
use idem_tests::wait::{PATIENCE, until};

use crate::checker::disorder;
use crate::office::{Order, Tested, gate};
use crate::on_each_database;
use crate::publisher::{Broker, Say};
use crate::setup::{World, letter, postcard};

on_each_database!(
    keys_stay_in_order_with_three_relays_and_random_failures,
    a_backlog_of_few_keys_stays_in_order_beside_random_failures,
    a_gap_between_positions_hides_nothing,
);

async fn keys_stay_in_order_with_three_relays_and_random_failures<DB: Tested>() {
    const KEYS: usize = 12;
    const EACH: u64 = 20;
    let world = World::<DB>::new().await;
    let broker = Broker::slow(Duration::from_millis(1), |_| match fastrand::u32(..100) {
        0..8 => Say::Fail,
        8..16 => Say::LoseConfirmation,
        16..18 => Say::Panic,
        18 => Say::Unavailable,
        _ => Say::Confirm,
    });
    let worlds = join_all((0..3).map(|_| world.beside())).await;
    // Some are there before the messages, and one comes and goes meanwhile.
    let start = |at: usize| {
        worlds[at]
            .relay(&broker)
            .batch(16)
            .max_attempts(1000)
            .spawn()
    };
    let relays = [start(0), start(1)];
    let keys = (0..KEYS).map(|key| format!("key-{key}"));
    let staging = join_all(keys.map(async |key| {
        for n in 0..EACH {
            world.stage(vec![letter(&key, n)]).await;
        }
    }));
    let coming_and_going = async {
        for _ in 0..3 {
            let third = start(2);
            let had = broker.has().len();
            until("some more are published", PATIENCE, async || {
                broker.has().len() >= had + 20 || world.stored().await == 0
            })
            .await;
            third.stop().await;
        }
    };
    tokio::join!(staging, coming_and_going);
    until("all are published", PATIENCE * 2, async || {
        world.stored().await == 0
    })
    .await;
    for relay in relays {
        relay.stop().await;
    }
    assert_eq!(disorder(&broker.received(), KEYS, EACH), None);
}

/// While a batch is published the next is read, which has messages of the same keys.
async fn a_backlog_of_few_keys_stays_in_order_beside_random_failures<DB: Tested>() {
    const KEYS: usize = 5;
    const EACH: u64 = 60;
    let world = World::<DB>::new().await;
    let broker = Broker::slow(Duration::from_millis(1), |_| match fastrand::u32(..100) {
        0..4 => Say::Fail,
        4..8 => Say::LoseConfirmation,
        8 => Say::Unavailable,
        _ => Say::Confirm,
    });
    for n in 0..EACH {
        let keys = (0..KEYS).map(|key| letter(&format!("key-{key}"), n));
        world.stage(keys.collect()).await;
    }
    let soon = Duration::from_millis(1);
    let relay = world.relay(&broker).batch(7).max_attempts(1000);
    let relay = relay.backoff(soon, soon).spawn();
    until("all are published", PATIENCE * 2, async || {
        world.stored().await == 0
    })
    .await;
    relay.stop().await;
    assert_eq!(disorder(&broker.received(), KEYS, EACH), None);
}

/// What is rolled back leaves a gap, which is wider than a relay looks ahead.
async fn a_gap_between_positions_hides_nothing<DB: Tested>() {
    let world = World::<DB>::new().await;
    world.stage(vec![postcard("before"); 30]).await;
    let gap = Order {
        letters: vec![postcard("never"); 300],
        refuse: true,
        ..Order::default()
    };
    let (status, body) = world.order(&gap).await;
    assert_eq!(status, 409, "{body}");
    world.stage(vec![postcard("after"); 10]).await;
    let broker = Broker::that_confirms();
    let relayed = world.relay(&broker).batch(5).run_once().await.unwrap();
    assert_eq!(relayed.delivered, 40);
}

/// SQLite has one writer, which nobody overtakes.
macro_rules! on_servers {
    ($($case:ident),* $(,)?) => {
        mod late_postgres { $crate::on_each_database!(@ sqlx::Postgres; $($case),*); }
        mod late_mysql { $crate::on_each_database!(@ sqlx::MySql; $($case),*); }
    };
}

on_servers!(
    a_lower_position_that_commits_late_is_published,
    more_lower_positions_than_a_batch_that_commit_late_are_published,
);

const BATCH: u32 = 3;

async fn a_lower_position_that_commits_late_is_published<DB: Tested>() {
    late::<DB>(1).await;
}

/// What is left out of the batch that shows that nothing else is to appear is not passed over.
async fn more_lower_positions_than_a_batch_that_commit_late_are_published<DB: Tested>() {
    late::<DB>(4 * BATCH as usize + 1).await;
}

/// So many are staged before what is published meanwhile, and commit after it.
async fn late<DB: Tested>(letters: usize) {
    let world = World::<DB>::new().await;
    let broker = Broker::that_confirms();
    let relay = world.relay(&broker).batch(BATCH).spawn();
    let name = format!("late-{}", world.database.url());
    let late = Order {
        letters: vec![postcard("late"); letters],
        gate: Some(name.clone()),
        ..Order::default()
    };
    let staged = async {
        let staged = gate(&format!("{name}, reached")).acquire_owned().await;
        staged.expect("gates are not closed").forget();
        // In a round each, so that the relay has every reason to look only at what follows.
        for n in 1..=20 {
            world.stage(vec![postcard("soon")]).await;
            until("it is published", PATIENCE, async || {
                broker.has().len() == n
            })
            .await;
        }
        gate(&name).add_permits(1);
    };
    let ((status, body), ()) = tokio::join!(
        async {
            let waiting = world.order(&late);
            waiting.await
        },
        staged
    );
    assert_eq!(status, 200, "{body}");
    until(
        "the late ones are published",
        Duration::from_secs(10),
        async || broker.has().len() == 20 + letters,
    )
    .await;
    relay.stop().await;
    let late = broker
        .has()
        .iter()
        .filter(|has| has.topic == "late")
        .count();
    assert_eq!(late, letters);
}
