//! What consumers refuse to start with, and what they say.

use std::time::Duration;

use idem_runtime::inbox::{Horizon, Redelivery};
use sqlx::Sqlite;

use super::fake::Broker;
use super::setup::{Desk, Tested};

/// The error of consumers with this redelivery; their `ttl` is a day, and their time-out half a minute.
async fn refusal(redelivery: Redelivery) -> Option<String> {
    let desk = Desk::<Sqlite>::new().await;
    let consumers = Sqlite::mail(Sqlite::ledger(desk.consumers()));
    let started = consumers
        .source("orders", Broker::with(redelivery))
        .spawn()
        .await;
    match started {
        Ok(running) => {
            running.stop().await;
            None
        }
        Err(error) => Some(error.to_string()),
    }
}

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

#[tokio::test]
async fn a_ttl_must_outlast_the_last_redelivery() {
    let within = |horizon| Redelivery::after_silence(DAY).horizon(Horizon::Within(horizon));
    assert_eq!(refusal(within(DAY)).await, None);
    let refused = refusal(within(DAY + Duration::from_secs(1))).await.unwrap();
    assert!(
        refused.starts_with("consumer `ledger` remembers a message for 86400s, and it may be delivered again for 86401s; raise"),
        "{refused}"
    );
    let unlimited = Redelivery::after_silence(DAY).horizon(Horizon::Unlimited);
    let refused = refusal(unlimited).await.unwrap();
    assert!(
        refused.contains("may deliver it again at any time; limit that"),
        "{refused}"
    );
    assert_eq!(
        refusal(Redelivery::on_disconnect()).await,
        None,
        "unknown: a warning"
    );
}

#[tokio::test]
async fn consumers_must_be_done_before_the_broker_loses_its_patience() {
    let within = |redelivery: Redelivery| redelivery.horizon(Horizon::Within(DAY));
    let minute = Duration::from_secs(60);
    let refused = refusal(within(Redelivery::after(minute))).await.unwrap();
    assert!(
        refused.starts_with("the consumers of `orders` may take 60s in all, and the broker delivers a message again after 60s"),
        "{refused}"
    );
    assert!(
        refusal(within(Redelivery::after(Duration::from_secs(75))))
            .await
            .is_some()
    );
    assert_eq!(
        refusal(within(Redelivery::after(Duration::from_secs(76)))).await,
        None
    );
    assert_eq!(
        refusal(within(Redelivery::after_silence(minute))).await,
        None,
        "it is extended"
    );
}

#[tokio::test]
async fn sources_and_consumers_belong_together() {
    let desk = Desk::<Sqlite>::new().await;
    let missing = Sqlite::ledger(desk.consumers()).spawn().await.unwrap_err();
    assert_eq!(
        missing.to_string(),
        "consumer `ledger` consumes `orders`, and there is no such source; add `.source(\"orders\", ..)`"
    );
    let consumers = Sqlite::ledger(desk.consumers()).source("orders", Broker::new());
    let idle = consumers
        .source("refunds", Broker::new())
        .spawn()
        .await
        .unwrap_err();
    assert!(
        idle.to_string()
            .starts_with("no consumer consumes `refunds`"),
        "{idle}"
    );
}

#[tokio::test]
#[should_panic(expected = "two consumers of `orders` are named `ledger`")]
async fn two_consumers_of_one_name_are_a_mistake() {
    let desk = Desk::<Sqlite>::new().await;
    let _ = Sqlite::ledger(Sqlite::ledger(desk.consumers()));
}
