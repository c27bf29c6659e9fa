//! Two processes on one database.

use std::time::Duration;

use futures_util::future::join_all;
use idem_tests::application::{Application, Setting};
use idem_tests::http::{Answer, fresh_key};
use idem_tests::servers::{Backend, TestDatabase};
use idem_tests::wait::{PATIENCE, in_time, until};
use serde_json::json;

/// Fires one key at both processes at once, round after round; each round has one effect.
async fn two_processes_one_database(backend: Backend, environment: &[(&str, &str)], rounds: usize) {
    let database = TestDatabase::create(backend).await;
    let mut setting = Setting::of(backend, database.url());
    for (name, value) in environment {
        setting = setting.with(name, value);
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
        let first = |answer: &Answer| answer.status == 201 && !answer.is_replay();
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

/// Two processes on one database.
struct Two {
    one: Application,
    other: Application,
    /// Dropped last.
    database: TestDatabase,
}

impl Two {
    async fn start(backend: Backend, environment: &[(&str, &str)]) -> Two {
        let database = TestDatabase::create(backend).await;
        let mut setting = Setting::of(backend, database.url());
        for (name, value) in environment {
            setting = setting.with(name, value);
        }
        Two {
            one: Application::start(&setting).await,
            other: Application::start(&setting).await,
            database,
        }
    }

    async fn running(&self, key: &str) {
        until("the handler runs", PATIENCE, async || {
            self.one.entered(key).await > 0
        })
        .await;
    }
}

async fn a_replay_in_another_process_enters_no_handler(backend: Backend) {
    let two = Two::start(backend, &[]).await;
    let key = fresh_key();
    let first = two.one.with_key("/effects", &key).send().await;
    let call = two.other.with_key("/effects", &key);
    call.send().await.assert_replays(&first);
    let reused = call.json(&json!({"amount": 5})).send().await;
    reused.assert_problem(422, "idempotency-key-reused");
    assert_eq!(two.other.entered(&key).await, 0);
}

async fn strict(process: &Application, key: &str) -> Answer {
    process.with_key("/strict", key).send().await
}

/// Their records are neighbours, where a lock on a gap between two would be met. A strict operation waits for nobody.
async fn fresh_keys_of_one_moment_do_not_meet(backend: Backend) {
    neighbours(&Two::start(backend, &[]).await).await;
}

async fn nor_where_transactions_are_serializable(backend: Backend) {
    neighbours(&Two::start(backend, &[("ISOLATION", "serializable")]).await).await;
}

/// Requests that fail, and duplicates that meet them, leave locks between their neighbours until they are rolled back.
async fn failures_and_duplicates_do_not_put_their_neighbours_off(backend: Backend) {
    let two = Two::start(backend, &[]).await;
    for round in 0..50 {
        let failing = (0..6).map(async |_| {
            let key = uuid::Uuid::now_v7().to_string();
            let call = |process: &Application| {
                process
                    .with_key("/strict", &key)
                    .asking("sleep-ms", 3)
                    .asking("err", 402)
            };
            let (one, other) = (call(&two.one), call(&two.other));
            tokio::join!(one.send(), other.send());
        });
        let fresh = (0..12).map(async |number| {
            tokio::time::sleep(Duration::from_millis(number)).await;
            let key = uuid::Uuid::now_v7().to_string();
            strict([&two.one, &two.other][usize::from(number % 2 == 0)], &key).await
        });
        let (_, fresh) = tokio::join!(join_all(failing), join_all(fresh));
        for answer in fresh {
            assert!(
                answer.status == 201 && !answer.is_replay(),
                "round {round}: {answer:?}"
            );
        }
    }
}

async fn neighbours(two: &Two) {
    let mut before: Vec<(String, Answer)> = Vec::new();
    for round in 0..25 {
        let keys: Vec<String> = (0..8).map(|_| uuid::Uuid::now_v7().to_string()).collect();
        let processes = [&two.one, &two.other].into_iter().cycle();
        let first = keys
            .iter()
            .zip(processes.clone())
            .map(|(key, process)| strict(process, key));
        // The neighbours' retries, each where it was not answered before.
        let again = before
            .iter()
            .zip(processes.skip(1))
            .map(|((key, _), process)| strict(process, key));
        let (first, again) = tokio::join!(join_all(first), join_all(again));
        for ((_, answer), replay) in before.iter().zip(&again) {
            replay.assert_replays(answer);
        }
        for answer in &first {
            assert!(
                answer.status == 201 && !answer.is_replay(),
                "round {round}: {answer:?}"
            );
        }
        before = keys.into_iter().zip(first).collect();
    }
}

async fn a_failure_is_no_answer_once_another_process_has_one(backend: Backend) {
    let two = Two::start(backend, &[]).await;
    let key = fresh_key();
    let first = two.one.with_key("/effects", &key).send().await;
    assert_eq!(first.status, 201);
    for (name, value) in [("err", "402"), ("status", "503"), ("fault", "panic")] {
        let call = two.other.with_key("/effects", &key).asking(name, value);
        call.send().await.assert_replays(&first);
    }
}

pub(super) async fn a_duplicate_in_another_process_waits_for_the_answer(backend: Backend) {
    let two = Two::start(backend, &[]).await;
    let key = fresh_key();
    let slow = two.one.with_key("/effects", &key).asking("sleep-ms", 700);
    let duplicate = async {
        two.running(&key).await;
        two.other.with_key("/effects", &key).send().await
    };
    let (first, second) = tokio::join!(slow.send(), duplicate);
    assert_eq!(first.status, 201);
    second.assert_replays(&first);
    assert_eq!(two.other.entered(&key).await, 0);
    assert_eq!(two.one.effects(&key).await, 1);
}

/// Both look at the expired record before either has replaced it.
pub(super) async fn an_expired_key_is_taken_over_by_one_of_two_processes(backend: Backend) {
    let two = Two::start(backend, &[]).await;
    let key = fresh_key();
    let call = two.one.with_key("/short", &key);
    assert_eq!(call.send().await.status, 201);
    two.database.age_keys(Duration::from_secs(3601)).await;
    let slow = call.asking("sleep-ms", 700);
    let duplicate = async {
        until("the handler runs again", PATIENCE, async || {
            two.one.entered(&key).await > 1
        })
        .await;
        two.other.with_key("/short", &key).send().await
    };
    let (first, second) = tokio::join!(slow.send(), duplicate);
    assert_eq!((first.status, first.is_replay()), (201, false));
    second.assert_replays(&first);
    assert_eq!(two.other.entered(&key).await, 0);
    assert_eq!(two.one.effects(&key).await, 2);
}

/// SQLite's writers take turns, and the wait for a turn is the begin.
async fn a_begin_that_waited_too_long_keeps_no_turn(backend: Backend) {
    let two = Two::start(backend, &[]).await;
    let (busy, key) = (fresh_key(), fresh_key());
    let slow = two.one.with_key("/effects", &busy).asking("gate", &busy);
    let call = two.other.with_key("/effects", &key);
    let refused = async {
        two.running(&busy).await;
        let refused = call.send().await;
        two.one.open_gate(&busy).await;
        refused
    };
    let (first, refused) = tokio::join!(slow.send(), refused);
    assert_eq!(first.status, 201);
    refused.assert_problem(503, "idempotency-store-unavailable");
    for app in [&two.one, &two.other] {
        until("a turn", PATIENCE, async || {
            app.with_key("/effects", &key).send().await.status == 201
        })
        .await;
    }
    assert_eq!(two.one.effects(&key).await, 1);
}

async fn a_strict_operation_refuses_a_duplicate_of_another_process_at_once(backend: Backend) {
    let two = Two::start(backend, &[("WAIT", "25s")]).await;
    let key = fresh_key();
    let slow = two.one.with_key("/strict", &key).asking("gate", &key);
    let call = two.other.with_key("/strict", &key);
    let duplicate = async {
        two.running(&key).await;
        let at_once = Duration::from_millis(1000);
        let told = in_time("it is refused", at_once, async || call.send().await).await;
        two.one.open_gate(&key).await;
        told
    };
    let (first, told) = tokio::join!(slow.send(), duplicate);
    assert_eq!(first.status, 201);
    told.assert_problem(409, "idempotency-key-in-progress");
    assert_eq!(two.other.entered(&key).await, 0);
}

/// The duplicates wait in the process that does not run the request.
async fn duplicates_across_processes_do_not_slow_another_key_down(backend: Backend) {
    let two = Two::start(backend, &[("POOL_SIZE", "5"), ("WAIT", "25s")]).await;
    let key = fresh_key();
    let slow = two.one.with_key("/effects", &key).asking("gate", &key);
    // It comes to no handler there.
    let duplicate = two.other.with_key("/effects", &key).asking("gate", &key);
    let storm = async {
        two.running(&key).await;
        join_all((0..100).map(|_| duplicate.send())).await
    };
    let others = async {
        until("the duplicates wait", PATIENCE, async || {
            two.other.at_gate(&key).await == (100, 0)
        })
        .await;
        for _ in 0..40 {
            let answer = two.other.effect("/effects").send().await;
            assert_eq!(answer.status, 201, "{answer:?}");
        }
        two.one.open_gate(&key).await;
    };
    let (first, answers, ()) = tokio::join!(slow.send(), storm, others);
    assert_eq!(first.status, 201);
    for answer in answers {
        answer.assert_replays(&first);
    }
    assert_eq!(two.one.effects(&key).await, 1);
}

macro_rules! across_processes {
    ($($module:ident: $backend:ident { $($case:ident,)* })*) => {
        $(mod $module {
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $case() {
                    super::$case(super::Backend::$backend).await;
                }
            )*
        })*
    };
}

across_processes! {
    postgres_two: Postgres {
        a_replay_in_another_process_enters_no_handler,
        fresh_keys_of_one_moment_do_not_meet,
        nor_where_transactions_are_serializable,
        failures_and_duplicates_do_not_put_their_neighbours_off,
        a_failure_is_no_answer_once_another_process_has_one,
        a_duplicate_in_another_process_waits_for_the_answer,
        an_expired_key_is_taken_over_by_one_of_two_processes,
        a_strict_operation_refuses_a_duplicate_of_another_process_at_once,
        duplicates_across_processes_do_not_slow_another_key_down,
    }
    postgres_fewest_two: PostgresFewest {
        a_replay_in_another_process_enters_no_handler,
        fresh_keys_of_one_moment_do_not_meet,
        nor_where_transactions_are_serializable,
        failures_and_duplicates_do_not_put_their_neighbours_off,
        a_failure_is_no_answer_once_another_process_has_one,
        a_duplicate_in_another_process_waits_for_the_answer,
        an_expired_key_is_taken_over_by_one_of_two_processes,
        a_strict_operation_refuses_a_duplicate_of_another_process_at_once,
        duplicates_across_processes_do_not_slow_another_key_down,
    }
    mysql_two: MySql {
        a_replay_in_another_process_enters_no_handler,
        fresh_keys_of_one_moment_do_not_meet,
        nor_where_transactions_are_serializable,
        failures_and_duplicates_do_not_put_their_neighbours_off,
        a_failure_is_no_answer_once_another_process_has_one,
        a_duplicate_in_another_process_waits_for_the_answer,
        an_expired_key_is_taken_over_by_one_of_two_processes,
        a_strict_operation_refuses_a_duplicate_of_another_process_at_once,
        duplicates_across_processes_do_not_slow_another_key_down,
    }
    sqlite_two: Sqlite {
        a_replay_in_another_process_enters_no_handler,
        fresh_keys_of_one_moment_do_not_meet,
        failures_and_duplicates_do_not_put_their_neighbours_off,
        a_failure_is_no_answer_once_another_process_has_one,
        a_duplicate_in_another_process_waits_for_the_answer,
        an_expired_key_is_taken_over_by_one_of_two_processes,
        a_begin_that_waited_too_long_keeps_no_turn,
    }
}

macro_rules! two_processes {
    ($($module:ident: $backend:ident, [$($name:literal = $value:literal),*], $rounds:literal;)*) => {
        $(mod $module {
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn two_processes_one_database() {
                let backend = super::Backend::$backend;
                super::two_processes_one_database(backend, &[$(($name, $value)),*], $rounds).await;
            }
        })*
    };
}

two_processes! {
    postgres: Postgres, [], 500;
    postgres_fewest: PostgresFewest, [], 500;
    sqlite: Sqlite, [], 500;
    mysql: MySql, [], 500;
    postgres_repeatable_read: Postgres, ["ISOLATION" = "repeatable-read"], 200;
    postgres_serializable: Postgres, ["ISOLATION" = "serializable"], 200;
    postgres_fewest_repeatable_read: PostgresFewest, ["ISOLATION" = "repeatable-read"], 200;
    postgres_fewest_serializable: PostgresFewest, ["ISOLATION" = "serializable"], 200;
    mysql_read_committed: MySql, ["ISOLATION" = "read-committed"], 200;
    mysql_serializable: MySql, ["ISOLATION" = "serializable"], 200;
    postgres_without_hints: Postgres, ["HINTS" = "off"], 200;
    postgres_fewest_without_hints: PostgresFewest, ["HINTS" = "off"], 200;
    postgres_without_hints_serializable: Postgres, ["HINTS" = "off", "ISOLATION" = "serializable"], 200;
    mysql_without_hints: MySql, ["HINTS" = "off"], 200;
}
