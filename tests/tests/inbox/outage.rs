//! The database is away for a while: nothing is lost, and nothing doubled.

use std::time::Duration;

use idem_tests::proxy::Proxy;
use idem_tests::servers::TestDatabase;
use idem_tests::wait::{PATIENCE, until};

use super::fake::Broker;
use super::setup::{Behaviour, Desk, Order, Tested};
use crate::on_databases;

on_databases![
    servers;
    messages_wait_while_the_database_is_away,
    messages_wait_while_the_database_is_silent,
];

async fn messages_wait_while_the_database_is_away<DB: Tested>() {
    outage::<DB>(false).await;
}

async fn messages_wait_while_the_database_is_silent<DB: Tested>() {
    outage::<DB>(true).await;
}

async fn outage<DB: Tested>(silent: bool) {
    let database = TestDatabase::create(DB::BACKEND).await;
    let proxy = Proxy::start(DB::BACKEND, database.server_address()).await;
    let url = database.url_through(proxy.address());
    let desk = Desk::<DB>::on(database, &url, |builder| builder).await;
    let broker = Broker::new();
    let is_long = std::env::var_os("IDEM_FULL").is_some();
    // One delivery would be the last, if an outage counted. One more where a statement may hear nothing for as long as its consumer
    // may take: that is no outage, but the consumer's failure.
    let deliveries = if silent && is_long { 2 } else { 1 };
    let consumers = DB::ledger(desk.consumers())
        .max_deliveries(deliveries)
        .concurrency(8);
    let running = broker.feed(consumers).await;
    let seconds = if is_long { 30 } else { 3 };
    let mut published = 0;
    let mut publish = |number: usize| {
        let messages = (published..published + number)
            .map(|n| Order::delivered(&format!("m{n}"), Behaviour::Slow(20)));
        broker.publish(messages.collect::<Vec<_>>());
        published += number;
    };
    publish(20);
    until("some are processed", PATIENCE, async || {
        !broker.told().acknowledged.is_empty()
    })
    .await;
    if silent {
        proxy.blackhole();
    } else {
        proxy.refuse().await;
    }
    publish(20);
    tokio::time::sleep(Duration::from_secs(seconds)).await;
    proxy.restore().await;
    publish(20);
    until("all are acknowledged", PATIENCE * 2, async || {
        broker.told().acknowledged.len() == 60
    })
    .await;
    running.stop().await;
    let told = broker.told();
    assert_eq!(told.dead.len(), 0, "{:?}", told.dead);
    assert_eq!(desk.effects("1 = 1").await, 60);
    let distinct = desk
        .database()
        .number("SELECT COUNT(DISTINCT message) FROM effects")
        .await;
    assert_eq!(distinct, 60);
}
