//! Whose clock counts: the database's. Processes whose own clocks are ten minutes off, in either direction, see nothing of it.
//!
//! SQLite has no server, and its database's clock is that of the machine, as its processes see it: there the clock is set
//! between two processes, which is what can happen to one machine.

use idem_tests::application::Application;
use idem_tests::clock::{WallClock, seconds_from_now};
use idem_tests::http::fresh_key;
use idem_tests::process::executable;
use idem_tests::servers::Backend;
use idem_tests::wait::until;
use tokio::process::Command;

use crate::setup::{
    Ledger, Provider, RECOVERY, Shop, charge, on_databases, on_every_database, settled,
};

/// One process ahead of the time and one behind it, and the other way round.
const PAIRS: [(WallClock, WallClock); 2] = [
    (WallClock::BEHIND, WallClock::AHEAD),
    (WallClock::AHEAD, WallClock::BEHIND),
];

/// Shorter than what the clocks are off, and longer than any test.
const FIVE_MINUTES: &str = "5m";

impl Shop {
    /// Leaves an operation behind, as a process does that has this clock and a lease of its own.
    async fn crash_by(&self, clock: WallClock, lease: &str, point: &str, key: &str) {
        let clock = clock.environment();
        let mut environment: Vec<(&str, &str)> = clock
            .iter()
            .map(|(name, value)| (*name, value.as_str()))
            .collect();
        environment.push(("LEASE", lease));
        self.crash_with(&environment, point, key).await;
    }

    /// A probe with this clock, which recovers.
    async fn probe_by(&self, clock: WallClock) -> Application {
        let app = Application::start(&clock.of(&self.setting)).await;
        let answer = app.client.get("/healthz").send().await;
        clock.assert_shown_by(&answer);
        app
    }

    /// How many operations there are of which this holds.
    async fn operations(&self, condition: &str) -> i64 {
        let sql = format!("SELECT COUNT(*) FROM idem_operations WHERE {condition}");
        self.database.number(&sql).await
    }
}

/// The database's time, so many minutes from now.
fn minutes_from_now(backend: Backend, minutes: i64) -> String {
    match backend {
        Backend::Postgres | Backend::PostgresFewest => {
            format!("now() + {minutes} * interval '1 minute'")
        }
        Backend::MySql => format!("UNIX_TIMESTAMP() * 1000 + {minutes} * 60000"),
        Backend::Sqlite => {
            format!("CAST(strftime('%s', 'now') AS INTEGER) * 1000 + {minutes} * 60000")
        }
    }
}

const ONCE: Ledger = Ledger {
    charges: 1,
    attempts: 1,
};

/// A lease that is not over is nobody's to take, however late a worker's clock says it is; and one that is over is taken,
/// however early.
async fn a_lease_is_over_when_the_database_says_so(backend: Backend) {
    for (owner, worker) in PAIRS {
        let what = format!("{owner:?}, {worker:?}");
        let shop = Shop::open(backend, Provider::HonoursKeys).await;
        let (held, over) = (fresh_key(), fresh_key());
        shop.crash_by(owner, FIVE_MINUTES, "call.after#1", &held)
            .await;
        shop.crash_by(owner, "3s", "call.after#1", &over).await;
        let other = shop.probe_by(worker).await;
        let answer = settled(&charge(&other, &over)).await;
        assert_eq!(answer.status, 201, "{what}: {answer:?}");
        assert_eq!(shop.ledger(&over).await.charges, 1, "{what}");
        assert_eq!(shop.rows(&over).await, (1, 1), "{what}");
        // The worker that has taken the one over has seen the other as often.
        assert_eq!(shop.operations("attempt = 1").await, 1, "{what}");
        assert_eq!(shop.ledger(&held).await, ONCE, "{what}");
        assert_eq!(shop.rows(&held).await, (1, 0), "{what}");
    }
}

