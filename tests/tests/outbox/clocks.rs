//! Relays whose own clocks are ten minutes off: a delay is over when the database says so.

use std::time::Duration;

use idem_tests::clock::WallClock;
use idem_tests::wait::{PATIENCE, until};

use crate::crash::Broker;
use crate::office::{Letter, Tested};
use crate::setup::{World, letter};

/// Not one of SQLite's, whose database has its processes' clock.
macro_rules! on_each_server {
    ($($module:ident: $db:ty;)*) => {$(
        mod $module {
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn a_delay_is_over_when_the_database_says_so() {
                super::a_delay_is_over_when_the_database_says_so::<$db>().await;
            }
        }
    )*};
}

on_each_server! {
    postgres: sqlx::Postgres;
    mysql: sqlx::MySql;
}

fn delayed(n: u64, delay: Duration) -> Letter {
    Letter {
        delay_ms: u64::try_from(delay.as_millis()).ok(),
        ..letter("a", n)
    }
}

async fn a_delay_is_over_when_the_database_says_so<DB: Tested>() {
    for clock in [WallClock::AHEAD, WallClock::BEHIND] {
        let world = World::<DB>::new().await;
        let (far, near) = (Duration::from_secs(300), Duration::from_secs(1));
        let letters = vec![delayed(1, far), delayed(2, near), letter("b", 3)];
        world.stage(letters).await;
        let broker = Broker::new();
        let environment = clock.environment();
        let environment: Vec<(&str, &str)> = environment
            .iter()
            .map(|(name, value)| (*name, value.as_str()))
            .collect();
        let _relay = broker.relay(&world, &environment).await;
        let is_published = |n| broker.received().iter().any(|got| got.n == n);
        until("what is due is published", PATIENCE, async || {
            is_published(2) && is_published(3)
        })
        .await;
        assert!(!is_published(1), "{clock:?}");
    }
}
