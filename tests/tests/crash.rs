//! The crash matrix: the probe dies at every point of an attempt, and a retry still has one effect.

use std::path::Path;
use std::time::Duration;

use futures_util::future::join_all;
use idem_tests::application::{Application, Setting, key_digest};
use idem_tests::http::{Call, fresh_key};
use idem_tests::planted::assert_turns_red;
use idem_tests::servers::{Backend, TestDatabase};
use idem_tests::wait::PATIENCE;
use tempfile::TempDir;

/// What an attempt that is to crash meets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scenario {
    /// A first use.
    Fresh,
    /// A key whose lifetime has passed.
    Expired,
    /// A handler that fails with an `Err` which is stored.
    StoredError,
}

impl Scenario {
    fn path(self) -> &'static str {
        match self {
            Scenario::Fresh => "/effects",
            Scenario::Expired => "/short",
            Scenario::StoredError => "/stored-errors",
        }
    }

    fn call(self, app: &Application, key: &str) -> Call {
        let call = app.with_key(self.path(), key);
        match self {
            Scenario::StoredError => call.asking("err", 402),
            _ => call,
        }
    }

    /// The status of the answer that a retry ends with, and how many effects there are then.
    fn expected(self) -> (u16, i64) {
        match self {
            Scenario::Fresh => (201, 1),
            Scenario::Expired => (201, 2),
            Scenario::StoredError => (402, 0),
        }
    }
}

async fn effects(database: &TestDatabase, key: &str) -> i64 {
    let digest = key_digest(key);
    database
        .number(&format!(
            "SELECT COUNT(*) FROM effects WHERE key_digest = '{digest}'"
        ))
        .await
}

/// The names of the points that one request passes.
async fn points(scenario: Scenario, setting: &Setting, file: &Path, key: &str) -> Vec<String> {
    let setting = setting.clone().with("IDEM_CRASH_COUNT", file.display());
    let app = Application::start(&setting).await;
    let answer = scenario.call(&app, key).send().await;
    assert_eq!(answer.status, scenario.expected().0, "{answer:?}");
    let names = std::fs::read_to_string(file).unwrap_or_default();
    names.lines().map(str::to_owned).collect()
}

/// A key that is ready for the scenario, in a process that does not crash.
async fn prepared(scenario: Scenario, app: &Application) -> String {
    let key = fresh_key();
    if scenario == Scenario::Expired {
        let call = scenario.call(app, &key);
        assert_eq!(call.send().await.status, 201);
    }
    key
}

async fn every_crash_point_leaves_one_effect(backend: Backend, scenario: Scenario) {
    let database = TestDatabase::create(backend).await;
    let directory = TempDir::new().expect("a temporary directory");
    let setting = Setting::of(backend, database.url());

    // All keys first, so that those that must expire do so together.
    let app = Application::start(&setting).await;
    let mut keys = Vec::new();
    for _ in 0..64 {
        keys.push(prepared(scenario, &app).await);
    }
    drop(app);
    if scenario == Scenario::Expired {
        database.age_keys(Duration::from_secs(3601)).await;
    }

    let first = keys.pop().expect("keys were made");
    let names = points(scenario, &setting, &directory.path().join("points"), &first).await;
    assert!(names.len() >= 6, "too few points: {names:?}");
    assert!(names.len() < keys.len(), "too many points: {names:?}");
    assert_eq!(
        names.last().map(String::as_str),
        Some("answer"),
        "{names:?}"
    );

    // What a fused message does, no crash can cut in two.
    let fused = backend == Backend::PostgresFewest && scenario != Scenario::Expired;
    let separate = names.iter().any(|name| name == "begin.after");
    assert_eq!(fused, !separate, "{names:?}");

    println!("{backend:?}, {scenario:?}: {} points", names.len());
    for (at, name) in (1..).zip(&names) {
        let key = keys.pop().expect("a key for each point");
        let what = format!("{backend:?}, {scenario:?}, point {at} ({name})");
        let crashing = setting.clone().with("IDEM_CRASH_AT", at);
        let mut app = Application::start(&crashing).await;
        let answer = scenario.call(&app, &key).try_send().await;
        assert!(answer.is_err(), "{what}: it answered {answer:?}");
        let status = app.server.ended(PATIENCE).await;
        assert!(!status.success(), "{what}: {status}");

        let app = Application::start(&setting).await;
        let call = scenario.call(&app, &key);
        let (status, expected) = scenario.expected();
        let retried = call.send().await;
        assert_eq!(retried.status, status, "{what}: {retried:?}");
        assert_eq!(effects(&database, &key).await, expected, "{what}");
        let again = call.send().await;
        assert!(again.is_replay(), "{what}: {again:?}");
        assert_eq!(again.body, retried.body, "{what}");
        assert_eq!(effects(&database, &key).await, expected, "{what}");
    }
}

