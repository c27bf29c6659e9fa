//! A shop: a database, the fake provider, and probes that charge at it.

use std::time::{Duration, Instant};

use idem_tests::application::{Application, Setting, key_digest};
use idem_tests::http::{Answer, Call, Client};
use idem_tests::process::Server;
use idem_tests::servers::{Backend, TestDatabase};
use serde_json::{Value, json};
use tempfile::TempDir;

/// What the provider is known to do, and does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Provider {
    /// It honours keys for a day.
    HonoursKeys,
    /// It does not, and can be asked.
    CanBeAsked,
    /// Neither.
    Neither,
}

impl Provider {
    /// What the probe is told of it.
    fn environment(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Provider::HonoursKeys => &[("KEY_LIFETIME", "24h")],
            Provider::CanBeAsked => &[
                ("RECONCILE", "on"),
                ("CALL_TIMEOUT", "1s"),
                ("IN_FLIGHT_LIMIT", "2s"),
            ],
            Provider::Neither => &[("CALL_TIMEOUT", "1s"), ("IN_FLIGHT_LIMIT", "2s")],
        }
    }
}

/// The shortest lease that the library takes with its default time-outs.
pub(crate) const LEASE: Duration = Duration::from_secs(3);

/// How long an operation may take to be recovered: its lease, a few attempts, and some for this machine.
pub(crate) const RECOVERY: Duration = Duration::from_secs(60);

pub(crate) struct Shop {
    pub(crate) provider: Server,
    pub(crate) at_provider: Client,
    pub(crate) database: TestDatabase,
    pub(crate) setting: Setting,
    pub(crate) directory: TempDir,
}

impl Shop {
    pub(crate) async fn open(backend: Backend, kind: Provider) -> Shop {
        Self::open_on(TestDatabase::create(backend).await, kind).await
    }

    pub(crate) async fn open_on(database: TestDatabase, kind: Provider) -> Shop {
        let backend = database.backend();
        let directory = TempDir::new().expect("a temporary directory");
        let ledger = directory.path().join("ledger").display().to_string();
        let provider = Server::start("provider", &[("LEDGER".to_owned(), ledger)]).await;
        let at_provider = Client::new(provider.address());
        if kind != Provider::HonoursKeys {
            let told = at_provider.post("/honour-keys/off").send().await;
            assert_eq!(told.status, 204, "{told:?}");
        }
        let mut setting = Setting::of(backend, database.url())
            .with("RECOVERY", "200ms")
            .with("LEASE", format!("{}ms", LEASE.as_millis()))
            .with("PROVIDER_URL", format!("http://{}", provider.address()));
        for (name, value) in kind.environment() {
            setting = setting.with(name, value);
        }
        Shop {
            provider,
            at_provider,
            database,
            setting,
            directory,
        }
    }

    /// With other variables for its probes.
    pub(crate) fn with(mut self, environment: &[(&str, &str)]) -> Shop {
        for (name, value) in environment {
            self.setting = self.setting.with(name, value);
        }
        self
    }

    /// A probe with a recovery worker.
    pub(crate) async fn probe(&self) -> Application {
        Application::start(&self.setting).await
    }

    /// A probe that serves, and recovers nothing.
    pub(crate) async fn without_recovery(&self, environment: &[(&str, &str)]) -> Application {
        let mut setting = self.setting.clone().with("RECOVERY", "off");
        for (name, value) in environment {
            setting = setting.with(name, value);
        }
        Application::start(&setting).await
    }

    /// Leaves an operation behind as a crash does at a point, by its name and number: `call.after#1`.
    pub(crate) async fn crash_at(&self, point: &str, key: &str) {
        self.crash_with(&[], point, key).await;
    }

    /// The same in a process with other variables.
    pub(crate) async fn crash_with(&self, environment: &[(&str, &str)], point: &str, key: &str) {
        let environment = [environment, &[("IDEM_CRASH_AT", point)]].concat();
        let mut app = self.without_recovery(&environment).await;
        let answer = charge(&app, key).try_send().await;
        assert!(answer.is_err(), "{point}: it answered {answer:?}");
        let status = app.server.ended(idem_tests::wait::PATIENCE).await;
        assert!(!status.success(), "{point}: {status}");
    }

