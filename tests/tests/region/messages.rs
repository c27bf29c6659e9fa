//! A message has no owner until its body is read: the consumer asks.

use idem_runtime::inbox::Processed;
use idem_runtime::region::NotHome;
use idem_runtime::{Disposition, ErrorKind, Tx};

use super::setup::{Word, World};
use super::site::{Failed, Tested};
use crate::on_each_database;

on_each_database![
    a_consumer_that_asks_leaves_nothing_away_from_home,
    without_home_regions_every_account_is_at_home,
];

async fn a_consumer_that_asks_leaves_nothing_away_from_home<DB: Tested>() {
    let world = World::<DB>::new().await;
    let inbox = world.west.idempotency.inbox();
    let process = async || {
        let body = async |tx: &mut Tx<DB>| {
            tx.at_home("alice").await?;
            Ok(DB::order(tx).await?)
        };
        inbox
            .process::<(), Failed, _>("ledger", "orders", "m1", body)
            .await
    };
    let away = process().await.expect_err("she is at home in the east");
    assert!(
        matches!(&away, Failed::NotHome(NotHome::Elsewhere(region)) if region.name() == "east"),
        "{away:?}"
    );
    assert_eq!(away.disposition(), ErrorKind::Transient);
    for word in [Word::Moving, Word::Fails] {
        world.homes.say("alice", word);
        process()
            .await
            .expect_err("nobody says that she is at home");
    }
    assert_eq!(world.west.orders().await, 0);
    world.homes.say("alice", Word::At("west"));
    let done = process().await.expect("she is at home");
    assert_eq!(done, Processed::Done(()));
    assert_eq!(world.west.orders().await, 1);
}

async fn without_home_regions_every_account_is_at_home<DB: Tested>() {
    let world = World::<DB>::new().await;
    let pool = world.west.idempotency.pool().clone();
    let anywhere = idem_runtime::Idempotency::new(pool);
    anywhere.at_home("alice").await.expect("nothing is asked");
    let away = world.west.idempotency.at_home(&("alice", 7)).await;
    assert!(matches!(away, Err(NotHome::Unknown(_))), "{away:?}");
}
