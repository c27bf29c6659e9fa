//! Relays in processes of their own, which die by SIGKILL or stand still.

use std::path::PathBuf;
use std::time::Duration;

use futures_util::future::join_all;
use idem_tests::process::Server;
use idem_tests::wait::{PATIENCE, until};
use tempfile::TempDir;

use crate::checker::{Received, disorder};
use crate::office::Tested;
use crate::on_each_database;
use crate::setup::{World, letter};

on_each_database!(
    wherever_a_relay_dies_its_messages_are_published_with_the_same_ids,
    a_relay_that_stood_still_does_not_disturb_the_order,
    of_three_processes_two_may_be_killed,
);

/// A broker that is a file, which relays of several processes append to.
pub(crate) struct Broker {
    _directory: TempDir,
    path: PathBuf,
}

impl Broker {
    pub(crate) fn new() -> Self {
        let directory = TempDir::new().unwrap();
        let path = directory.path().join("broker");
        std::fs::write(&path, "").unwrap();
        Self {
            _directory: directory,
            path,
        }
    }

    pub(crate) fn received(&self) -> Vec<Received> {
        let lines = std::fs::read_to_string(&self.path).unwrap();
        let lines = lines.lines().map(|line| {
            let mut parts = line.splitn(3, ' ');
            let mut next = || parts.next().unwrap().to_owned();
            let (id, key, payload) = (next(), next(), next());
            let payload: serde_json::Value = serde_json::from_str(&payload).unwrap();
            Received {
                key,
                id,
                n: payload["n"].as_u64().unwrap(),
            }
        });
        lines.collect()
    }

    pub(crate) async fn relay<DB: Tested>(
        &self,
        world: &World<DB>,
        more: &[(&str, &str)],
    ) -> Server {
        let path = self.path.display().to_string();
        let given = [("DATABASE_URL", world.database.url()), ("BROKER", &path)];
        let environment: Vec<_> = given
            .iter()
            .chain(more)
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect();
        Server::start("relay", &environment).await
    }
}

async fn staged<DB: Tested>(each: u64) -> World<DB> {
    let world = World::<DB>::new().await;
    for n in 0..each {
        world.stage(vec![letter("a", n), letter("b", n)]).await;
    }
    world
}

async fn all_published<DB: Tested>(world: &World<DB>) {
    until("all is published", PATIENCE, async || {
        world.stored().await == 0
    })
    .await;
}

async fn wherever_a_relay_dies_its_messages_are_published_with_the_same_ids<DB: Tested>() {
    let points = [
        ("relay.share#1", 0),
        ("relay.fetch#1", 0),
        ("relay.publish.before#1", 0),
        ("relay.publish.after#5", 5),
        // A batch is what there was by then.
        ("relay.settle.before#1", 1),
        ("relay.settle.after#1", 1),
        ("relay.settle.before#2", 2),
    ];
    join_all(points.map(async |(point, least)| {
        let world = staged::<DB>(15).await;
        let broker = Broker::new();
        let mut first = broker.relay(&world, &[("IDEM_CRASH_AT", point)]).await;
        let status = first.ended(PATIENCE).await;
        assert!(!status.success(), "{point}: {status}");
        let published = broker.received().len();
        assert!(published >= least, "{point}: {published}");
        // Written down is what a batch before it was settled with, and nothing else.
        let stored = usize::try_from(world.stored().await).unwrap();
        let settled = 30 - stored;
        let as_it_should_be = match point {
            "relay.publish.after#5" => settled < published,
            "relay.settle.after#1" => (1..=published).contains(&settled),
            "relay.settle.before#2" => (1..published).contains(&settled),
            _ => settled == 0,
        };
        assert!(as_it_should_be, "{point}: {settled} of {published}");
        let _second = broker.relay(&world, &[]).await;
        all_published(&world).await;
        let received = broker.received();
        assert_eq!(disorder(&received, 2, 15), None, "{point}");
        let repeated = received.len() - 30;
        assert_eq!(
            repeated,
            published - settled,
            "{point}: the unsettled ones again"
        );
    }))
    .await;
}

async fn a_relay_that_stood_still_does_not_disturb_the_order<DB: Tested>() {
    let world = staged::<DB>(30).await;
    let broker = Broker::new();
    let frozen = broker
        .relay(&world, &[("IDEM_STOP_AT", "relay.publish.before#7")])
        .await;
    until("it stands still", PATIENCE, async || frozen.is_stopped()).await;
    assert_ne!(broker.received().len(), 60);
    let _second = broker.relay(&world, &[]).await;
    all_published(&world).await;
    frozen.signal("CONT").await;
    // What it had begun, it may publish now: the others have gone long since.
    for n in 30..40 {
        world.stage(vec![letter("a", n), letter("b", n)]).await;
    }
    all_published(&world).await;
    assert_eq!(disorder(&broker.received(), 2, 40), None);
}

async fn of_three_processes_two_may_be_killed<DB: Tested>() {
    let world = World::<DB>::new().await;
    let broker = Broker::new();
    let latency = [("LATENCY", "5")];
    let mut relays = join_all((0..3).map(|_| broker.relay(&world, &latency))).await;
    const KEYS: usize = 8;
    const EACH: u64 = 15;
    let staging = async {
        for n in 0..EACH {
            let keys = (0..KEYS).map(|key| letter(&format!("key-{key}"), n));
            world.stage(keys.collect()).await;
        }
    };
    let killing = async {
        for (number, relay) in relays.iter_mut().take(2).enumerate() {
            until("some are published", PATIENCE, async || {
                broker.received().len() > 20 * (number + 1)
            })
            .await;
            relay.kill().await;
        }
    };
    tokio::join!(staging, killing);
    all_published(&world).await;
    assert_eq!(disorder(&broker.received(), KEYS, EACH), None);
    relays[2].ask_to_stop().await;
    let status = relays[2].ended(PATIENCE + Duration::from_secs(10)).await;
    assert!(status.success(), "{status}");
}