    /// The rows of the first step and of the last that a key has, read past every probe.
    pub(crate) async fn rows(&self, key: &str) -> (i64, i64) {
        let digest = key_digest(key);
        let count = async |path| {
            let sql = format!(
                "SELECT COUNT(*) FROM effects WHERE key_digest = '{digest}' AND path = '{path}'"
            );
            self.database.number(&sql).await
        };
        (count("/charges").await, count("/charges/settled").await)
    }

    /// What the provider remembers of a key's order.
    pub(crate) async fn ledger(&self, key: &str) -> Ledger {
        let all = self.at_provider.get("/charges").send().await.json();
        let digest = key_digest(&order(key).to_string());
        let of = |list: &str, field: &str, value: &str| -> Vec<Value> {
            let list = all[list].as_array().expect("the provider lists");
            let matching = list.iter().filter(|entry| entry[field] == value);
            matching.cloned().collect()
        };
        let attempts = of("attempts", "body_digest", &digest);
        // One key for one order, and one order for one key: each attempt sends the same bytes.
        if let Some(first) = attempts.first() {
            let downstream = first["key"].as_str().expect("a key");
            assert_eq!(of("attempts", "key", downstream), attempts);
            let same = attempts.iter().all(|attempt| attempt["key"] == downstream);
            assert!(same, "several keys for one order: {attempts:?}");
        }
        Ledger {
            charges: of("charges", "body_digest", &digest).len(),
            attempts: attempts.len(),
        }
    }
}

/// What the provider remembers of one order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ledger {
    pub(crate) charges: usize,
    pub(crate) attempts: usize,
}

/// The body of the order of one key: no two have the same.
fn order(key: &str) -> Value {
    json!({ "amount": 1200, "currency": "EUR", "reference": key })
}

/// A charge as alice.
pub(crate) fn charge(app: &Application, key: &str) -> Call {
    app.client.post("/charges").key(key).json(&order(key))
}

/// Sends a call again and again, as a client does that waits for its answer, until it is neither in progress nor refused for
/// the moment.
pub(crate) async fn settled(call: &Call) -> Answer {
    let start = Instant::now();
    loop {
        let answer = call.send().await;
        let code = answer.code();
        let passing = matches!(
            code.as_deref(),
            Some("idempotency-key-in-progress" | "idempotency-store-unavailable")
        );
        if !passing {
            return answer;
        }
        assert!(
            start.elapsed() < RECOVERY,
            "it is never settled: {answer:?}"
        );
        let pause = if code.as_deref() == Some("idempotency-key-in-progress") {
            20
        } else {
            200
        };
        tokio::time::sleep(Duration::from_millis(pause)).await;
    }
}

/// What the route that a problem names says of its operation, to somebody.
pub(crate) async fn status(app: &Application, problem: &Answer, token: &str) -> Answer {
    let links = problem.lines("link");
    let links = links.iter().map(|link| String::from_utf8_lossy(link));
    let mut named = links.filter_map(|link| {
        let (target, relation) = link.split_once('>')?;
        let target = target.strip_prefix('<')?.to_owned();
        relation.contains("rel=\"status\"").then_some(target)
    });
    let path = named
        .next_back()
        .unwrap_or_else(|| panic!("no status link: {problem:?}"));
    app.client.get(&path).token(token).send().await
}

/// Makes each named case a test on every database: on PostgreSQL with its messages apart and fused.
macro_rules! on_every_database {
    ($($case:ident),* $(,)?) => {
        crate::setup::on_databases! { postgres: Postgres; [$($case),*] }
        crate::setup::on_databases! { postgres_fewest: PostgresFewest; [$($case),*] }
        crate::setup::on_databases! { sqlite: Sqlite; [$($case),*] }
        crate::setup::on_databases! { mysql: MySql; [$($case),*] }
    };
}

/// The same on one.
macro_rules! on_databases {
    ($module:ident: $backend:ident; [$($case:ident),* $(,)?]) => {
        mod $module {
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $case() {
                    super::$case(idem_tests::servers::Backend::$backend).await;
                }
            )*
        }
    };
}

pub(crate) use on_databases;
pub(crate) use on_every_database;
