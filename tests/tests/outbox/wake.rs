//! How a relay learns that there is something, how it ends, and how several share the work.

use std::time::Duration;

use idem_tests::proxy::{Proxy, Request};
use idem_tests::wait::{PATIENCE, until};

use crate::checker::disorder;
use crate::office::{Order, Tested, gate};
use crate::on_each_database;
use crate::publisher::{Broker, Say};
use crate::setup::{World, letter, postcard};

on_each_database!(
    a_commit_in_the_same_process_wakes_the_relay,
    without_notifications_nothing_is_lost,
    a_relay_that_is_stopped_writes_down_what_it_published_and_gives_its_lanes_back,
    relays_share_the_lanes,
    a_relay_that_died_is_replaced_when_its_lease_is_over,
);

mod notifying {
    crate::on_each_database!(@ sqlx::Postgres; a_commit_elsewhere_wakes_the_relay);
}

/// SQLite's one writer is waited for by everybody.
mod beside_on_postgres {
    crate::on_each_database!(@ sqlx::Postgres; a_relay_waits_for_no_request_that_stages);
}

mod beside_on_mysql {
    crate::on_each_database!(@ sqlx::MySql; a_relay_waits_for_no_request_that_stages);
}

mod staging_on_postgres {
    crate::on_each_database!(@ sqlx::Postgres; staging_is_one_statement_a_message);
}

mod staging_on_mysql {
    crate::on_each_database!(@ sqlx::MySql; staging_is_one_statement_a_message);
}

/// What a relay waits for in these tests that is not woken.
const HOUR: Duration = Duration::from_secs(3600);

async fn a_commit_in_the_same_process_wakes_the_relay<DB: Tested>() {
    let world = World::<DB>::with(|builder| builder.notify(false)).await;
    let broker = Broker::that_confirms();
    let relay = world.relay(&broker).poll(HOUR).lease(HOUR).spawn();
    // One that the relay finds when it starts, perhaps.
    for n in 0..5 {
        world.stage(vec![letter("a", n)]).await;
        until("it is published", PATIENCE, async || {
            broker.has().len() as u64 == n + 1
        })
        .await;
    }
    relay.stop().await;
}

async fn a_commit_elsewhere_wakes_the_relay<DB: Tested>() {
    let world = World::<DB>::new().await;
    let elsewhere = world.beside().await;
    let broker = Broker::that_confirms();
    let relay = world.relay(&broker).poll(HOUR).lease(HOUR).spawn();
    for n in 0..5 {
        elsewhere.stage(vec![letter("a", n)]).await;
        until("it is published", PATIENCE, async || {
            broker.has().len() as u64 == n + 1
        })
        .await;
    }
    relay.stop().await;
}

async fn a_relay_waits_for_no_request_that_stages<DB: Tested>() {
    for keep in [Duration::ZERO, HOUR] {
        let world = World::<DB>::new().await;
        let broker = Broker::that_confirms();
        let name = format!("beside-{}", world.database.url());
        let slow = Order {
            letters: vec![postcard("slow")],
            gate: Some(name.clone()),
            ..Order::default()
        };
        world.stage(vec![postcard("soon"); 20]).await;
        let beside = async {
            let reached = gate(&format!("{name}, reached")).acquire_owned().await;
            reached.expect("gates are not closed").forget();
            let relay = world.relay(&broker).keep_delivered(keep);
            let relayed = relay.run_once().await;
            gate(&name).add_permits(1);
            relayed.expect("it does not wait")
        };
        let ((status, body), relayed) = tokio::join!(world.order(&slow), beside);
        assert_eq!(status, 200, "{body}");
        assert_eq!(relayed.delivered, 20);
    }
}

async fn without_notifications_nothing_is_lost<DB: Tested>() {
    let world = World::<DB>::with(|builder| builder.notify(false)).await;
    let elsewhere = World::<DB>::at(world.database.clone(), |builder| builder.notify(false)).await;
    let broker = Broker::that_confirms();
    let relay = world.relay(&broker).spawn();
    for n in 0..50 {
        elsewhere.stage(vec![letter("a", n), letter("b", n)]).await;
    }
    until("all is published", PATIENCE, async || {
        world.stored().await == 0
    })
    .await;
    relay.stop().await;
    assert_eq!(disorder(&broker.received(), 2, 50), None);
    assert_eq!(broker.has().len(), 100, "nothing is published twice");
}

async fn a_relay_that_is_stopped_writes_down_what_it_published_and_gives_its_lanes_back<
    DB: Tested,
