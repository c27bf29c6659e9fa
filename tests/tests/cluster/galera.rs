//! A Galera cluster of three nodes, each of which takes writes.

use std::time::Instant;

use futures_util::future::join_all;
use idem_tests::application::{Application, Setting};
use idem_tests::galera::Galera;
use idem_tests::http::fresh_key;
use idem_tests::proxy::Proxy;
use idem_tests::servers::{Backend, TestDatabase};
use idem_tests::wait::{PATIENCE, until};
use sqlx::{AssertSqlSafe, Connection, MySqlConnection};

use crate::load::Load;

/// A database on all nodes.
struct Set {
    database: TestDatabase,
    cluster: Galera,
}

impl Set {
    async fn start() -> Set {
        let cluster = Galera::start().await;
        let admin = cluster.url(0).parse().expect("a URL");
        let database = TestDatabase::create_on(Backend::MySql, admin).await;
        let set = Set { database, cluster };
        for node in 0..3 {
            until("a node has the database", PATIENCE, async || {
                MySqlConnection::connect(&set.url(node)).await.is_ok()
            })
            .await;
        }
        set
    }

    fn url(&self, node: usize) -> String {
        self.database.url_through(self.cluster.address(node))
    }

    /// A probe on a node.
    async fn probe(&self, node: usize) -> Application {
        Application::start(&Setting::of(Backend::MySql, &self.url(node))).await
    }

    /// What a query answers on a node, which first has what all others had committed.
    async fn ask<T>(&self, node: usize, sql: &str) -> Vec<T>
    where
        T: Send + Unpin + sqlx::Type<sqlx::MySql> + for<'r> sqlx::Decode<'r, sqlx::MySql>,
    {
        let mut connection = MySqlConnection::connect(&self.url(node))
            .await
            .expect("the node lets in");
        let sql = format!("SET STATEMENT wsrep_sync_wait = 7 FOR {sql}");
        sqlx::query_scalar(AssertSqlSafe(sql))
            .fetch_all(&mut connection)
            .await
            .expect("the node answers")
    }

    /// The digests of the keys of all effects.
    async fn effects(&self, node: usize) -> Vec<String> {
        self.ask(node, "SELECT key_digest FROM effects").await
    }
}

/// How often handlers were entered, for any key.
async fn entered(probes: &[Application]) -> u64 {
    let counts = probes.iter().map(async |probe| {
        let answer = probe.client.get("/entered").send().await;
        answer.json()["count"].as_u64().expect("the probe counts")
    });
    join_all(counts).await.into_iter().sum()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "starts Galera: tests/run galera, or --full"]
async fn one_key_on_two_nodes_at_once_has_one_effect_and_one_answer() {
    const ROUNDS: usize = 300;
    let set = Set::start().await;
    let probes = [set.probe(0).await, set.probe(1).await, set.probe(2).await];
    for round in 0..ROUNDS {
        let key = fresh_key();
        let calls = [0, 1].map(|next| probes[(round + next) % 3].with_key("/effects", &key));
        let answers = join_all(calls.iter().map(|call| call.send())).await;
        for answer in &answers {
            assert_eq!(answer.status, 201, "round {round}: {answers:?}");
            assert_eq!(answer.body, answers[0].body, "round {round}: {answers:?}");
        }
        let firsts = answers.iter().filter(|answer| !answer.is_replay()).count();
        assert_eq!(firsts, 1, "round {round}: {answers:?}");
    }
    let effects = set.effects(2).await.len();
    assert_eq!(effects, ROUNDS, "one effect each round");
    let conflicts = entered(&probes).await - u64::try_from(ROUNDS).expect("few rounds");
    eprintln!(
        "{ROUNDS} rounds of one key on two nodes: {conflicts} handlers ran and lost at the commit"
    );
    assert!(conflicts > 0, "some ran on both nodes");
}

/// A trigger has each effect count in one row.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "starts Galera: tests/run galera, or --full"]
async fn a_conflict_at_the_commit_runs_the_handler_again() {
    const ROUNDS: usize = 60;
    let set = Set::start().await;
    let probes = [set.probe(0).await, set.probe(1).await, set.probe(2).await];
    for statement in [
        "CREATE TABLE hot (id INT PRIMARY KEY, n INT NOT NULL)",
        "INSERT INTO hot VALUES (1, 0)",
        "CREATE TRIGGER counted AFTER INSERT ON effects FOR EACH ROW UPDATE hot SET n = n + 1",
    ] {
        set.database.execute(statement).await.expect("it is made");
    }
    let mut tries = 0;
    for _ in 0..ROUNDS {
        let calls = probes.iter().map(|probe| probe.effect("/effects"));
        let tried = calls.map(async |call| {
            let mut tries = 1;
            loop {
                let answer = call.send().await;
                match answer.status {
                    201 => return tries,
                    // Five runs in a row lost: then the client is asked to try again.
                    503 => tries += 1,
                    _ => panic!("{answer:?}"),
                }
            }
        });
        tries += join_all(tried).await.into_iter().sum::<usize>();
    }
    let keys = ROUNDS * 3;
    let counted: Vec<i32> = set.ask(1, "SELECT n FROM hot").await;
    assert_eq!(set.effects(1).await.len(), keys, "one effect a key");
    assert_eq!(counted, [i32::try_from(keys).expect("few keys")]);
    let runs = entered(&probes).await;
    eprintln!("{keys} keys that write one row on three nodes: {runs} runs, {tries} requests");
    assert!(runs > u64::try_from(keys).expect("few keys"), "some lost");
}

