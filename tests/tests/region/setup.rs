//! What these tests share: two regions, and where each account's home is said to be.

use std::collections::HashMap;
use std::io::Write;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use idem_runtime::outbox::BoxError;
use idem_runtime::problem::UriReference;
use idem_runtime::region::{Home, Region};
use idem_runtime::scope::ScopeKey;
use idem_runtime::{Idempotency, IdempotencyKey};
use idem_tests::http::{Answer, Client};
use idem_tests::servers::TestDatabase;
use sqlx::Pool;

use super::site::{Stage, Tested};

/// Makes each named case, an `async fn case<DB: Tested>()`, a test on every backend.
#[macro_export]
macro_rules! on_each_database {
    ($($case:ident),* $(,)?) => {
        mod postgres { $crate::on_each_database!(@ sqlx::Postgres; $($case),*); }
        mod sqlite { $crate::on_each_database!(@ sqlx::Sqlite; $($case),*); }
        mod mysql { $crate::on_each_database!(@ sqlx::MySql; $($case),*); }
    };
    (@ $db:ty; $($case:ident),*) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $case() {
                super::$case::<$db>().await;
            }
        )*
    };
}

/// How long a lookup may take.
pub(crate) const LIMIT: Duration = Duration::from_millis(700);

/// What the lookup says of an account.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Word {
    /// Its home, by name.
    At(&'static str),
    Moving,
    Fails,
    Panics,
    Hangs,
}

/// Where accounts are at home: one list for all regions.
#[derive(Clone, Debug, Default)]
pub(crate) struct Homes {
    words: Arc<Mutex<HashMap<ScopeKey, Word>>>,
    asked: Arc<AtomicUsize>,
}

impl Homes {
    pub(crate) fn say(&self, account: &str, word: Word) {
        let mut homes = self.words.lock().unwrap_or_else(PoisonError::into_inner);
        homes.insert(ScopeKey::of(account), word);
    }

    /// How often an account was looked up.
    pub(crate) fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }

    async fn look_up(self, scope: ScopeKey) -> Result<Home, BoxError> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        let word = {
            let homes = self.words.lock().unwrap_or_else(PoisonError::into_inner);
            homes.get(&scope).copied()
        };
        match word.ok_or("no such account")? {
            Word::At(name) => {
                let url = UriReference::parse(format!("https://{name}.example"))?;
                Ok(Region::new(name).url(url).into())
            }
            Word::Moving => Ok(Home::Moving),
            Word::Fails => Err("the directory is away".into()),
            Word::Panics => panic!("the lookup's own fault"),
            Word::Hangs => std::future::pending().await,
        }
    }
}

/// One region: a router that is served, with a database of its own.
pub(crate) struct Site<DB: Tested> {
    pub(crate) idempotency: Idempotency<DB>,
    pub(crate) client: Client,
    pub(crate) address: SocketAddr,
    pub(crate) database: TestDatabase,
    pub(crate) stage: Stage,
}

impl<DB: Tested> Site<DB> {
    async fn start(name: &str, homes: &Homes) -> Self {
        let database = TestDatabase::create(DB::BACKEND).await;
        let pool = Pool::<DB>::connect(database.url())
            .await
            .expect("the database is there");
        let homes = homes.clone();
        let idempotency = Idempotency::builder(pool)
            .home_region(name, move |scope| homes.clone().look_up(scope))
            .store_timeout(LIMIT)
            .retry_pause(Duration::from_millis(1))
            .build()
            .expect("the settings make sense");
        idempotency.migrate().await.expect("the schema is made");
        database
            .execute("CREATE TABLE orders (n INTEGER NOT NULL)")
            .await
            .expect("the table is made");
        let stage = Stage::default();
        let app = DB::router(idempotency.clone(), stage.clone());
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0")
            .await
            .expect("a free port");
        let address = listener.local_addr().expect("it is bound");
        tokio::spawn(async move { axum::serve(listener, app).await });
        Self {
            idempotency,
            client: Client::new(address),
            address,
            database,
            stage,
        }
    }

    /// Posts with this key and a body of so many bytes.
    pub(crate) async fn post(&self, path: &str, key: &str, bytes: usize) -> Answer {
        let call = self.client.post(path).key(key);
        call.body("text/plain", vec![b'x'; bytes]).send().await
    }

    pub(crate) async fn orders(&self) -> i64 {
        self.database.number("SELECT count(*) FROM orders").await
    }

    pub(crate) async fn records(&self) -> i64 {
        let keys = self.database.number("SELECT count(*) FROM idem_keys").await;
        let operations = "SELECT count(*) FROM idem_operations";
        keys + self.database.number(operations).await
    }

    /// Lets every operation be due.
    pub(crate) async fn make_due(&self) {
        let due = "UPDATE idem_operations SET due_at = created_at";
        self.database
            .execute(due)
            .await
            .expect("the table is there");
    }

    /// Asserts that nothing was written here, and no handler entered.
    pub(crate) async fn assert_untouched(&self) {
        assert_eq!(self.orders().await, 0);
        assert_eq!(self.records().await, 0);
        assert_eq!(self.stage.entered(), 0);
    }
}

pub(crate) struct World<DB: Tested> {
    pub(crate) homes: Homes,
    pub(crate) east: Site<DB>,
    pub(crate) west: Site<DB>,
}

impl<DB: Tested> World<DB> {
    /// Alice's home is east, and Bob's west.
    pub(crate) async fn new() -> Self {
        listen();
        let homes = Homes::default();
        homes.say("alice", Word::At("east"));
        homes.say("bob", Word::At("west"));
        Self {
            east: Site::start("east", &homes).await,
            west: Site::start("west", &homes).await,
            homes,
        }
    }
}

/// Everything that this process tells: requests run in tasks, on any thread.
static TOLD: Mutex<Vec<u8>> = Mutex::new(Vec::new());

struct Told;

impl Write for Told {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let mut told = TOLD.lock().unwrap_or_else(PoisonError::into_inner);
        told.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

fn listen() {
    static LISTENING: OnceLock<()> = OnceLock::new();
    LISTENING.get_or_init(|| {
        tracing_subscriber::fmt()
            .with_env_filter("idem=info")
            .with_ansi(false)
            .with_writer(|| Told)
            .init();
    });
}

/// The signals of a key's requests, in their order.
pub(crate) fn signals(key: &str) -> Vec<String> {
    let key = IdempotencyKey::parse(key.as_bytes(), true).expect("a valid key");
    let told = TOLD.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let told = String::from_utf8(told).expect("text");
    told.lines()
        .filter(|line| line.contains(&key.digest()))
        .filter_map(|line| line.split_once("signal=\"")?.1.split_once('"'))
        .map(|(signal, _)| signal.to_owned())
        .collect()
}