/// Kills the probe at a random moment under load; every request is then retried.
async fn a_kill_at_any_moment_leaves_one_effect_for_each_key(backend: Backend) {
    let rounds = if std::env::var_os("IDEM_FULL").is_some() {
        100
    } else {
        5
    };
    let database = TestDatabase::create(backend).await;
    let setting = Setting::of(backend, database.url());
    let mut app = Application::start(&setting).await;
    for round in 0..rounds {
        let keys: Vec<String> = (0..40).map(|_| fresh_key()).collect();
        let calls: Vec<Call> = keys
            .iter()
            .map(|key| app.with_key("/effects", key))
            .collect();
        let load = join_all(calls.iter().map(Call::try_send));
        let pause = Duration::from_micros(fastrand::u64(0..60_000));
        let kill = async {
            tokio::time::sleep(pause).await;
            app.server.kill().await;
        };
        let (answers, ()) = tokio::join!(load, kill);
        app = Application::start(&setting).await;
        for (key, before) in keys.iter().zip(answers) {
            let what = format!("{backend:?}, round {round}, killed after {pause:?}");
            let retried = app.with_key("/effects", key).send().await;
            assert_eq!(retried.status, 201, "{what}: {retried:?}");
            if let Ok(before) = before
                .map_err(drop)
                .and_then(|answer| (answer.status == 201).then_some(answer).ok_or(()))
            {
                retried.assert_replays(&before);
            }
            assert_eq!(effects(&database, key).await, 1, "{what}");
        }
    }
}

macro_rules! crashes {
    ($($module:ident: $backend:ident;)*) => {
        $(mod $module {
            use super::{Backend, Scenario};

            #[tokio::test]
            async fn a_first_use_that_crashes_anywhere_has_one_effect() {
                super::every_crash_point_leaves_one_effect(Backend::$backend, Scenario::Fresh).await;
            }

            #[tokio::test]
            async fn a_take_over_that_crashes_anywhere_has_one_effect() {
                super::every_crash_point_leaves_one_effect(Backend::$backend, Scenario::Expired).await;
            }

            #[tokio::test]
            async fn a_stored_error_that_crashes_anywhere_has_no_effect() {
                super::every_crash_point_leaves_one_effect(Backend::$backend, Scenario::StoredError)
                    .await;
            }

            #[tokio::test]
            async fn a_kill_at_any_moment_leaves_one_effect_for_each_key() {
                super::a_kill_at_any_moment_leaves_one_effect_for_each_key(Backend::$backend).await;
            }
        })*
    };
}

crashes! {
    postgres: Postgres;
    postgres_fewest: PostgresFewest;
    sqlite: Sqlite;
    mysql: MySql;
}

macro_rules! planted {
    ($($name:ident: $plant:literal at $backend:ident;)*) => {
        mod planted {
            use super::{Backend, Scenario};

            $(
                #[tokio::test]
                async fn $name() {
                    let case = async || {
                        super::every_crash_point_leaves_one_effect(Backend::$backend, Scenario::Fresh).await;
                    };
                    let name = "a_first_use_that_crashes_anywhere_has_one_effect";
                    super::assert_turns_red($plant, name, case).await;
                }
            )*
        }
    };
}

planted! {
    answer_before_on_postgres: "AnswerBefore" at Postgres;
    answer_before_on_mysql: "AnswerBefore" at MySql;
    answer_after_on_postgres: "AnswerAfter" at Postgres;
    answer_after_on_sqlite: "AnswerAfter" at Sqlite;
    answer_after_on_mysql: "AnswerAfter" at MySql;
}
