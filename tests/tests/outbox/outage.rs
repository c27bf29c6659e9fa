//! The database is away while there is something to publish.

use std::time::Duration;

use idem_tests::proxy::Proxy;
use idem_tests::wait::{PATIENCE, until};

use crate::checker::disorder;
use crate::office::Tested;
use crate::publisher::{Broker, Say};
use crate::setup::{World, letter};

/// SQLite is in the process.
macro_rules! on_servers {
    ($($case:ident),* $(,)?) => {
        mod postgres { $crate::on_each_database!(@ sqlx::Postgres; $($case),*); }
        mod mysql { $crate::on_each_database!(@ sqlx::MySql; $($case),*); }
    };
}

on_servers!(
    nothing_is_lost_or_doubled_while_the_database_is_away,
    nothing_is_lost_or_doubled_while_the_database_is_silent,
);

#[derive(Clone, Copy)]
enum Away {
    Refusing,
    Silent,
}

async fn nothing_is_lost_or_doubled_while_the_database_is_away<DB: Tested>() {
    nothing_is_lost_or_doubled::<DB>(Away::Refusing).await;
}

async fn nothing_is_lost_or_doubled_while_the_database_is_silent<DB: Tested>() {
    nothing_is_lost_or_doubled::<DB>(Away::Silent).await;
}

/// What was published and could not be written down is remembered: nobody else has the lanes, so nothing is doubled.
async fn nothing_is_lost_or_doubled<DB: Tested>(away: Away) {
    let outage = Duration::from_secs(if std::env::var_os("IDEM_FULL").is_some() {
        30
    } else {
        4
    });
    // What happens to the relay's way to the database does not happen to the handlers'.
    let direct = World::<DB>::new().await;
    let proxy = Proxy::start(DB::BACKEND, direct.database.server_address()).await;
    let url = direct.database.url_through(proxy.address());
    let remote = World::<DB>::through(direct.database.clone(), &url, |builder| builder).await;
    let broker = Broker::slow(Duration::from_millis(5), |_| Say::Confirm);
    let relay = remote.relay(&broker).batch(10).spawn();
    let mut staged = 0;
    let stage = async |from: u64, letters: u64| {
        for n in from..from + letters {
            let all = ["a", "b", "c"].map(|key| letter(key, n));
            direct.stage(all.to_vec()).await;
        }
    };
    stage(staged, 20).await;
    staged += 20;
    until("some are published", PATIENCE, async || {
        broker.has().len() > 10
    })
    .await;
    match away {
        Away::Refusing => proxy.refuse().await,
        Away::Silent => proxy.blackhole(),
    }
    stage(staged, 20).await;
    staged += 20;
    let stored = direct.stored().await;
    tokio::time::sleep(outage).await;
    assert_eq!(direct.stored().await, stored, "the database is away");
    proxy.restore().await;
    stage(staged, 20).await;
    staged += 20;
    until("all is published", PATIENCE, async || {
        direct.stored().await == 0
    })
    .await;
    relay.stop().await;
    assert_eq!(disorder(&broker.received(), 3, staged), None);
    assert_eq!(broker.has().len() as u64, 3 * staged, "nothing is doubled");
}