/// The lifetime of a key, too, and the time in which a request may still arrive.
async fn the_limits_of_a_provider_are_counted_by_the_database(backend: Backend) {
    for (owner, worker) in PAIRS {
        let what = format!("{owner:?}, {worker:?}");
        let honours = Shop::open(backend, Provider::HonoursKeys).await;
        let honours = honours.with(&[
            ("KEY_LIFETIME", FIVE_MINUTES),
            ("CALL_TIMEOUT", "10s"),
            ("IN_FLIGHT_LIMIT", "20s"),
        ]);
        let asked = Shop::open(backend, Provider::CanBeAsked).await;
        for (shop, point) in [(honours, "call.after#1"), (asked, "call.before#1")] {
            let key = fresh_key();
            shop.crash_by(owner, "3s", point, &key).await;
            let other = shop.probe_by(worker).await;
            let answer = settled(&charge(&other, &key)).await;
            assert_eq!(answer.status, 201, "{what}, {point}: {answer:?}");
            assert_eq!(shop.ledger(&key).await.charges, 1, "{what}, {point}");
            assert_eq!(shop.rows(&key).await, (1, 1), "{what}, {point}");
        }
        // The provider knows of no charge, and is not believed before its limit is over.
        let asked = Shop::open(backend, Provider::CanBeAsked).await;
        let asked = asked.with(&[("IN_FLIGHT_LIMIT", FIVE_MINUTES)]);
        let key = fresh_key();
        asked.crash_by(owner, "3s", "call.before#1", &key).await;
        let _other = asked.probe_by(worker).await;
        let soon = minutes_from_now(backend, 2);
        until("it has been asked", RECOVERY, async || {
            let later = format!("attempt > 1 AND due_at > {soon}");
            asked.operations(&later).await == 1
        })
        .await;
        assert_eq!(asked.ledger(&key).await.attempts, 0, "{what}");
    }
}

/// Answers live as long as the database says, whoever stored them, whoever replays them, and whoever sweeps.
async fn an_answers_lifetime_is_counted_by_the_database(backend: Backend) {
    for (first, second) in PAIRS {
        let what = format!("{first:?}, {second:?}");
        let shop = Shop::open(backend, Provider::HonoursKeys).await;
        let (first, second) = (shop.probe_by(first).await, shop.probe_by(second).await);
        let key = fresh_key();
        let stored = first.accepted(&first.with_key("/effects", &key), 201).await;
        let replay = second.with_key("/effects", &key);
        replay.send().await.assert_replays(&stored);
        for answer in [&stored, &replay.send().await] {
            let expires = answer.header("idempotency-expires").unwrap_or_default();
            let off = seconds_from_now(expires) - 48 * 3600;
            assert!(off.abs() < 300, "{what}: {answer:?}");
        }
        // Short lives, which the test does not wait for.
        for (minutes, effects) in [(5, 1), (-5, 2)] {
            let end = minutes_from_now(backend, minutes);
            let end = format!("UPDATE idem_keys SET expires_at = {end}, retain_until = {end}");
            shop.database.execute(&end).await.expect("there is a key");
            let answer = replay.send().await;
            assert_eq!(answer.status, 201, "{what}: {answer:?}");
            assert_eq!(answer.is_replay(), minutes > 0, "{what}: {answer:?}");
            assert_eq!(second.effects(&key).await, effects, "{what}");
        }
        let mut left = 1;
        for (minutes, clock) in [(5, WallClock::AHEAD), (-5, WallClock::BEHIND)] {
            let end = minutes_from_now(backend, minutes);
            let end = format!("UPDATE idem_keys SET expires_at = {end}, retain_until = {end}");
            shop.database.execute(&end).await.expect("there is a key");
            sweep(&shop, clock).await;
            left -= i64::from(minutes < 0);
            let keys = "SELECT COUNT(*) FROM idem_keys";
            assert_eq!(shop.database.number(keys).await, left, "{what}");
        }
    }
}

/// The program sweeps, with this clock.
async fn sweep(shop: &Shop, clock: WallClock) {
    let swept = Command::new(executable("idem"))
        .args(["--database-url", shop.database.url(), "sweep"])
        .envs(clock.environment())
        .output()
        .await
        .expect("the program runs");
    assert!(swept.status.success(), "{swept:?}");
}

