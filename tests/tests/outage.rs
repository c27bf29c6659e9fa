//! The database is away, or its acknowledgements are.

use std::io::{BufRead, BufReader};
use std::process::{ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use idem_tests::application::{Application, Setting, key_digest};
use idem_tests::http::{Call, fresh_key};
use idem_tests::planted::assert_turns_red;
use idem_tests::proxy::Proxy;
use idem_tests::servers::{Backend, TestDatabase};
use idem_tests::wait::{PATIENCE, in_time, until};

/// How long a request may take whose database is away: two seconds, and a little for the way.
const SOON: Duration = Duration::from_millis(2600);

fn is_full() -> bool {
    std::env::var_os("IDEM_FULL").is_some()
}

/// A probe that reaches its database only through a proxy.
struct Remote {
    app: Application,
    proxy: Proxy,
    database: TestDatabase,
}

impl Remote {
    async fn start(backend: Backend) -> Remote {
        let database = TestDatabase::create(backend).await;
        let proxy = Proxy::start(backend, database.server_address()).await;
        let setting = Setting::of(backend, &database.url_through(proxy.address()));
        let app = Application::start(&setting).await;
        let remote = Remote {
            app,
            proxy,
            database,
        };
        // A pool with open connections is what an outage meets.
        remote.assert_works().await;
        remote
    }

    async fn assert_works(&self) {
        let answer = self.app.effect("/effects").send().await;
        assert_eq!(answer.status, 201, "{answer:?}");
    }

    /// Counted past the proxy.
    async fn effects(&self, key: &str) -> i64 {
        let digest = key_digest(key);
        let sql = format!("SELECT COUNT(*) FROM effects WHERE key_digest = '{digest}'");
        self.database.number(&sql).await
    }

    /// Sends new keys, some at a time, for as long as `outage`, and asserts that all are refused soon, without their
    /// handlers. Gives the keys.
    async fn assert_refuses(&self, outage: Duration) -> Vec<String> {
        let start = Instant::now();
        let mut keys = Vec::new();
        while start.elapsed() < outage {
            let batch = in_time("all are refused", SOON, async || self.refused().await).await;
            for key in &batch {
                assert_eq!(self.app.entered(key).await, 0, "no handler is entered");
            }
            keys.extend(batch);
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        keys
    }

    /// The keys of requests that were sent at once, and refused.
    async fn refused(&self) -> Vec<String> {
        let keys: Vec<String> = (0..8).map(|_| fresh_key()).collect();
        let calls = keys.iter().map(|key| self.app.with_key("/effects", key));
        let calls: Vec<Call> = calls.collect();
        for answer in join_all(calls.iter().map(Call::send)).await {
            answer.assert_problem(503, "idempotency-store-unavailable");
            assert!(answer.header("retry-after").is_some(), "{answer:?}");
        }
        keys
    }

    /// Asserts that all is well again, soon and without a restart.
    async fn assert_recovers(&self, keys: &[String]) {
        until("recovery", PATIENCE, async || {
            self.app.effect("/effects").send().await.status == 201
        })
        .await;
        for key in keys.iter().take(20) {
            let retried = self.app.with_key("/effects", key).send().await;
            assert_eq!(retried.status, 201, "{retried:?}");
            assert_eq!(self.effects(key).await, 1);
        }
    }
}

async fn a_database_that_is_away_is_said_soon_and_its_return_is_enough(backend: Backend) {
    let remote = Remote::start(backend).await;
    remote.proxy.refuse().await;
    let seconds = if is_full() { 30 } else { 4 };
    let keys = remote.assert_refuses(Duration::from_secs(seconds)).await;
    remote.proxy.restore().await;
    remote.assert_recovers(&keys).await;
}

async fn a_database_that_is_silent_is_said_soon_and_its_return_is_enough(backend: Backend) {
    let remote = Remote::start(backend).await;
    remote.proxy.blackhole();
    let seconds = if is_full() { 30 } else { 4 };
    let keys = remote.assert_refuses(Duration::from_secs(seconds)).await;
    remote.proxy.restore().await;
    remote.assert_recovers(&keys).await;
}

async fn a_lost_acknowledgement_is_found_out_and_answered(backend: Backend) {
    let remote = Remote::start(backend).await;
    for round in 0..5 {
        let key = fresh_key();
        let call = remote.app.with_key("/effects", &key);
        remote.proxy.swallow_acknowledgements(1);
        let answer = call.send().await;
        assert_eq!(remote.proxy.armed(), 0, "round {round}: a COMMIT was met");
        assert_eq!(answer.status, 201, "round {round}: {answer:?}");
        assert_eq!(remote.effects(&key).await, 1, "round {round}");
        assert_eq!(remote.app.entered(&key).await, 1, "round {round}");
        let again = call.send().await;
        assert!(again.is_replay(), "round {round}: {again:?}");
        assert_eq!(again.body, answer.body, "round {round}");
    }
}

async fn a_lost_commit_runs_again_or_is_told_to(backend: Backend) {
    let remote = Remote::start(backend).await;
    // The last ones lose every run of theirs.
    for (round, commits) in [1, 1, 2, 5, 5].into_iter().enumerate() {
        let key = fresh_key();
        let call = remote.app.with_key("/effects", &key);
        remote.proxy.lose_commits(commits);
        let answer = call.send().await;
        assert_eq!(remote.proxy.armed(), 0, "round {round}: a COMMIT was met");
        match answer.status {
            201 => assert_eq!(remote.effects(&key).await, 1, "round {round}"),
            _ => answer.assert_problem(503, "idempotency-store-unavailable"),
        }
        let again = call.send().await;
        assert_eq!(again.status, 201, "round {round}: {again:?}");
        assert_eq!(remote.effects(&key).await, 1, "round {round}");
    }
}

async fn an_outcome_that_cannot_be_read_asks_for_the_same_key(backend: Backend) {
    for swallow in [true, false] {
        let remote = Remote::start(backend).await;
        let key = fresh_key();
        let call = remote.app.with_key("/effects", &key);
        remote.proxy.refuse_after_commit_fault();
        if swallow {
            remote.proxy.swallow_acknowledgements(1);
        } else {
            remote.proxy.lose_commits(1);
        }
        let answer = call.send().await;
        answer.assert_problem(503, "idempotency-store-unavailable");
        assert!(answer.header("retry-after").is_some(), "{answer:?}");
        let detail = answer.json()["detail"].to_string();
        assert!(detail.contains("same"), "it names the same key: {detail}");
        assert_eq!(remote.effects(&key).await, i64::from(swallow));

        remote.proxy.restore().await;
        until("recovery", PATIENCE, async || {
            call.send().await.status == 201
        })
        .await;
        assert_eq!(remote.effects(&key).await, 1);
    }
}

async fn connections_that_break_under_a_handler_leave_one_effect(backend: Backend) {
    let remote = Remote::start(backend).await;
    let key = fresh_key();
    let call = remote
        .app
        .with_key("/effects", &key)
        .asking("sleep-ms", 600);
    let cut = async {
        until("the handler runs", PATIENCE, async || {
            remote.app.entered(&key).await > 0
        })
        .await;
        remote.proxy.cut();
    };
    let (answer, ()) = tokio::join!(call.send(), cut);
    match (answer.status, answer.code()) {
        // The break met a statement of the handler's, whose error is its own to answer.
        (201, None) | (500, None) => {}
        _ => answer.assert_problem(503, "idempotency-store-unavailable"),
    }
    let again = call.send().await;
    assert_eq!(again.status, 201, "{again:?}");
    assert_eq!(remote.effects(&key).await, 1);
}

/// The server begins, and the begin's limit is over before it says so. Whatever a connection is left in,
/// the next request on it must not write into a transaction that nobody commits.
async fn a_begin_that_is_cut_off_leaves_no_transaction_in_the_pool(backend: Backend) {
    let database = TestDatabase::create(backend).await;
    let proxy = Proxy::start(backend, database.server_address()).await;
    let setting = Setting::of(backend, &database.url_through(proxy.address())).with("POOL_SIZE", 3);
    let remote = Remote {
        app: Application::start(&setting).await,
        proxy,
        database,
    };
    // All three connections, open and idle.
    let call = || remote.app.effect("/effects").asking("sleep-ms", 300);
    let warm = [call(), call(), call()];
    for answer in join_all(warm.iter().map(Call::send)).await {
        assert_eq!(answer.status, 201, "{answer:?}");
    }
    // The pool's own ping is answered.
    remote.proxy.hold_answers_to_begins(true);
    remote.proxy.requests();
    let cut_off = [call(), call(), call()];
    for answer in join_all(cut_off.iter().map(Call::send)).await {
        answer.assert_problem(503, "idempotency-store-unavailable");
    }
    let sent = remote.proxy.requests();
    let begun = sent.iter().filter(|request| request.begins()).count();
    assert!(begun >= 3, "the server was sent each begin: {sent:?}");
    remote.proxy.hold_answers_to_begins(false);
    // Time for what was cut off to end, and for its connection to be back if it comes back.
    tokio::time::sleep(Duration::from_millis(1500)).await;
    // An error's answer is stored by a statement of its own, on whatever connection comes next.
    for number in 1..=6 {
        let failing = remote.app.effect("/stored-errors").asking("err", 402);
        let answer = failing.send().await;
        assert_eq!(answer.status, 402, "{answer:?}");
        let stored = "SELECT COUNT(*) FROM idem_keys WHERE status = 402";
        let committed = remote.database.number(stored).await;
        assert_eq!(committed, number, "an answer that was given is committed");
    }
}

/// Servers of a test's own, which it may stop.
struct OwnServers {
    script: std::process::Child,
    variables: Vec<(String, String)>,
    /// Open for as long as the script may write to it.
    _output: BufReader<ChildStdout>,
}

impl OwnServers {
    /// What these tests need of what the script prints.
    const NEEDED: [&'static str; 4] = [
        "IDEM_POSTGRES_URL",
        "IDEM_POSTGRES_PID",
        "IDEM_MYSQL_URL",
        "IDEM_MYSQL_PID",
    ];

    fn start() -> OwnServers {
        let mut script = Command::new(concat!(env!("CARGO_MANIFEST_DIR"), "/run"))
            .arg("--serve")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .expect("tests/run can be run");
        let mut output = BufReader::new(script.stdout.take().expect("piped"));
        let mut variables: Vec<(String, String)> = Vec::new();
        let named = |variables: &[(String, String)], name: &str| {
            variables.iter().any(|(known, _)| known == name)
        };
        while !Self::NEEDED.iter().all(|name| named(&variables, name)) {
            let mut line = String::new();
            let read = output.read_line(&mut line);
            let read = read.expect("tests/run prints text");
            assert!(read > 0, "tests/run --serve did not start: {variables:?}");
            if let Some((name, value)) = line.trim_end().split_once('=') {
                variables.push((name.to_owned(), value.to_owned()));
            }
        }
        OwnServers {
            script,
            variables,
            _output: output,
        }
    }

    fn variable(&self, name: &str) -> &str {
        let found = self.variables.iter().find(|(known, _)| known == name);
        &found.expect("tests/run names it").1
    }

    /// Sends a signal to a server and its children.
    fn signal(&self, name: &str, server: &str) {
        let id = self.variable(server);
        // A child may end by itself meanwhile.
        let command = format!(
            "kill -{name} {id} && for child in $(cat /proc/{id}/task/{id}/children); do kill -{name} $child || true; done"
        );
        let sent = Command::new("sh").arg("-c").arg(command).status();
        assert!(sent.is_ok_and(|status| status.success()), "{name}");
    }
}

impl Drop for OwnServers {
    fn drop(&mut self) {
        // What a failed test has stopped would not end.
        for server in ["IDEM_POSTGRES_PID", "IDEM_MYSQL_PID"] {
            let id = self.variable(server);
            let command =
                format!("kill -CONT {id} $(cat /proc/{id}/task/{id}/children) 2>/dev/null");
            let _ = Command::new("sh").arg("-c").arg(command).status();
        }
        let id = self.script.id();
        let command = format!("kill -TERM {id}");
        let _ = Command::new("sh").arg("-c").arg(command).status();
        let _ = self.script.wait();
    }
}

/// A stopped server still accepts connections, and never answers: the worst kind of outage.
async fn a_database_that_is_really_stopped_is_away(backend: Backend) {
    let servers = OwnServers::start();
    let (url, id) = match backend {
        Backend::Postgres | Backend::PostgresFewest => ("IDEM_POSTGRES_URL", "IDEM_POSTGRES_PID"),
        _ => ("IDEM_MYSQL_URL", "IDEM_MYSQL_PID"),
    };
    let url = servers.variable(url).parse().expect("a URL");
    let database = TestDatabase::create_on(backend, url).await;
    let proxy = Proxy::start(backend, database.server_address()).await;
    let app = Application::start(&Setting::of(backend, database.url())).await;
    let remote = Remote {
        app,
        proxy,
        database,
    };
    remote.assert_works().await;
    servers.signal("STOP", id);
    let refused = remote.assert_refuses(Duration::from_secs(30)).await;
    servers.signal("CONT", id);
    remote.assert_recovers(&refused).await;
}

macro_rules! outages {
    ($($module:ident: $backend:ident;)*) => {
        $(outages!(@cases $module $backend
            a_database_that_is_away_is_said_soon_and_its_return_is_enough,
            a_database_that_is_silent_is_said_soon_and_its_return_is_enough,
            a_lost_acknowledgement_is_found_out_and_answered,
            a_lost_commit_runs_again_or_is_told_to,
            an_outcome_that_cannot_be_read_asks_for_the_same_key,
            connections_that_break_under_a_handler_leave_one_effect,
            a_begin_that_is_cut_off_leaves_no_transaction_in_the_pool,
        );)*
    };
    (@cases $module:ident $backend:ident $($case:ident,)*) => {
        mod $module {
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $case() {
                    super::$case(super::Backend::$backend).await;
                }
            )*
        }
    };
}

outages! {
    postgres: Postgres;
    postgres_fewest: PostgresFewest;
    mysql: MySql;
}

macro_rules! planted {
    ($($name:ident: $plant:literal at $backend:ident, $case:ident;)*) => {
        mod planted {
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $name() {
                    let case = async || super::$case(super::Backend::$backend).await;
                    super::assert_turns_red($plant, stringify!($case), case).await;
                }
            )*
        }
    };
}