/// A large transaction keeps the other node busy, which then has not seen what was committed after it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "starts Galera: tests/run galera, or --full"]
async fn what_another_node_has_committed_is_known_though_it_is_not_applied_here() {
    let set = Set::start().await;
    let (one, other) = (set.probe(0).await, set.probe(1).await);
    let table = "CREATE TABLE bulk (n INT AUTO_INCREMENT PRIMARY KEY, text VARCHAR(200))";
    set.database.execute(table).await.expect("it is made");
    let mut ran = 0;
    for round in 0..8 {
        let bulk = "INSERT INTO bulk (text) SELECT REPEAT('x', 200) FROM seq_1_to_40000";
        set.database.execute(bulk).await.expect("it is written");
        let key = fresh_key();
        let first = one.accepted(&one.with_key("/effects", &key), 201).await;
        // Were it a first use, this would be its answer.
        let failing = other.with_key("/effects", &key).asking("err", 402);
        let mut again = failing.send().await;
        while again.status == 503 {
            again = failing.send().await;
        }
        assert!(again.is_replay(), "round {round}: {again:?}");
        assert_eq!(again.body, first.body, "round {round}");
        ran += other.entered(&key).await;
    }
    eprintln!(
        "8 keys, each used on another node before it knew of them: {ran} handlers ran and were undone"
    );
    assert!(ran > 0, "the other node was behind");

    // A first use waits for nobody.
    let waits = "SELECT CAST(VARIABLE_VALUE AS SIGNED) FROM information_schema.GLOBAL_STATUS \
        WHERE VARIABLE_NAME = 'wsrep_causal_reads'";
    // The question itself waits.
    let mut counts = Vec::new();
    for effects in [0, 0, 50] {
        for _ in 0..effects {
            one.accepted(&one.effect("/effects"), 201).await;
        }
        counts.extend(set.ask::<i64>(0, waits).await);
    }
    assert_eq!(counts[2] - counts[1], counts[1] - counts[0], "{counts:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "starts Galera: tests/run galera, or --full"]
async fn a_node_killed_under_load_loses_nothing_and_doubles_nothing() {
    let mut set = Set::start().await;
    let mut nodes = [0, 1];
    let mut proxies = Vec::new();
    let mut probes = Vec::new();
    for node in nodes {
        let proxy = Proxy::start(Backend::MySql, set.cluster.address(node)).await;
        let url = set.database.url_through(proxy.address());
        probes.push(Application::start(&Setting::of(Backend::MySql, &url)).await);
        proxies.push(proxy);
    }
    let both = [&probes[0], &probes[1]];
    let load = Load::start(&both, 6);
    let mut pauses = Vec::new();
    for round in 0..3 {
        load.goes_on(100).await;
        let (victim, spare) = (nodes[round % 2], 3 - nodes[0] - nodes[1]);
        let killed = Instant::now();
        set.cluster.kill(victim).await;
        proxies[round % 2].fail_over(set.cluster.address(spare));
        nodes[round % 2] = spare;
        load.goes_on(100).await;
        pauses.push((killed, Instant::now()));
        set.cluster.join(victim).await;
    }
    let report = load.stop().await;
    for node in 0..3 {
        report.assert_effects(&set.effects(node).await);
    }
    report.assert_replays(&both).await;
    eprintln!(
        "3 nodes killed under load: {} keys, {} tries that were not answered with success, none lost, none doubled",
        report.keys(),
        report.retries(),
    );
    for (killed, over) in pauses {
        let pause = report.pause(killed, over).as_millis();
        eprintln!("  nobody was acknowledged for {pause} ms");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "starts Galera: tests/run galera, or --full"]
async fn a_node_that_is_left_without_a_majority_refuses() {
    let mut set = Set::start().await;
    let app = set.probe(0).await;
    let load = Load::start(&[&app], 4);
    load.goes_on(50).await;
    set.cluster.kill(1).await;
    set.cluster.kill(2).await;
    until("the node knows that it is alone", PATIENCE, async || {
        !set.cluster.serves(0).await
    })
    .await;
    let keys: Vec<String> = (0..8).map(|_| fresh_key()).collect();
    for key in &keys {
        let refused = app.with_key("/effects", key).send().await;
        refused.assert_problem(503, "idempotency-store-unavailable");
        assert!(refused.header("retry-after").is_some(), "{refused:?}");
        assert_eq!(app.entered(key).await, 0, "no handler is entered");
    }
    // What an operator does who knows that the others are gone.
    let mut admin = MySqlConnection::connect(&set.cluster.url(0))
        .await
        .expect("the node lets in");
    sqlx::raw_sql("SET GLOBAL wsrep_provider_options = 'pc.bootstrap=YES'")
        .execute(&mut admin)
        .await
        .expect("the node is told");
    until("the node serves", PATIENCE, async || {
        set.cluster.serves(0).await
    })
    .await;
    load.goes_on(50).await;
    load.stop().await.assert_effects(&set.effects(0).await);
    for key in &keys {
        let retried = app.with_key("/effects", key).send().await;
        assert_eq!((retried.status, retried.is_replay()), (201, false));
    }
}