>() {
    let world = World::<DB>::new().await;
    let broker = Broker::slow(Duration::from_millis(50), |_| Say::Confirm);
    let letters = (0..20).flat_map(|n| [letter("a", n), letter("b", n)]);
    world.stage(letters.collect()).await;
    let relay = world.relay(&broker).spawn();
    until("some are published", PATIENCE, async || {
        broker.has().len() >= 4
    })
    .await;
    relay.stop().await;
    let published = broker.has().len();
    assert!(published < 40, "it did not wait for all: {published}");
    assert_eq!(world.stored().await, 40 - published as i64);
    let owned = "SELECT COUNT(*) FROM idem_outbox_lanes WHERE relay IS NOT NULL";
    assert_eq!(world.database.number(owned).await, 0);
    let relays = "SELECT COUNT(*) FROM idem_outbox_relays";
    assert_eq!(world.database.number(relays).await, 0);
    world.relay(&broker).run_once().await.unwrap();
    assert_eq!(disorder(&broker.received(), 2, 20), None);
    assert_eq!(broker.has().len(), 40, "nothing is published twice");
}

async fn relays_share_the_lanes<DB: Tested>() {
    let world = World::<DB>::new().await;
    let broker = Broker::that_confirms();
    let mut relays = vec![world.relay(&broker).spawn()];
    let owned = |of: &'static str| {
        let database = world.database.clone();
        async move { database.number(of).await }
    };
    const FREE: &str = "SELECT COUNT(*) FROM idem_outbox_lanes WHERE relay IS NULL";
    const OWNERS: &str = "SELECT COUNT(DISTINCT relay) FROM idem_outbox_lanes";
    const MOST: &str = "SELECT MAX(n) FROM (SELECT COUNT(*) AS n FROM idem_outbox_lanes GROUP BY relay) AS counted";
    for (number, fair) in [(1, 64), (2, 32), (3, 22)] {
        until("the lanes are shared", PATIENCE, async || {
            (owned(FREE).await, owned(OWNERS).await, owned(MOST).await) == (0, number, fair)
        })
        .await;
        if number < 3 {
            relays.push(world.relay(&broker).spawn());
        }
    }
    for relay in relays.drain(1..) {
        relay.stop().await;
    }
    until("what is left is taken", PATIENCE, async || {
        (owned(FREE).await, owned(OWNERS).await) == (0, 1)
    })
    .await;
    for relay in relays {
        relay.stop().await;
    }
}

async fn a_relay_that_died_is_replaced_when_its_lease_is_over<DB: Tested>() {
    let world = World::<DB>::new().await;
    let hanging = Broker::new(|_| Say::Hang);
    world.stage(vec![letter("a", 0), letter("a", 1)]).await;
    // Dropped half way, its lanes stay its own.
    let dead = world.relay(&hanging);
    let run = tokio::spawn(async move { dead.run_once().await });
    until("it publishes", PATIENCE, async || {
        hanging.asked().len() == 1
    })
    .await;
    run.abort();
    let broker = Broker::that_confirms();
    let relay = world.relay(&broker).spawn();
    until("another one takes over", PATIENCE, async || {
        world.stored().await == 0
    })
    .await;
    relay.stop().await;
    assert_eq!(disorder(&broker.received(), 1, 2), None);
}

async fn staging_is_one_statement_a_message<DB: Tested>() {
    let direct = World::<DB>::new().await;
    let proxy = Proxy::start(DB::BACKEND, direct.database.server_address()).await;
    let url = direct.database.url_through(proxy.address());
    let world = World::<DB>::through(direct.database.clone(), &url, |builder| builder).await;
    for letters in [1, 3] {
        let letters = vec![postcard("users"); letters];
        proxy.requests();
        world.stage(letters.clone()).await;
        let sent = proxy.requests();
        // A connection prepares each once.
        let sent = sent
            .iter()
            .filter(|request| matches!(request, Request::Statement(_)));
        let sent: Vec<_> = sent.map(Request::text).collect();
        let staging = |text: &&String| text.starts_with("INSERT INTO idem_outbox");
        assert_eq!(
            sent.iter().filter(staging).count(),
            letters.len(),
            "{sent:#?}"
        );
        let others = sent.iter().filter(|text| !staging(text));
        let others: Vec<_> = others.filter(|text| text.contains("idem_outbox")).collect();
        assert!(others.is_empty(), "{others:#?}");
    }
}
