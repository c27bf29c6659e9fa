//! PgBouncer, which lends the server's connections a transaction at a time.

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use idem_runtime::{Idempotency, StartupError};
use idem_tests::application::{Application, Setting, key_digest};
use idem_tests::http::{Answer, fresh_key};
use idem_tests::pooler::Pooler;
use idem_tests::servers::{Backend, TestDatabase};
use idem_tests::wait::PATIENCE;
use serde_json::json;
use sqlx::postgres::{PgConnection, PgPoolOptions};
use sqlx::{Connection, Postgres};

/// A database with the framework's tables, and a pooler in front of its server.
struct Pooled {
    pooler: Pooler,
    database: TestDatabase,
}

impl Pooled {
    async fn start(settings: &[&str]) -> Pooled {
        let database = TestDatabase::create(Backend::Postgres).await;
        let direct = idempotency(database.url(), false).await;
        direct.migrate().await.expect("the tables are made");
        Pooled {
            pooler: Pooler::start(database.server_address(), settings).await,
            database,
        }
    }

    fn url(&self) -> String {
        self.database.url_through(self.pooler.address())
    }

    async fn connect(&self) -> PgConnection {
        PgConnection::connect(&self.url())
            .await
            .expect("the pooler lets clients in")
    }

    async fn probe(&self, environment: &[(&str, &str)]) -> Application {
        let mut setting =
            Setting::of(Backend::Postgres, &self.url()).with("TRANSACTION_POOLING", "on");
        for (name, value) in environment {
            setting = setting.with(name, value);
        }
        Application::start(&setting).await
    }
}

async fn idempotency(url: &str, says_pooled: bool) -> Idempotency<Postgres> {
    let pool = idem_runtime::guard(PgPoolOptions::new().max_connections(2))
        .connect(url)
        .await
        .expect("the database is reachable");
    Idempotency::builder(pool)
        .transaction_pooling(says_pooled)
        .build()
        .expect("the settings are right")
}

