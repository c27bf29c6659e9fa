//! Two processes on one database.

use idem_tests::application::{Application, Setting};
use idem_tests::http::fresh_key;
use idem_tests::servers::{Backend, TestDatabase};

/// Fires one key at both processes at once, round after round; each round has one effect.
async fn two_processes_one_database(backend: Backend, isolation: &str, rounds: usize) {
    let database = TestDatabase::create(backend).await;
    let mut setting = Setting::of(database.url());
    if !isolation.is_empty() {
        setting = setting.with("ISOLATION", isolation);
    }
    let one = Application::start(&setting).await;
    let other = Application::start(&setting).await;
    let mut keys = Vec::new();
    for round in 0..rounds {
        let key = fresh_key();
        let (left, right) = (
            one.with_key("/effects", &key),
            other.with_key("/effects", &key),
        );
        let (left_answer, right_answer) = tokio::join!(left.send(), right.send());
        let again = left.send().await;
        assert!(
            again.status == 201 && again.is_replay(),
            "round {round}: {again:?}, after {left_answer:?} and {right_answer:?}"
        );
        for answer in [&left_answer, &right_answer] {
            let agrees = match answer.status {
                201 => answer.body == again.body,
                409 | 503 => true,
                _ => false,
            };
            assert!(agrees, "round {round}: {answer:?}");
        }
        let first = |answer: &idem_tests::http::Answer| answer.status == 201 && !answer.is_replay();
        assert!(
            !(first(&left_answer) && first(&right_answer)),
            "round {round}: two first uses"
        );
        keys.push(idem_tests::application::key_digest(&key));
    }
    let mut effects: Vec<String> = one
        .rows("alice")
        .await
        .iter()
        .map(|row| row["key_digest"].as_str().unwrap_or_default().to_owned())
        .collect();
    effects.sort();
    keys.sort();
    assert_eq!(effects, keys, "one effect each round, and no other");
}

macro_rules! two_processes {
    ($($module:ident: $backend:ident, $isolation:literal, $rounds:literal;)*) => {
        $(mod $module {
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn two_processes_one_database() {
                let backend = super::Backend::$backend;
                super::two_processes_one_database(backend, $isolation, $rounds).await;
            }
        })*
    };
}

two_processes! {
    postgres: Postgres, "", 500;
    sqlite: Sqlite, "", 500;
    mysql: MySql, "", 500;
    postgres_repeatable_read: Postgres, "repeatable-read", 200;
    postgres_serializable: Postgres, "serializable", 200;
    mysql_read_committed: MySql, "read-committed", 200;
    mysql_serializable: MySql, "serializable", 200;
}