/// A machine whose clock is wrong is as good as another, as long as nobody sets it.
async fn a_clock_that_is_wrong_for_all_changes_nothing(backend: Backend) {
    for clock in [WallClock::AHEAD, WallClock::BEHIND] {
        for kind in [Provider::HonoursKeys, Provider::CanBeAsked] {
            let shop = Shop::open(backend, kind).await;
            let key = fresh_key();
            shop.crash_by(clock, "3s", "call.after#1", &key).await;
            let other = shop.probe_by(clock).await;
            let call = charge(&other, &key);
            let answer = settled(&call).await;
            assert_eq!(answer.status, 201, "{clock:?}, {kind:?}: {answer:?}");
            call.send().await.assert_replays(&answer);
            assert_eq!(shop.ledger(&key).await.charges, 1, "{clock:?}, {kind:?}");
            assert_eq!(shop.rows(&key).await, (1, 1), "{clock:?}, {kind:?}");
        }
    }
}

/// The machine's clock is set back while an operation is left behind: nothing happens twice, and its recovery waits until the
/// lease is over by the new time.
async fn a_clock_that_is_set_back_delays_recovery(backend: Backend) {
    let shop = Shop::open(backend, Provider::HonoursKeys).await;
    let (key, after) = (fresh_key(), fresh_key());
    shop.crash_by(WallClock::AHEAD, "3s", "call.after#1", &key)
        .await;
    shop.crash_at("call.after#1", &after).await;
    let other = shop.probe_by(WallClock::RIGHT).await;
    let answer = settled(&charge(&other, &after)).await;
    assert_eq!(answer.status, 201, "{answer:?}");
    let impatient = shop.without_recovery(&[("WAIT", "100ms")]).await;
    let told = charge(&impatient, &key).send().await;
    told.assert_problem(409, "idempotency-key-in-progress");
    assert_eq!(shop.operations("attempt = 1").await, 1);
    assert_eq!(shop.ledger(&key).await, ONCE);
    drop((other, impatient));
    // Ten minutes later.
    let other = shop.probe_by(WallClock::AHEAD).await;
    let answer = settled(&charge(&other, &key)).await;
    assert_eq!(answer.status, 201, "{answer:?}");
    assert_eq!(shop.ledger(&key).await.charges, 1);
    assert_eq!(shop.rows(&key).await, (1, 1));
}

/// It is set forward: leases are over at once. An attempt that still runs loses its lease so, and does nothing more.
async fn a_clock_that_is_set_forward_ends_leases(backend: Backend) {
    let shop = Shop::open(backend, Provider::HonoursKeys).await;
    let key = fresh_key();
    shop.crash_by(WallClock::RIGHT, FIVE_MINUTES, "call.after#1", &key)
        .await;
    let other = shop.probe_by(WallClock::AHEAD).await;
    let answer = settled(&charge(&other, &key)).await;
    assert_eq!(answer.status, 201, "{answer:?}");
    assert_eq!(shop.ledger(&key).await.charges, 1);
    assert_eq!(shop.rows(&key).await, (1, 1));
}

on_every_database! { a_clock_that_is_wrong_for_all_changes_nothing }

mod off {
    use super::{
        a_lease_is_over_when_the_database_says_so, an_answers_lifetime_is_counted_by_the_database,
        on_databases, the_limits_of_a_provider_are_counted_by_the_database,
    };

    on_databases! {
        postgres: Postgres; [
            a_lease_is_over_when_the_database_says_so,
            the_limits_of_a_provider_are_counted_by_the_database,
            an_answers_lifetime_is_counted_by_the_database,
        ]
    }
    on_databases! {
        postgres_fewest: PostgresFewest; [
            a_lease_is_over_when_the_database_says_so,
            the_limits_of_a_provider_are_counted_by_the_database,
            an_answers_lifetime_is_counted_by_the_database,
        ]
    }
    on_databases! {
        mysql: MySql; [
            a_lease_is_over_when_the_database_says_so,
            the_limits_of_a_provider_are_counted_by_the_database,
            an_answers_lifetime_is_counted_by_the_database,
        ]
    }
}

mod set {
    use super::{
        a_clock_that_is_set_back_delays_recovery, a_clock_that_is_set_forward_ends_leases,
        on_databases,
    };

    on_databases! {
        sqlite: Sqlite; [
            a_clock_that_is_set_back_delays_recovery,
            a_clock_that_is_set_forward_ends_leases,
        ]
    }
}