/// A neighbour that knows nothing of the pooler: sqlx's own way, with named statements that it leaves behind. Whatever it is told, it
/// goes on until it is dropped.
async fn disturb(url: String) {
    loop {
        if let Ok(mut connection) = PgConnection::connect(&url).await {
            for number in 0..20_i32 {
                let sum = sqlx::query_scalar::<_, i32>("SELECT $1 + 1").bind(number);
                let _ = sum.fetch_one(&mut connection).await;
                let text = sqlx::query_scalar::<_, String>("SELECT $1::text || 'x'");
                let _ = text.bind("y").fetch_one(&mut connection).await;
            }
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// What makes the other tests worth something: this is how sqlx fares here by itself.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "starts PgBouncer: tests/run pgbouncer, or --full"]
async fn statements_of_sqlx_fail_or_are_answered_with_anothers_rows() {
    let pooled = Pooled::start(&["default_pool_size=2"]).await;
    let (mut first, mut second) = (pooled.connect().await, pooled.connect().await);
    let mut failed = 0;
    for connection in [&mut first, &mut second] {
        let named = sqlx::query_scalar::<_, i32>("SELECT 1 + $1").bind(1);
        failed += usize::from(named.fetch_one(connection).await.is_err());
    }
    assert!(failed > 0, "a name was there already");

    let clients = (0..8_i32).map(async |client| {
        let mut connection = pooled.connect().await;
        let (mut wrong, start) = (0, Instant::now());
        while wrong == 0 && start.elapsed() < PATIENCE {
            let text = format!("SELECT {client} + $1 * 0");
            let unnamed = sqlx::query_scalar::<_, i32>(sqlx::AssertSqlSafe(text))
                .bind(1)
                .persistent(false);
            if let Ok(answer) = unnamed.fetch_one(&mut connection).await {
                wrong += usize::from(answer != client);
            }
        }
        wrong
    });
    let wrong: usize = join_all(clients).await.into_iter().sum();
    assert!(wrong > 0, "an answer was another client's");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "starts PgBouncer: tests/run pgbouncer, or --full"]
async fn a_service_that_says_nothing_of_its_pooler_does_not_start() {
    for settings in [&[][..], &["server_round_robin=0"], &["default_pool_size=1"]] {
        let pooled = Pooled::start(settings).await;
        let refused = idempotency(&pooled.url(), false).await.check().await;
        assert!(
            matches!(refused, Err(StartupError::TransactionPooling)),
            "{settings:?}: {refused:?}"
        );
        let said = format!("{refused:?}");
        assert!(said.contains(".transaction_pooling(true)"), "{said}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "starts PgBouncer: tests/run pgbouncer, or --full"]
async fn a_pooler_is_found_while_others_use_it() {
    let pooled = Pooled::start(&[]).await;
    let neighbours: Vec<_> = (0..6)
        .map(|_| tokio::spawn(disturb(pooled.url())))
        .collect();
    for round in 0..20 {
        let refused = idempotency(&pooled.url(), false).await.check().await;
        assert!(
            matches!(refused, Err(StartupError::TransactionPooling)),
            "round {round}: {refused:?}"
        );
    }
    for neighbour in neighbours {
        neighbour.abort();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "starts PgBouncer: tests/run pgbouncer, or --full"]
async fn a_service_that_says_so_starts_with_the_pooler_and_without() {
    let pooled = Pooled::start(&[]).await;
    let urls = [pooled.url(), pooled.database.url().to_owned()];
    for url in &urls {
        let idempotency = idempotency(url, true).await;
        for _ in 0..3 {
            idempotency.migrate().await.expect("nothing is to do");
            idempotency.check().await.expect("it may start");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "starts PgBouncer: tests/run pgbouncer, or --full"]
async fn a_pooler_of_sessions_needs_nothing_said() {
    let pooled = Pooled::start(&["pool_mode=session"]).await;
    for url in [&pooled.url(), pooled.database.url()] {
        let checked = idempotency(url, false).await.check().await;
        assert!(checked.is_ok(), "{checked:?}");
    }
}

/// Two processes, three connections of the server's, and neighbours that leave statements behind.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "starts PgBouncer: tests/run pgbouncer, or --full"]
async fn through_few_connections_each_key_has_one_effect_and_its_own_answer() {
    let pooled = Pooled::start(&["default_pool_size=3"]).await;
    let probes = [
        pooled.probe(&[("POOL_SIZE", "8")]).await,
        pooled.probe(&[("POOL_SIZE", "8")]).await,
    ];
    let neighbours: Vec<_> = (0..2)
        .map(|_| tokio::spawn(disturb(pooled.url())))
        .collect();
    let mut keys = Vec::new();
    for round in 0..25 {
        let batch: Vec<String> = (0..8).map(|_| fresh_key()).collect();
        let answers = batch.iter().enumerate().map(|(number, key)| {
            let body = json!({"amount": round * 8 + number, "currency": "EUR"});
            let calls = [0, 1, 0, 1].map(|probe: usize| {
                let path = ["/effects", "/stored-errors"][number % 2];
                probes[probe].with_key(path, key).json(&body)
            });
            async move { join_all(calls.iter().map(|call| call.send())).await }
        });
        for (answers, key) in join_all(answers).await.iter().zip(&batch) {
            let accepted: Vec<&Answer> = answers.iter().filter(|one| one.status == 201).collect();
            assert_eq!(accepted.len(), answers.len(), "round {round}: {answers:?}");
            let firsts = accepted.iter().filter(|one| !one.is_replay()).count();
            assert_eq!(firsts, 1, "round {round}: {answers:?}");
            let same = accepted.iter().all(|one| one.body == accepted[0].body);
            assert!(same, "round {round}: {answers:?}");
            let counted = format!(
                "SELECT COUNT(*) FROM effects WHERE key_digest = '{}'",
                key_digest(key)
            );
            assert_eq!(pooled.database.number(&counted).await, 1, "round {round}");
        }
        keys.extend(batch);
    }
    for neighbour in neighbours {
        neighbour.abort();
    }
    let all = pooled.database.number("SELECT COUNT(*) FROM effects").await;
    assert_eq!(all, i64::try_from(keys.len()).expect("few keys"));
}

/// Whatever becomes of a request, its server's connection is handed on as it came.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "starts PgBouncer: tests/run pgbouncer, or --full"]
async fn no_request_leaves_anything_in_a_session() {
    let pooled = Pooled::start(&["default_pool_size=4"]).await;
    let app = pooled.probe(&[]).await;
    let asked = [
        ("status", "201"),
        ("err", "402"),
        ("err", "503"),
        ("fault", "panic"),
        ("fault", "swallow"),
        ("fault", "deferred"),
        ("fault", "serialization"),
        ("fault", "serialization-always"),
    ];
    for path in ["/effects", "/stored-errors"] {
        let calls = asked.map(|(name, value)| app.effect(path).asking(name, value));
        for answer in join_all(calls.iter().map(|call| call.send())).await {
            assert!(answer.status >= 201, "{answer:?}");
        }
        for call in &calls {
            // A replay, or another run.
            call.send().await;
        }
    }
    let slow = app.effect("/timeout").asking("fault", "slow-statement");
    assert!(slow.send().await.status >= 500, "it runs out of time");
    // All four connections at once, so that each is looked at.
    let mut clients = Vec::new();
    for _ in 0..4 {
        let mut client = pooled.connect().await;
        sqlx::raw_sql("BEGIN")
            .execute(&mut client)
            .await
            .expect("the pooler lends a connection");
        clients.push(client);
    }
    for client in &mut clients {
        let left = "SELECT (SELECT count(*) FROM pg_prepared_statements)::text \
            || ',' || (SELECT count(*) FROM pg_listening_channels())::text \
            || ',' || coalesce(nullif(current_setting('idem.claim', true), ''), 'none')";
        let left: String = sqlx::Row::get(
            &sqlx::raw_sql(left)
                .fetch_one(&mut *client)
                .await
                .expect("the server answers"),
            0,
        );
        assert_eq!(left, "0,0,none", "statements, channels, a setting");
    }
    drop(clients);
    let locks = "SELECT count(*) FROM pg_locks JOIN pg_database d ON d.oid = database \
        WHERE locktype = 'advisory' AND datname = current_database()";
    assert_eq!(pooled.database.number(locks).await, 0, "advisory locks");
}
