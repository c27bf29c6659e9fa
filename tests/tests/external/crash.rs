//! The crash matrix: the process dies at every point of an attempt. Another process then recovers the operation while the
//! client asks again.

use futures_util::future::join_all;
use idem_tests::application::Application;
use idem_tests::http::fresh_key;
use idem_tests::servers::Backend;
use idem_tests::wait::until;
use serde_json::json;

use crate::setup::{Provider, RECOVERY, Shop, charge, settled, status};

/// Every point, or some: the whole matrix is walked on one database for each kind of provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Extent {
    Whole,
    Sample,
}

impl Extent {
    fn includes(self, at: usize) -> bool {
        self == Extent::Whole || std::env::var_os("IDEM_FULL").is_some() || at % 3 == 1
    }
}

/// The points that a run passes, in their order, each with its number among those of its name: `commit.after#2`.
fn numbered(passed: &str) -> Vec<String> {
    let names: Vec<&str> = passed.lines().collect();
    let number = |at: usize| {
        names[..=at]
            .iter()
            .filter(|name| **name == names[at])
            .count()
    };
    (0..names.len())
        .map(|at| format!("{}#{}", names[at], number(at)))
        .collect()
}

/// The points of one charge.
async fn points(shop: &Shop) -> Vec<String> {
    let file = shop.directory.path().join("points");
    let path = file.display().to_string();
    // A lease that is not renewed meanwhile: when it is, depends on the machine.
    let app = shop
        .without_recovery(&[("IDEM_CRASH_COUNT", &path), ("LEASE", "60s")])
        .await;
    let answer = charge(&app, &fresh_key()).send().await;
    assert_eq!(answer.status, 201, "{answer:?}");
    numbered(&std::fs::read_to_string(file).unwrap_or_default())
}

pub(crate) async fn every_crash_point_charges_once(
    backend: Backend,
    kind: Provider,
    extent: Extent,
) {
    let shop = Shop::open(backend, kind).await;
    let points = points(&shop).await;
    for part in [
        "claim",
        "step.begin",
        "record",
        "commit",
        "call",
        "complete",
    ] {
        let met = points.iter().any(|point| point.starts_with(part));
        assert!(met, "no point of {part}: {points:?}");
    }
    assert_eq!(points.last().map(String::as_str), Some("answer#1"));
    let chosen: Vec<(String, String)> = (0..points.len())
        .filter(|at| extent.includes(*at))
        .map(|at| (points[at].clone(), fresh_key()))
        .collect();
    for (point, key) in &chosen {
        shop.crash_at(point, key).await;
    }
    // Two processes that recover, and clients that ask both.
    let apps = [shop.probe().await, shop.probe().await];
    let retries = chosen.iter().zip(apps.iter().cycle());
    join_all(retries.map(|((point, key), app)| recovered(&shop, app, kind, point, key))).await;
    let all = shop.at_provider.get("/charges").send().await.json();
    let charges = all["charges"].as_array().map_or(0, Vec::len);
    println!(
        "{backend:?}, {kind:?}: {} points, {} crashes, {charges} charges, one of them of the run that counted",
        points.len(),
        chosen.len()
    );
}

/// What must hold for an operation that was left behind at a point.
async fn recovered(shop: &Shop, app: &Application, kind: Provider, point: &str, key: &str) {
    let what = format!("{:?}, {kind:?}, {point}", shop.database.backend());
    let call = charge(app, key);
    let answer = settled(&call).await;
    let ledger = shop.ledger(key).await;
    let unknown = answer.code().as_deref() == Some("idempotency-outcome-unknown");
    if kind == Provider::Neither && unknown {
        answer.assert_problem(409, "idempotency-outcome-unknown");
        assert!(ledger.charges <= 1, "{what}: {ledger:?}");
        assert!(ledger.attempts <= 1, "{what}: {ledger:?}");
        assert_eq!(shop.rows(key).await, (1, 0), "{what}");
        let seen = status(app, &answer, "alice-token").await;
        assert_eq!(
            seen.json(),
            json!({ "state": "unknown" }),
            "{what}: {seen:?}"
        );
        return;
    }
    let lost = point.starts_with("call.");
    assert!(!(kind == Provider::Neither && lost), "{what}: {answer:?}");
    assert_eq!(answer.status, 201, "{what}: {answer:?}");
    assert_eq!(ledger.charges, 1, "{what}: {ledger:?}");
    assert_eq!(shop.rows(key).await, (1, 1), "{what}");
    let again = call.send().await;
    again.assert_replays(&answer);
    let ledger_after = shop.ledger(key).await;
    assert_eq!(ledger_after, ledger, "{what}: a replay calls nobody");
}

