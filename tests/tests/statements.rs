//! What a request costs its database: the statements that it sends, one by one, and the commits.

use std::time::Duration;

use futures_util::future::join_all;
use idem_tests::application::{Application, Fixture, Setting};
use idem_tests::http::{Call, fresh_key};
use idem_tests::proxy::{Proxy, Request};
use idem_tests::servers::{Backend, TestDatabase};
use idem_tests::wait::{PATIENCE, until};

/// The beginnings of the statements of a first use, in their order. The handler's own is `INSERT INTO effects`.
fn first_use(backend: Backend, is_mariadb: bool) -> &'static [&'static str] {
    match backend {
        Backend::Postgres => &[
            "BEGIN",
            "SELECT pg_backend_pid() AS process,",
            "INSERT INTO effects",
            "INSERT INTO idem_keys",
            "COMMIT",
        ],
        // A new transaction follows the commit, and its rollback rides with the pool's ping. On MariaDB none does: the
        // rollback is there since sqlx does not see that commit.
        Backend::PostgresFewest => &[
            "BEGIN; EXECUTE idem_claim(",
            "INSERT INTO effects",
            "EXECUTE idem_complete(",
            "ROLLBACK",
        ],
        // What a look without waiting, `RETURNING` and a wait of zero are on MariaDB is four statements more.
        Backend::MySql if !is_mariadb => &[
            "SELECT state FROM idem_keys WHERE id = ? FOR UPDATE NOWAIT",
            "ROLLBACK; SET SESSION TRANSACTION READ ONLY;",
            "SET @idem_wait = @@innodb_lock_wait_timeout, SESSION innodb_lock_wait_timeout = 1",
            "INSERT INTO idem_keys",
            "SET SESSION innodb_lock_wait_timeout = @idem_wait",
            "SELECT state,",
            "INSERT INTO effects",
            "RELEASE SAVEPOINT idem_claim",
            "UPDATE idem_keys",
            "COMMIT; SET SESSION TRANSACTION READ WRITE; SET autocommit = @idem_autocommit",
            "ROLLBACK",
        ],
        Backend::MySql => &[
            "SET SESSION TRANSACTION READ ONLY; SET @idem_autocommit = @@autocommit, autocommit = 0; \
             START TRANSACTION READ WRITE; SAVEPOINT idem_claim",
            "SET STATEMENT innodb_lock_wait_timeout = 0 FOR INSERT INTO idem_keys",
            "INSERT INTO effects",
            "RELEASE SAVEPOINT idem_claim",
            "UPDATE idem_keys",
            "COMMIT; SET SESSION TRANSACTION READ WRITE; SET autocommit = @idem_autocommit",
            "ROLLBACK",
        ],
        // A look outside and one inside, since the turn of the one writer was waited for between them; and a
        // `BEGIN` that is refused, because the transaction is still open.
        Backend::Sqlite => &[
            "SELECT state,",
            "SELECT state,",
            "INSERT INTO effects",
            "BEGIN",
            "INSERT INTO idem_keys",
        ],
    }
}

struct Counted {
    app: Application,
    proxy: Proxy,
    backend: Backend,
    first_use: &'static [&'static str],
    /// Dropped last.
    _database: TestDatabase,
}

impl Counted {
    /// One connection, on which everything was prepared.
    async fn start(backend: Backend, isolation: Option<&str>) -> Counted {
        let database = TestDatabase::create(backend).await;
        let proxy = Proxy::start(backend, database.server_address()).await;
        let mut setting =
            Setting::of(backend, &database.url_through(proxy.address())).with("POOL_SIZE", 1);
        if let Some(isolation) = isolation {
            setting = setting.with("ISOLATION", isolation);
        }
        let app = Application::start(&setting).await;
        let counted = Counted {
            app,
            proxy,
            backend,
            first_use: first_use(backend, database.is_mariadb().await),
            _database: database,
        };
        let key = fresh_key();
        for _ in 0..2 {
            let answer = counted.app.with_key("/effects", &key).send().await;
            assert_eq!(answer.status, 201, "{answer:?}");
        }
        counted.statements().await;
        counted
    }

    /// What was sent since the last time, when the connection is back in the pool.
    async fn statements(&self) -> Vec<String> {
        let mut requests: Vec<Request> = Vec::new();
        until("the pool's ping", PATIENCE, async || {
            requests.extend(self.proxy.requests());
            requests.last() == Some(&Request::Ping)
        })
        .await;
        requests
            .iter()
            .filter(|request| **request != Request::Ping)
            .map(Request::text)
            .collect()
    }

    async fn assert_sends(&self, expected: &[&str]) {
        let sent = self.statements().await;
        let as_expected = sent.len() == expected.len()
            && sent
                .iter()
                .zip(expected)
                .all(|(sent, expected)| sent.starts_with(expected));
        assert!(as_expected, "{:?}: {sent:#?}", self.backend);
    }
}

/// A look for the key comes before the transaction, in the message that begins it.
async fn a_serializable_first_use_sends_no_more(backend: Backend) {
    let counted = Counted::start(backend, Some("serializable")).await;
    let begin = match backend {
        Backend::PostgresFewest => "BEGIN ISOLATION LEVEL READ COMMITTED; EXECUTE idem_look(",
        _ => "BEGIN ISOLATION LEVEL READ COMMITTED; SELECT CASE WHEN EXISTS (SELECT FROM idem_keys",
    };
    for _ in 0..3 {
        let answer = counted.app.effect("/effects").send().await;
        assert_eq!(answer.status, 201);
        let mut expected = counted.first_use.to_vec();
        expected[0] = begin;
        counted.assert_sends(&expected).await;
    }
}