planted! {
    commit_swallowed_on_postgres: "CommitSwallowed" at Postgres, a_lost_commit_runs_again_or_is_told_to;
    commit_swallowed_on_mysql: "CommitSwallowed" at MySql, a_lost_commit_runs_again_or_is_told_to;
    commit_swallowed_on_postgres_fewest: "CommitSwallowed" at PostgresFewest,
        a_lost_commit_runs_again_or_is_told_to;
    begin_cancelled_on_postgres: "BeginCancelled" at Postgres,
        a_begin_that_is_cut_off_leaves_no_transaction_in_the_pool;
    begin_cancelled_on_postgres_fewest: "BeginCancelled" at PostgresFewest,
        a_begin_that_is_cut_off_leaves_no_transaction_in_the_pool;
    begin_cancelled_on_mysql: "BeginCancelled" at MySql,
        a_begin_that_is_cut_off_leaves_no_transaction_in_the_pool;
}

mod stopped {
    use super::Backend;

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    #[ignore = "starts servers of its own: tests/run --full"]
    async fn a_postgres_that_is_really_stopped_is_away() {
        super::a_database_that_is_really_stopped_is_away(Backend::Postgres).await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    #[ignore = "starts servers of its own: tests/run --full"]
    async fn a_postgres_that_is_really_stopped_is_away_in_fewest_messages() {
        super::a_database_that_is_really_stopped_is_away(Backend::PostgresFewest).await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    #[ignore = "starts servers of its own: tests/run --full"]
    async fn a_mariadb_that_is_really_stopped_is_away() {
        super::a_database_that_is_really_stopped_is_away(Backend::MySql).await;
    }
}
