//! Mixed traffic for a long time, while the database is restarted again and again: nothing is lost, nothing doubled, and
//! what the process holds stays as much as it was.

mod restarts;
mod vitals;

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::http::{HeaderName, HeaderValue, Method};
use idem_tests::application::{Application, Setting};
use idem_tests::hammer::count::Source;
use idem_tests::hammer::plan::{Mix, Plan};
use idem_tests::hammer::report::{Counted, Report, Verdict};
use idem_tests::hammer::request::Request;
use idem_tests::hammer::retry::Patience;
use idem_tests::hammer::{Hammer, Settings};
use idem_tests::planted::assert_turns_red;
use idem_tests::private::PrivatePostgres;
use idem_tests::servers::{Backend, TestDatabase};
use idem_tests::wait::{PATIENCE, until};

use crate::restarts::Restarts;
use crate::vitals::{Vitals, Watch};

/// In the ordinary run.
const SHORT: Duration = Duration::from_secs(25);

/// Connections to the database.
const POOL: u64 = 10;

/// How often a database is restarted in a soak of this length: once a minute, and often enough for every quarter to see it.
fn restart_every(length: Duration) -> Duration {
    Duration::from_secs(60).min(length * 2 / 7)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_short_soak_loses_nothing_doubles_nothing_and_keeps_nothing() {
    soak(SHORT).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "takes 20 minutes, or IDEM_SOAK_SECONDS: tests/run soak, or --full"]
async fn a_long_soak_loses_nothing_doubles_nothing_and_keeps_nothing() {
    let seconds = std::env::var("IDEM_SOAK_SECONDS").unwrap_or_else(|_| "1200".to_owned());
    let seconds = seconds.parse().expect("IDEM_SOAK_SECONDS is a number");
    soak(Duration::from_secs(seconds)).await;
}

/// Handlers that sleep when the database goes meet it in their commit.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "takes a minute: tests/run soak, or --full"]
async fn a_soak_finds_commits_that_fail_and_are_answered_as_done() {
    let short = async || soak(SHORT).await;
    assert_turns_red("CommitSwallowed", "a short soak", short).await;
}

/// What some first attempts ask of their handler.
const SOMETIMES: [(&str, &str); 4] = [
    ("x-probe-fault", "panic"),
    ("x-probe-fault", "swallow"),
    ("x-probe-sleep-ms", "100"),
    ("x-probe-sleep-ms", "1500"),
];

fn settings(app: &Application, length: Duration) -> Settings {
    let url = format!("http://{}/effects", app.server.address());
    let authorization = HeaderName::from_static("authorization");
    let line = |(name, value)| {
        let name = HeaderName::from_static(name);
        (name, HeaderValue::from_static(value))
    };
    Settings {
        request: Request::new(Method::POST, &url)
            .header(authorization, "Bearer alice-token")
            .body(r#"{"number": {number}, "key": "{key}"}"#),
        plan: Plan {
            seed: fastrand::u64(..),
            mix: Mix::default(),
            sometimes: SOMETIMES.len(),
        },
        sometimes: SOMETIMES.map(line).to_vec(),
        keys: u64::MAX,
        duration: length,
        concurrency: 24,
        rate: Some(80.0),
        // Less than some outages take, so that keys are left for later.
        patience: Patience {
            attempts: 2,
            give_up: Duration::from_secs(5),
            backoff: Duration::from_millis(100),
            longest: Duration::from_secs(1),
        },
        timeout: Duration::from_secs(10),
        max_answer: 1 << 20,
        disconnect_within: None,
        mismatch_status: 422,
        allow_remote: false,
    }
}

async fn soak(length: Duration) {
    let backend = Backend::PostgresFewest;
    let server = PrivatePostgres::start();
    let admin = server.url().parse().expect("a URL");
    let database = TestDatabase::create_on(backend, admin).await;
    let setting = Setting::of(backend, database.url())
        .with("POOL_SIZE", POOL)
        // One arena, so that what is freed is used again.
        .with("MALLOC_ARENA_MAX", 1)
        // It would log each of some thousand errors that are part of this.
        .with("RUST_LOG", "off")
        .with("RUST_BACKTRACE", 0)
        .with("COUNT_ENTERED", "off");
    let app = Arc::new(Application::start(&setting).await);
    let idle = Vitals::of(&app, database.url()).await;
    let idle = idle.expect("the probe and its database are there");

    let hammer = Hammer::new(settings(&app, length)).await;
    let hammer = Arc::new(hammer.expect("the probe can be loaded"));
    eprintln!("{length:?}, seed {}", hammer.settings().plan.seed);
    let start = Instant::now();
    let restarts = Restarts::start(server, restart_every(length));
    let watch = Watch::start(Arc::clone(&app), database.url(), length);
    hammer.traffic().await.expect("every request can be made");
    let seconds = start.elapsed().as_secs_f64();
    let samples = watch.stop().await;
    let (server, kills, shutdowns) = restarts.stop().await;

    let given_up = hammer.progress();
    until("every key has ended", PATIENCE * 2, async || {
        hammer.resolve().await.expect("every request can be made") == 0
    })
    .await;
    let source = |query: &str| Source::Sql {
        database: database.url().to_owned(),
        query: query.to_owned(),
    };
    let after = source("SELECT body FROM effects").by_key(&hammer).await;
    let counted = Counted::ByKey {
        after: after.expect("the effects are there"),
        per_key: 1,
    };
    let report = Report::new(&hammer, &counted, seconds);
    eprintln!(
        "{kills} kills and {shutdowns} shutdowns; when the traffic was over:\n{given_up}\n{report}"
    );
    assert_eq!(report.verdict, Verdict::Right);
    assert_eq!(report.keys.succeeded, report.keys.begun, "none is refused");
    let all = source("SELECT count(*) FROM effects").number().await;
    let all = all.expect("the effects are there");
    assert_eq!(u64::try_from(all), Ok(report.keys.succeeded));
    assert!(kills > 0 && shutdowns > 0, "the database was away");
    assert!(report.keys.late > 0, "some keys were given up at first");
    assert!(report.requests.replays > 0 && report.requests.changed > 0);

    samples.assert_flat();
    // With its client gone, nothing is left of the requests.
    drop(hammer);
    until("the probe is as idle as it was", PATIENCE, async || {
        let now = Vitals::of(&app, database.url()).await;
        now.is_some_and(|now| now.is_idle_as(&idle, POOL))
    })
    .await;
    drop(app);
    drop(database);
    drop(server);
}