async fn a_first_use_sends_what_it_must(backend: Backend) {
    let counted = Counted::start(backend, None).await;
    for _ in 0..3 {
        let answer = counted.app.effect("/effects").send().await;
        assert_eq!(answer.status, 201);
        counted.assert_sends(counted.first_use).await;
    }
}

async fn a_replay_is_one_statement(backend: Backend) {
    let counted = Counted::start(backend, None).await;
    let call = counted.app.effect("/effects");
    assert_eq!(call.send().await.status, 201);
    counted.statements().await;
    for _ in 0..3 {
        assert!(call.send().await.is_replay());
        counted.assert_sends(&["SELECT"]).await;
    }
}

async fn a_duplicate_in_flight_sends_nothing(backend: Backend) {
    let counted = Counted::start(backend, None).await;
    let key = fresh_key();
    let call = counted
        .app
        .with_key("/effects", &key)
        .asking("sleep-ms", 400);
    let duplicates = async {
        until("the handler runs", PATIENCE, async || {
            counted.app.entered(&key).await > 0
        })
        .await;
        join_all((0..5).map(|_| call.send())).await
    };
    let (first, duplicates) = tokio::join!(call.send(), duplicates);
    for duplicate in duplicates {
        duplicate.assert_replays(&first);
    }
    counted.assert_sends(counted.first_use).await;
}

macro_rules! counted {
    ($($module:ident: $backend:ident;)*) => {
        $(mod $module {
            use super::Backend;

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn a_first_use_sends_what_it_must() {
                super::a_first_use_sends_what_it_must(Backend::$backend).await;
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn a_replay_is_one_statement() {
                super::a_replay_is_one_statement(Backend::$backend).await;
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn a_duplicate_in_flight_sends_nothing() {
                super::a_duplicate_in_flight_sends_nothing(Backend::$backend).await;
            }
        })*
    };
}

counted! {
    postgres: Postgres;
    postgres_fewest: PostgresFewest;
    mysql: MySql;
}

mod sqlite {
    use super::*;

    /// Without a wire, what sqlx logs of statements is all that there is; begin and commit are no statements of its.
    async fn logged(app: &Fixture) -> Vec<String> {
        let told = app.client.get("/events").send().await;
        let told = String::from_utf8_lossy(&told.body).into_owned();
        told.lines()
            .filter_map(|line| line.split_once("summary=\"")?.1.split_once('"'))
            .map(|(summary, _)| summary.to_owned())
            .collect()
    }

    async fn sends(app: &Fixture, call: &Call) -> Vec<String> {
        let before = logged(app).await.len();
        let answer = call.send().await;
        assert_eq!(answer.status, 201, "{answer:?}");
        logged(app).await.split_off(before)
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn statements_are_as_few_as_can_be() {
        let app = Fixture::start(Backend::Sqlite, &[("KEEP_EVENTS", "sqlx::query=debug")]).await;
        let call = app.effect("/effects");
        let sent = sends(&app, &call).await;
        let as_expected = first_use(Backend::Sqlite, false);
        assert_eq!(sent.len(), as_expected.len(), "{sent:#?}");
        for (sent, expected) in sent.iter().zip(as_expected) {
            assert!(sent.starts_with(expected), "{sent:#?}");
        }
        let replayed = sends(&app, &call).await;
        assert_eq!(replayed.len(), 1, "{replayed:#?}");
    }
}

/// What a process commits that handles so many first uses and replays of them.
async fn commits_of(database: &TestDatabase, first_uses: usize, replays: usize) -> i64 {
    let setting = Setting::of(database.backend(), database.url()).with("POOL_SIZE", 1);
    database
        .commits_of(async || {
            let mut app = Application::start(&setting).await;
            for _ in 0..first_uses {
                let call = app.effect("/effects");
                assert_eq!(call.send().await.status, 201);
                for _ in 0..replays {
                    assert!(call.send().await.is_replay());
                }
            }
            app.server.ask_to_stop().await;
            app.server.ended(Duration::from_secs(40)).await;
        })
        .await
}

/// A replay's read is a transaction of its own, as any statement is; so is each statement's preparation, which the
/// first request of a process pays.
async fn a_first_use_is_one_commit(backend: Backend) {
    let database = TestDatabase::create(backend).await;
    commits_of(&database, 1, 0).await;
    let one = commits_of(&database, 1, 0).await;
    assert_eq!(commits_of(&database, 21, 0).await - one, 20);
    let replayed = commits_of(&database, 1, 2).await;
    assert_eq!(commits_of(&database, 11, 2).await - replayed, 30);
}

mod commits {
    use super::Backend;

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_first_use_is_one_commit_on_postgres() {
        super::a_first_use_is_one_commit(Backend::Postgres).await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_first_use_is_one_commit_on_postgres_in_fewest_messages() {
        super::a_first_use_is_one_commit(Backend::PostgresFewest).await;
    }
}

mod serializable {
    use super::Backend;

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_first_use_sends_no_more() {
        super::a_serializable_first_use_sends_no_more(Backend::Postgres).await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_first_use_in_fewest_messages_sends_no_more() {
        super::a_serializable_first_use_sends_no_more(Backend::PostgresFewest).await;
    }
}
