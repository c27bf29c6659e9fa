//! A PostgreSQL with a synchronous standby, which takes its place.

use std::time::Instant;

use idem_runtime::{Idempotency, StartupError};
use idem_tests::application::{Application, Setting};
use idem_tests::http::fresh_key;
use idem_tests::private::PrivatePostgres;
use idem_tests::proxy::Proxy;
use idem_tests::servers::{Backend, TestDatabase};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::{Connection, PgConnection, Postgres};

use crate::load::Load;

/// The digests of the keys of all effects.
async fn effects(database: &TestDatabase, server: &PrivatePostgres) -> Vec<String> {
    let mut connection = PgConnection::connect(&database.url_through(server.address()))
        .await
        .expect("the server lets in");
    sqlx::query_scalar("SELECT key_digest FROM effects")
        .fetch_all(&mut connection)
        .await
        .expect("the server answers")
}

async fn database_on(server: &PrivatePostgres) -> TestDatabase {
    let admin = server.url().parse().expect("a URL");
    TestDatabase::create_on(Backend::Postgres, admin).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "starts PostgreSQL servers: tests/run standby, or --full"]
async fn a_primary_killed_under_load_loses_nothing_and_doubles_nothing() {
    for backend in [Backend::Postgres, Backend::PostgresFewest] {
        let mut primary = PrivatePostgres::start();
        let database = database_on(&primary).await;
        let mut standby = primary.synchronous_standby().await;
        let proxy = Proxy::start(backend, primary.address()).await;
        let setting = Setting::of(backend, &database.url_through(proxy.address()));
        let (one, other) = (
            Application::start(&setting).await,
            Application::start(&setting).await,
        );
        let both = [&one, &other];
        let load = Load::start(&both, 6);
        let mut failovers = Vec::new();
        let mut old = Vec::new();
        for _ in 0..3 {
            load.goes_on(150).await;
            let killed = Instant::now();
            primary.kill();
            standby.promote().await;
            proxy.fail_over(standby.address());
            let promoted = Instant::now();
            load.goes_on(150).await;
            failovers.push((killed, promoted, Instant::now()));
            // The next failover has a standby, too.
            let next = standby.synchronous_standby().await;
            old.push(std::mem::replace(&mut primary, standby));
            standby = next;
        }
        let report = load.stop().await;
        report.assert_effects(&effects(&database, &primary).await);
        report.assert_replays(&both).await;
        eprintln!(
            "{backend:?}, 3 primaries killed under load: {} keys, {} tries that were not answered with success, none lost, \
             none doubled",
            report.keys(),
            report.retries(),
        );
        for (killed, promoted, over) in failovers {
            eprintln!(
                "  nobody was acknowledged for {} ms, of which the promotion took {} ms",
                report.pause(killed, over).as_millis(),
                (promoted - killed).as_millis(),
            );
        }
    }
}

/// It has other keys than the primary that followed it, and would run what is done. What stops it is that it still waits for
/// a standby, which follows it no more.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "starts PostgreSQL servers: tests/run standby, or --full"]
async fn an_old_primary_that_comes_back_acknowledges_nothing() {
    for backend in [Backend::Postgres, Backend::PostgresFewest] {
        let mut old = PrivatePostgres::start();
        let database = database_on(&old).await;
        let new = old.synchronous_standby().await;
        let proxy = Proxy::start(backend, old.address()).await;
        let setting = Setting::of(backend, &database.url_through(proxy.address()));
        let app = Application::start(&setting).await;
        app.accepted(&app.effect("/effects"), 201).await;
        old.kill();
        new.promote().await;
        proxy.fail_over(new.address());
        let key = fresh_key();
        let first = app.accepted(&app.with_key("/effects", &key), 201).await;

        old.restart();
        proxy.fail_over(old.address());
        let keys = [fresh_key(), fresh_key()];
        for asked in keys.iter().chain([&key]) {
            let refused = app.with_key("/effects", asked).send().await;
            refused.assert_problem(503, "idempotency-store-unavailable");
        }
        proxy.fail_over(new.address());
        let again = app.with_key("/effects", &key).send().await;
        again.assert_replays(&first);
        for key in &keys {
            app.accepted(&app.with_key("/effects", key), 201).await;
        }
        assert_eq!(effects(&database, &new).await.len(), 4);
        // Dropping the database there would wait as well.
        drop(old);
    }
}

/// Which is why the documentation asks for an address that moves.
#[test]
fn sqlx_connects_to_one_host() {
    let parse = |url: &str| url.parse::<PgConnectOptions>();
    assert!(parse("postgres://a:5432,b:5432/shop").is_err());
    for url in ["postgres://a,b/shop", "postgres:///shop?host=a,b"] {
        let options = parse(url).expect("a name with a comma is one");
        assert_eq!(options.get_host(), "a,b", "{url}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "starts PostgreSQL servers: tests/run standby, or --full"]
async fn a_service_does_not_start_on_a_standby() {
    let primary = PrivatePostgres::start();
    let database = database_on(&primary).await;
    let service = async |server: &PrivatePostgres| {
        let pool = idem_runtime::guard(PgPoolOptions::new().max_connections(2))
            .connect(&database.url_through(server.address()))
            .await
            .expect("the server lets in");
        Idempotency::<Postgres>::new(pool)
    };
    let migrated = service(&primary).await;
    migrated.migrate().await.expect("the tables are made");
    migrated.check().await.expect("the primary is one");
    let standby = primary.synchronous_standby().await;
    let refused = service(&standby).await.check().await;
    assert!(
        matches!(refused, Err(StartupError::ReadOnly)),
        "{refused:?}"
    );
    drop(primary);
    standby.promote().await;
    let promoted = service(&standby).await.check().await;
    assert!(promoted.is_ok(), "{promoted:?}");
}
