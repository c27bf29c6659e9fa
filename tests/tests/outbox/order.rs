//! The order of a key's messages.

use std::collections::{BTreeMap, HashSet};
use std::time::Duration;

use futures_util::future::join_all;
use idem_tests::wait::{PATIENCE, until};

use crate::office::{Order, Tested, gate};
use crate::on_each_database;
use crate::publisher::{Broker, Delivery, Say};
use crate::setup::{World, letter, postcard};

on_each_database!(keys_stay_in_order_with_three_relays_and_random_failures);

/// What is wrong with what a broker was given, if the letters `0..each` of each key were staged in their order: the first
/// deliveries of a key come in that order, all of them come, and a repetition has the id of the first.
fn disorder(has: &[Delivery], keys: usize, each: u32) -> Option<String> {
    let mut seen: BTreeMap<&str, Vec<(u64, &str)>> = BTreeMap::new();
    for delivery in has {
        let key = delivery.key.as_deref().unwrap_or_default();
        let n = delivery.payload["n"].as_u64().unwrap_or(u64::MAX);
        let firsts = seen.entry(key).or_default();
        match firsts.get(usize::try_from(n).unwrap_or(usize::MAX)) {
            Some((_, id)) if *id == delivery.id => {}
            Some((_, id)) => return Some(format!("{key}: {n} is {id} and {}", delivery.id)),
            None if firsts.len() as u64 == n => firsts.push((n, &delivery.id)),
            None => return Some(format!("{key}: {n} came first after {}", firsts.len())),
        }
    }
    if seen.len() != keys {
        return Some(format!("{} keys of {keys}", seen.len()));
    }
    let short = seen.iter().find(|(_, firsts)| firsts.len() as u32 != each);
    if let Some((key, firsts)) = short {
        return Some(format!("{key}: {} of {each}", firsts.len()));
    }
    let ids: HashSet<_> = seen.values().flatten().map(|(_, id)| id).collect();
    (ids.len() != keys * each as usize).then(|| "two messages have one id".to_owned())
}

async fn keys_stay_in_order_with_three_relays_and_random_failures<DB: Tested>() {
    const KEYS: usize = 12;
    const EACH: u32 = 20;
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
    let start = |at: usize| worlds[at].relay(&broker).batch(16).max_attempts(1000).spawn();
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
    assert_eq!(disorder(&broker.has(), KEYS, EACH), None);
}

#[test]
fn the_checker_finds_disorder() {
    let delivery = |n: u32, id: &str| Delivery {
        id: id.to_owned(),
        topic: String::new(),
        key: Some("a".to_owned()),
        payload: serde_json::json!({ "n": n }),
        headers: Vec::new(),
        attempt: 1,
        at: std::time::Instant::now(),
    };
    let check = |has: &[(u32, &str)]| {
        let has: Vec<_> = has.iter().map(|(n, id)| delivery(*n, id)).collect();
        disorder(&has, 1, 2)
    };
    assert_eq!(check(&[(0, "x"), (1, "y")]), None);
    assert_eq!(check(&[(0, "x"), (1, "y"), (0, "x")]), None, "a repetition");
    assert!(check(&[(1, "y"), (0, "x")]).is_some(), "the wrong order");
    assert!(check(&[(0, "x")]).is_some(), "one is lost");
    assert!(check(&[(0, "x"), (1, "y"), (0, "z")]).is_some(), "another id");
    assert!(check(&[(0, "x"), (1, "x")]).is_some(), "one id for two");
}

/// SQLite has one writer, which nobody overtakes.
macro_rules! on_servers {
    ($($case:ident),*) => {
        mod late_postgres { $crate::on_each_database!(@ sqlx::Postgres; $($case),*); }
        mod late_mysql { $crate::on_each_database!(@ sqlx::MySql; $($case),*); }
    };
}

on_servers!(a_lower_position_that_commits_late_is_published);

async fn a_lower_position_that_commits_late_is_published<DB: Tested>() {
    let world = World::<DB>::new().await;
    let broker = Broker::that_confirms();
    let relay = world.relay(&broker).spawn();
    let name = format!("late-{}", world.database.url());
    let late = Order {
        letters: vec![postcard("late")],
        gate: Some(name.clone()),
        ..Order::default()
    };
    let staged = async {
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
    until("the late one is published", Duration::from_secs(10), async || {
        broker.has().iter().any(|has| has.topic == "late")
    })
    .await;
    relay.stop().await;
}
