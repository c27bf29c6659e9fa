//! Replays: their records are read together, outside any transaction.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use idem_tests::proxy::Proxy;
use idem_tests::servers::{Backend, TestDatabase};
use idem_tests::wait::{PATIENCE, in_time, until};
use sqlx::postgres::PgPoolOptions;

use crate::Set;

const KEYS: usize = 200;

/// The library's.
const STORE_TIMEOUT: Duration = Duration::from_millis(1500);

/// A pool of so many connections behind a proxy, and keys that are answered.
async fn answered(connections: u32, store_timeout: Duration) -> (Set, Proxy) {
    let backend = Backend::Postgres;
    let database = TestDatabase::create(backend).await;
    let proxy = Proxy::start(backend, database.server_address()).await;
    let url = database.url_through(proxy.address());
    let options = PgPoolOptions::new().max_connections(connections);
    let set = Set::over(
        database,
        &url,
        options,
        |options| options,
        |builder| builder.store_timeout(store_timeout),
    )
    .await;
    for key in 0..KEYS {
        let first = set.post("/things/alice/10", &format!("k{key}"), "").await;
        assert_eq!(first.status, 200, "{first:?}");
    }
    (set, proxy)
}

async fn replay_all(set: &Set) {
    let replays = (0..KEYS).map(async |key| {
        let replay = set.post("/things/alice/10", &format!("k{key}"), "").await;
        assert!(replay.replayed, "{replay:?}");
    });
    join_all(replays).await;
}

#[tokio::test]
async fn many_replays_at_once_are_few_statements() {
    let (set, proxy) = answered(5, STORE_TIMEOUT).await;
    replay_all(&set).await;
    proxy.requests();
    replay_all(&set).await;
    let read = |text: &String| text.starts_with("SELECT r.state");
    let sent: Vec<String> = proxy
        .requests()
        .iter()
        .map(|request| request.text())
        .collect();
    let reads = sent.iter().filter(|text| read(text)).count();
    assert!((1..=KEYS / 8).contains(&reads), "{reads} of {sent:#?}");
    assert_eq!(set.things().await, i64::try_from(KEYS).expect("few"));
}

/// Each is answered in time, and by itself: none waits for what another was told.
#[tokio::test]
async fn a_database_that_is_away_is_told_to_each_replay() {
    let (set, proxy) = answered(3, STORE_TIMEOUT).await;
    for outage in ["refuses", "is silent"] {
        match outage {
            "refuses" => proxy.refuse().await,
            _ => proxy.blackhole(),
        }
        let refused = async || {
            let replays = (0..KEYS).map(async |key| {
                let refused = set.post("/things/alice/10", &format!("k{key}"), "").await;
                refused.assert_problem(503, "idempotency-store-unavailable");
            });
            join_all(replays).await;
        };
        in_time(outage, Duration::from_millis(3500), refused).await;
        proxy.restore().await;
        until("recovery", PATIENCE, async || {
            set.post("/things/alice/10", "k0", "").await.replayed
        })
        .await;
        replay_all(&set).await;
    }
}

/// A reader that has always something to read gives its connection up all the same.
#[tokio::test]
async fn a_storm_of_replays_leaves_the_pools_last_connection_to_others() {
    // Long, since this machine may be slow.
    let (set, _proxy) = answered(1, Duration::from_secs(15)).await;
    let stop = AtomicBool::new(false);
    let storm = join_all((0..32).map(async |offset| {
        let mut replays: usize = 0;
        while !stop.load(Ordering::SeqCst) {
            let key = (offset * 5 + replays) % KEYS;
            let replay = set.post("/things/alice/10", &format!("k{key}"), "").await;
            assert!(replay.replayed, "{replay:?}");
            replays += 1;
        }
        replays
    }));
    let others = async {
        for number in 0..20 {
            let mut tries = 0;
            let first_use = async || {
                tries += 1;
                let key = format!("new{number}.{tries}");
                let first = set.post("/things/bob/10", &key, "").await;
                assert_eq!((first.status, first.replayed), (200, false), "{first:?}");
            };
            in_time("a first use", Duration::from_secs(1), first_use).await;
        }
        stop.store(true, Ordering::SeqCst);
    };
    let (replays, ()) = tokio::join!(storm, others);
    assert!(replays.iter().all(|replays| *replays > 0), "{replays:?}");
}

/// One thread, which tasks of others keep for themselves for a while each time.
#[tokio::test]
async fn a_busy_runtime_holds_nothing_up_for_ever() {
    let (set, _proxy) = answered(2, STORE_TIMEOUT).await;
    let busy = tokio::spawn(async {
        loop {
            let start = Instant::now();
            while start.elapsed() < Duration::from_millis(15) {
                std::hint::spin_loop();
            }
            tokio::task::yield_now().await;
        }
    });
    let replays = join_all((0..KEYS).map(async |key| {
        let answer = set.post("/things/alice/10", &format!("k{key}"), "").await;
        // Some may come too late for the store's time limit, and are told so.
        if !answer.replayed {
            answer.assert_problem(503, "idempotency-store-unavailable");
        }
    }));
    let all = tokio::time::timeout(PATIENCE, replays).await;
    busy.abort();
    assert!(all.is_ok(), "some replay was never answered");
    replay_all(&set).await;
}
