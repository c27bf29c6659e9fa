//! The database is away in the middle: of a claim, of a step's commit, of the answer's, and of a recovery.

use std::time::Duration;

use idem_tests::http::fresh_key;
use idem_tests::private::PrivatePostgres;
use idem_tests::proxy::Proxy;
use idem_tests::servers::{Backend, TestDatabase};

use crate::setup::{Provider, Shop, charge, on_databases, settled};

const KINDS: [Provider; 2] = [Provider::HonoursKeys, Provider::CanBeAsked];

/// A shop whose probes reach their database only through a proxy.
async fn behind_proxy(backend: Backend, kind: Provider) -> (Shop, Proxy) {
    let shop = Shop::open(backend, kind).await;
    let proxy = Proxy::start(backend, shop.database.server_address()).await;
    let url = shop.database.url_through(proxy.address());
    (shop.with(&[("DATABASE_URL", &url)]), proxy)
}

/// How commits are lost.
#[derive(Clone, Copy, Debug)]
enum Lost {
    /// They take place, and nobody says so.
    Acknowledgements,
    /// They never reach the server.
    Commits,
}

impl Lost {
    fn arm(self, proxy: &Proxy, commits: usize) {
        match self {
            Lost::Acknowledgements => proxy.swallow_acknowledgements(commits),
            Lost::Commits => proxy.lose_commits(commits),
        }
    }
}

/// The claim's commit, and those that follow it.
async fn commits_that_are_lost_charge_once(backend: Backend) {
    for lost in [Lost::Acknowledgements, Lost::Commits] {
        for kind in KINDS {
            for commits in 1..=4 {
                let what = format!("{lost:?}, {kind:?}, the first {commits}");
                let (shop, proxy) = behind_proxy(backend, kind).await;
                let app = shop.probe().await;
                let key = fresh_key();
                let call = charge(&app, &key);
                lost.arm(&proxy, commits);
                let answer = settled(&call).await;
                assert_eq!(answer.status, 201, "{what}: {answer:?}");
                assert!(proxy.armed() < commits, "{what}: a COMMIT was met");
                assert_eq!(shop.ledger(&key).await.charges, 1, "{what}");
                assert_eq!(shop.rows(&key).await, (1, 1), "{what}");
                // A connection that was cut may still be in the pool.
                settled(&call).await.assert_replays(&answer);
            }
        }
    }
}

/// The last commit, which holds the last step and the answer.
async fn an_answers_commit_that_is_lost_charges_once(backend: Backend) {
    for lost in [Lost::Acknowledgements, Lost::Commits] {
        for kind in KINDS {
            let what = format!("{lost:?}, {kind:?}");
            let (shop, proxy) = behind_proxy(backend, kind).await;
            let app = shop.probe().await;
            let key = fresh_key();
            let call = charge(&app, &key).asking("gate", &key);
            let arm = async {
                // It stands in the last step: all before it is committed.
                app.gathered(&key, 1).await;
                assert_eq!(shop.ledger(&key).await.charges, 1, "{what}");
                lost.arm(&proxy, 1);
                app.open_gate(&key).await;
            };
            let (first, ()) = tokio::join!(call.send(), arm);
            let answer = settled(&call).await;
            assert_eq!(answer.status, 201, "{what}: {first:?}, {answer:?}");
            assert_eq!(proxy.armed(), 0, "{what}: a COMMIT was met");
            assert_eq!(shop.ledger(&key).await.charges, 1, "{what}");
            assert_eq!(shop.rows(&key).await, (1, 1), "{what}");
        }
    }
}

/// Connections break every moment, and then the server is away, while operations are recovered.
async fn a_database_that_restarts_during_recovery_charges_once(backend: Backend) {
    for kind in KINDS {
        let (shop, proxy) = behind_proxy(backend, kind).await;
        let points = [
            "commit.after#1",
            "call.before#1",
            "call.after#1",
            "complete.after#1",
        ];
        let keys: Vec<String> = points.iter().map(|_| fresh_key()).collect();
        for (point, key) in points.iter().zip(&keys) {
            shop.crash_at(point, key).await;
        }
        let app = shop.probe().await;
        let weather = async {
            for _ in 0..25 {
                proxy.cut();
                tokio::time::sleep(Duration::from_millis(150)).await;
            }
            proxy.refuse().await;
            tokio::time::sleep(Duration::from_millis(1500)).await;
            proxy.restore().await;
        };
        let calls: Vec<_> = keys.iter().map(|key| charge(&app, key)).collect();
        let recovered = futures_util::future::join_all(calls.iter().map(settled));
        let (answers, ()) = tokio::join!(recovered, weather);
        for ((point, key), answer) in points.iter().zip(&keys).zip(answers) {
            let what = format!("{kind:?}, {point}");
            assert_eq!(answer.status, 201, "{what}: {answer:?}");
            assert_eq!(shop.ledger(key).await.charges, 1, "{what}");
            assert_eq!(shop.rows(key).await, (1, 1), "{what}");
        }
    }
}

/// Charges at every stage, while the server crashes again and again: claims, commits and recoveries are cut wherever they are.
async fn a_server_that_crashes_charges_once(backend: Backend) {
    for kind in [Provider::HonoursKeys, Provider::CanBeAsked] {
        let mut server = PrivatePostgres::start();
        let admin = server.url().parse().expect("a URL");
        let shop = Shop::open_on(TestDatabase::create_on(backend, admin).await, kind).await;
        let app = shop.probe().await;
        let keys: Vec<String> = (0..60).map(|_| fresh_key()).collect();
        let calls: Vec<_> = keys.iter().map(|key| charge(&app, key)).collect();
        let charges = calls.iter().enumerate().map(|(number, call)| async move {
            // So that some begin before each crash, and some while the server is away.
            tokio::time::sleep(Duration::from_millis(60 * number as u64)).await;
            settled(call).await
        });
        let crashes = async {
            for _ in 0..3 {
                tokio::time::sleep(Duration::from_millis(900)).await;
                tokio::task::block_in_place(|| server.crash_and_restart());
            }
        };
        let (answers, ()) = tokio::join!(futures_util::future::join_all(charges), crashes);
        for (key, answer) in keys.iter().zip(answers) {
            assert_eq!(answer.status, 201, "{kind:?}: {answer:?}");
            assert_eq!(shop.ledger(key).await.charges, 1, "{kind:?}");
            assert_eq!(shop.rows(key).await, (1, 1), "{kind:?}");
        }
        drop(app);
    }
}

on_databases! { postgres_server: Postgres; [a_server_that_crashes_charges_once] }
on_databases! { postgres_server_fewest: PostgresFewest; [a_server_that_crashes_charges_once] }
on_databases! {
    postgres: Postgres; [
        commits_that_are_lost_charge_once,
        an_answers_commit_that_is_lost_charges_once,
        a_database_that_restarts_during_recovery_charges_once,
    ]
}
on_databases! {
    mysql: MySql; [
        commits_that_are_lost_charge_once,
        an_answers_commit_that_is_lost_charges_once,
        a_database_that_restarts_during_recovery_charges_once,
    ]
}
