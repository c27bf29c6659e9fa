//! The other transaction of a deadlock.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use futures_util::future::BoxFuture;
use idem_runtime::EffectFree;
use idem_tests::wait::PATIENCE;
use sqlx::{AssertSqlSafe, Connection, Database, Executor, MySql, Postgres};

/// What differs between the servers.
pub(crate) trait Server: Database {
    /// Makes the other transaction the one that survives: InnoDB rolls back the lighter one, PostgreSQL the one that looks
    /// first.
    const SURVIVE: &'static str;

    /// The connection's own number.
    const NUMBER: &'static str;

    /// Takes a minute.
    const SLEEP: &'static str;

    /// Fails as the victim of a deadlock, and rolls nothing back.
    const VICTIM: &'static str;

    /// How many connections of a number wait for the first account. On MariaDB that they are about to is enough: it looks for a
    /// deadlock whenever one waits.
    fn waiting(number: i64) -> String;

    /// Executes one statement, or several.
    fn execute(
        connection: &mut Self::Connection,
        statement: String,
    ) -> BoxFuture<'_, sqlx::Result<()>>;

    /// The one number that a query answers.
    fn number(connection: &mut Self::Connection, query: String)
    -> BoxFuture<'_, sqlx::Result<i64>>;
}

macro_rules! server {
    ($db:ty, $survive:literal, $number:literal, $sleep:literal, $victim:literal, $waiting:literal) => {
        impl Server for $db {
            const SURVIVE: &'static str = $survive;
            const NUMBER: &'static str = $number;
            const SLEEP: &'static str = $sleep;
            const VICTIM: &'static str = $victim;

            fn waiting(number: i64) -> String {
                format!($waiting, number)
            }

            fn execute(
                connection: &mut Self::Connection,
                statement: String,
            ) -> BoxFuture<'_, sqlx::Result<()>> {
                Box::pin(async move {
                    let statement = sqlx::raw_sql(AssertSqlSafe(statement));
                    connection.execute(statement).await.map(drop)
                })
            }

            fn number(
                connection: &mut Self::Connection,
                query: String,
            ) -> BoxFuture<'_, sqlx::Result<i64>> {
                Box::pin(sqlx::query_scalar(AssertSqlSafe(query)).fetch_one(connection))
            }
        }
    };
}

server!(
    Postgres,
    "BEGIN; SET LOCAL deadlock_timeout = '10min'",
    "SELECT pg_backend_pid()::bigint",
    "SELECT pg_sleep(60)",
    "DO $$ BEGIN RAISE EXCEPTION USING ERRCODE = '40P01'; END $$",
    "SELECT count(*) FROM pg_stat_activity WHERE pid = {} AND wait_event_type = 'Lock'"
);
server!(
    MySql,
    "START TRANSACTION; INSERT INTO ballast \
      WITH RECURSIVE s (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM s WHERE n < 500) SELECT n FROM s",
    "SELECT CAST(CONNECTION_ID() AS SIGNED)",
    "DO SLEEP(60)",
    "SIGNAL SQLSTATE '40001' SET MYSQL_ERRNO = 1213",
    "SELECT count(*) FROM information_schema.processlist \
      WHERE id = {} AND info LIKE 'UPDATE accounts%'"
);

/// Meets the first run of a handler half way, and lets all others pass.
#[derive(Clone, EffectFree)]
pub(crate) struct Rival {
    #[effect_free(trust = "counts what a test looks at")]
    runs: Arc<AtomicUsize>,
    #[effect_free(trust = "the database, for a connection that no check knows")]
    url: Arc<str>,
    /// What the rival locks, and the handler wants next.
    #[effect_free(trust = "what a test sets")]
    holds: Arc<Mutex<&'static str>>,
}

impl Rival {
    pub(crate) fn new(url: &str) -> Rival {
        Rival {
            runs: Arc::default(),
            url: url.into(),
            holds: Arc::new(Mutex::new("UPDATE accounts SET n = n + 1 WHERE id = 2")),
        }
    }

    /// Locks something else than the second account.
    pub(crate) fn holds(&self, statement: &'static str) {
        *self.holds.lock().expect("no holder panics") = statement;
    }

    /// How often a handler came here.
    pub(crate) fn runs(&self) -> usize {
        self.runs.load(Ordering::SeqCst)
    }

    /// Counts a run, and tells whether it is the first.
    pub(crate) fn enter(&self) -> bool {
        self.runs.fetch_add(1, Ordering::SeqCst) == 0
    }

    /// The handler has the first account: at its first run, from here on the rival has the second and waits for the first.
    pub(crate) fn cross<DB: Server>(&self) -> BoxFuture<'static, ()> {
        let first = self.enter();
        let holds = *self.holds.lock().expect("no holder panics");
        let url = self.url.clone();
        Box::pin(async move {
            if first {
                meet::<DB>(&url, holds).await;
            }
        })
    }
}

async fn meet<DB: Server>(url: &str, holds: &'static str) {
    let connect = || DB::Connection::connect(url);
    let mut rival = connect().await.expect("the database is there");
    let mut other = connect().await.expect("the database is there");
    let number = DB::number(&mut rival, DB::NUMBER.to_owned()).await;
    let waiting = DB::waiting(number.expect("a connection has a number"));
    let begin = format!("{}; {holds}", DB::SURVIVE);
    let begun = DB::execute(&mut rival, begin).await;
    begun.expect("nobody else has it");
    tokio::spawn(async move {
        let crossing = "UPDATE accounts SET n = n + 1 WHERE id = 1".to_owned();
        let crossed = DB::execute(&mut rival, crossing).await;
        crossed.expect("the handler's transaction is the victim");
        let ended = DB::execute(&mut rival, "ROLLBACK".to_owned()).await;
        ended.expect("nothing is in the way");
    });
    // No `until`: its condition is not known to be `Send` in a handler's future.
    let start = Instant::now();
    // MySQL can't show its list while a statement of anybody's has bytes in it that are no text.
    while !matches!(DB::number(&mut other, waiting.clone()).await, Ok(1)) {
        assert!(start.elapsed() < PATIENCE, "the rival never waits");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