/// Every point of a recovery, too: the process that took the operation over dies, and a third one ends it.
async fn every_crash_point_of_a_recovery_charges_once(
    backend: Backend,
    kind: Provider,
    extent: Extent,
) {
    let points = points_of_recovery(backend, kind).await;
    for part in ["step.begin", "complete", "commit"] {
        let met = points.iter().any(|point| point.starts_with(part));
        assert!(met, "no point of {part}: {points:?}");
    }
    let chosen: Vec<usize> = (0..points.len())
        .filter(|at| extent.includes(*at))
        .collect();
    let (number, crashes) = (points.len(), 2 * chosen.len());
    println!("{backend:?}, {kind:?}: {number} points of a recovery, {crashes} crashes");
    join_all(chosen.into_iter().map(async |at| {
        let point = &points[at];
        let shop = Shop::open(backend, kind).await;
        let key = fresh_key();
        shop.crash_at("call.after#1", &key).await;
        let crashing = shop.setting.clone().with("IDEM_CRASH_AT", point);
        let mut second = Application::start(&crashing).await;
        let status = second.server.ended(RECOVERY).await;
        assert!(!status.success(), "{point}: {status}");
        let third = shop.probe().await;
        recovered(&shop, &third, kind, &format!("recovery, {point}"), &key).await;
    }))
    .await;
}

/// Those that do not depend on how often the worker looked, or on when it renewed its lease.
async fn points_of_recovery(backend: Backend, kind: Provider) -> Vec<String> {
    let shop = Shop::open(backend, kind).await;
    shop.crash_at("call.after#1", &fresh_key()).await;
    let file = shop.directory.path().join("points");
    let counting = shop
        .setting
        .clone()
        .with("IDEM_CRASH_COUNT", file.display());
    let _second = Application::start(&counting).await;
    until("it is recovered", RECOVERY, async || {
        let left = "SELECT COUNT(*) FROM idem_operations";
        shop.database.number(left).await == 0
    })
    .await;
    // Others see a commit before its own process has passed it.
    let passed = || numbered(&std::fs::read_to_string(&file).unwrap_or_default());
    until("the end has been passed", RECOVERY, async || {
        let points = passed();
        let end = points
            .iter()
            .rposition(|point| point.starts_with("complete"));
        end.is_some_and(|end| {
            points[end..]
                .iter()
                .any(|point| point.starts_with("commit.after"))
        })
    })
    .await;
    let mut points = passed();
    points.retain(|point| !point.starts_with("take_over") && !point.starts_with("renew"));
    points
}

macro_rules! matrix {
    ($($module:ident: $backend:ident, $keys:ident, $asked:ident, $neither:ident;)*) => {
        $(mod $module {
            use super::{
                Backend, Extent, Provider, every_crash_point_charges_once,
                every_crash_point_of_a_recovery_charges_once,
            };

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn a_provider_that_honours_keys_charges_once_wherever_it_crashes() {
                let kind = Provider::HonoursKeys;
                every_crash_point_charges_once(Backend::$backend, kind, Extent::$keys).await;
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn a_provider_that_can_be_asked_charges_once_wherever_it_crashes() {
                let kind = Provider::CanBeAsked;
                every_crash_point_charges_once(Backend::$backend, kind, Extent::$asked).await;
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn a_provider_that_is_neither_charges_at_most_once_wherever_it_crashes() {
                let kind = Provider::Neither;
                every_crash_point_charges_once(Backend::$backend, kind, Extent::$neither).await;
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn a_provider_that_honours_keys_charges_once_wherever_the_recovery_crashes() {
                let kind = Provider::HonoursKeys;
                every_crash_point_of_a_recovery_charges_once(Backend::$backend, kind, Extent::$keys)
                    .await;
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn a_provider_that_can_be_asked_charges_once_wherever_the_recovery_crashes() {
                let kind = Provider::CanBeAsked;
                every_crash_point_of_a_recovery_charges_once(
                    Backend::$backend,
                    kind,
                    Extent::$asked,
                )
                .await;
            }
        })*
    };
}

matrix! {
    postgres: Postgres, Whole, Sample, Sample;
    postgres_fewest: PostgresFewest, Sample, Sample, Sample;
    sqlite: Sqlite, Sample, Whole, Sample;
    mysql: MySql, Sample, Sample, Whole;
}
