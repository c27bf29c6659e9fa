//! A database for each test: SQLite in a temporary file, and the servers that `tests/run` names in the environment.

use std::time::Duration;

use sqlx::pool::{PoolConnection, PoolOptions};
use sqlx::{AssertSqlSafe, Database, Pool};
use uuid::Uuid;

use super::super::super::{Answer, Backend, Claim, Content};
use super::super::{Fence, OperationRow, OperationStore, Start, Started};
use crate::fingerprint::Fingerprint;
use crate::scope::{RecordId, ScopeKey};

/// Longer than any test.
pub(super) const LEASE: Duration = Duration::from_secs(3600);

/// What the tests ask of a database beyond the store.
pub(super) trait Engine: Backend {
    /// `None` where the server's variable is not set.
    fn create() -> impl Future<Output = Option<Place<Self>>> + Send;
    fn execute(
        connection: &mut Self::Connection,
        sql: String,
    ) -> impl Future<Output = sqlx::Result<u64>> + Send;
    fn number(
        connection: &mut Self::Connection,
        sql: &'static str,
    ) -> impl Future<Output = i64> + Send;
    /// A column of a time, so many seconds earlier.
    fn earlier(column: &str, seconds: u64) -> String;
}

/// A database of its own, gone when this is dropped.
pub(super) struct Place<DB: Database> {
    pub(super) pool: Pool<DB>,
    home: Home,
}

enum Home {
    #[cfg(feature = "sqlite")]
    File(std::path::PathBuf),
    /// How to drop it.
    #[cfg(any(feature = "postgres", feature = "mysql"))]
    Server(Option<Box<dyn FnOnce() + Send + Sync>>),
}

impl<DB: Engine> Place<DB> {
    async fn open(url: &str, home: Home) -> Place<DB> {
        let pool = PoolOptions::<DB>::new()
            .max_connections(12)
            .connect(url)
            .await
            .expect("the test's database can be reached");
        let place = Place { pool, home };
        DB::migrate(&mut *place.connection().await)
            .await
            .expect("the schema is made");
        place
    }

    pub(super) async fn connection(&self) -> PoolConnection<DB> {
        self.pool.acquire().await.expect("a connection")
    }

    pub(super) async fn number(&self, sql: &'static str) -> i64 {
        DB::number(&mut *self.connection().await, sql).await
    }

    pub(super) async fn execute(&self, sql: String) -> u64 {
        DB::execute(&mut *self.connection().await, sql)
            .await
            .expect("the test's statement is right")
    }

    pub(super) async fn row(&self, sample: &Sample) -> OperationRow {
        DB::inspect(&mut *self.connection().await, &sample.id)
            .await
            .expect("the operation is read")
            .expect("there is the operation")
    }

    /// Starts an operation that nobody has.
    pub(super) async fn begin(&self, sample: &Sample, lease: Duration) -> Fence {
        let started = sample
            .start::<DB>(&mut *self.connection().await, lease)
            .await;
        assert!(
            matches!(
                started,
                Started::Won {
                    took_over: false,
                    ..
                }
            ),
            "{started:?}"
        );
        sample.fence()
    }
}

impl<DB: Database> Drop for Place<DB> {
    fn drop(&mut self) {
        match &mut self.home {
            #[cfg(feature = "sqlite")]
            Home::File(path) => {
                for end in ["", "-wal", "-shm"] {
                    let _ = std::fs::remove_file(format!("{}{end}", path.display()));
                }
            }
            #[cfg(any(feature = "postgres", feature = "mysql"))]
            Home::Server(drop) => {
                if let Some(drop) = drop.take() {
                    let _ = std::thread::spawn(drop).join();
                }
            }
        }
    }
}

/// A key that somebody wants.
#[derive(Clone)]
pub(super) struct Sample {
    pub(super) id: RecordId,
    pub(super) scope: ScopeKey,
    pub(super) operation: &'static str,
    pub(super) owner: [u8; 16],
    fingerprint: Fingerprint,
}

pub(super) fn sample(number: u8) -> Sample {
    Sample {
        id: RecordId::from_slice(&[number; 32]).expect("32 bytes"),
        scope: ScopeKey::of("alice"),
        operation: "charges.create",
        owner: [number; 16],
        fingerprint: Fingerprint::from_stored(1, [7; 32]),
    }
}

impl Sample {
    pub(super) fn fence(&self) -> Fence {
        Fence {
            id: self.id,
            attempt: 1,
            owner: self.owner,
        }
    }

    pub(super) async fn start<DB: OperationStore>(
        &self,
        connection: &mut DB::Connection,
        lease: Duration,
    ) -> Started {
        let claim = Claim {
            id: &self.id,
            scope: &self.scope,
            operation: self.operation,
            fingerprint: &self.fingerprint,
            fingerprint_options: None,
            owner: self.owner,
            lock_namespace: Some(1),
        };
        let start = Start {
            operation_id: Uuid::from_bytes(self.owner),
            definition: 3,
            inputs: b"inputs",
            sealed: true,
            lease,
        };
        DB::start(connection, &claim, &start)
            .await
            .expect("the start is answered")
    }
}

pub(super) fn answer(ttl: Option<Duration>) -> Answer<'static> {
    Answer {
        status: 201,
        content: Some(Content {
            headers: b"headers",
            body: b"body",
            sealed: true,
        }),
        resources: Some("[]"),
        ttl,
        tombstone: Duration::from_secs(60),
    }
}

/// Sixteen bytes as SQL: a sample's owner.
pub(super) fn bytes<DB: Engine>(number: u8) -> String {
    let hex = format!("{number:02x}").repeat(16);
    if DB::NAME == "PostgreSQL" {
        format!("'\\x{hex}'::bytea")
    } else {
        format!("x'{hex}'")
    }
}

fn name() -> String {
    format!("idem_operations_{:032x}", fastrand::u128(..))
}

macro_rules! engine {
    ($database:ty, $connection:ty, $create:expr, $earlier:expr) => {
        impl Engine for $database {
            async fn create() -> Option<Place<Self>> {
                $create.await
            }

            async fn execute(connection: &mut $connection, sql: String) -> sqlx::Result<u64> {
                use sqlx::Executor as _;
                let done = connection
                    .execute(sqlx::raw_sql(AssertSqlSafe(sql)))
                    .await?;
                Ok(done.rows_affected())
            }

            async fn number(connection: &mut $connection, sql: &'static str) -> i64 {
                sqlx::query_scalar(sql)
                    .fetch_one(connection)
                    .await
                    .expect("one number")
            }

            fn earlier(column: &str, seconds: u64) -> String {
                let earlier: fn(&str, u64) -> String = $earlier;
                earlier(column, seconds)
            }
        }
    };
}

#[cfg(feature = "sqlite")]
engine!(
    sqlx::Sqlite,
    sqlx::SqliteConnection,
    async {
        let path = std::env::temp_dir().join(name());
        let url = format!("sqlite:{}?mode=rwc", path.display());
        let place = Place::<Self>::open(&url, Home::File(path)).await;
        place.execute("PRAGMA journal_mode = WAL".to_owned()).await;
        Some(place)
    },
    |column, seconds| format!("{column} - {seconds} * 1000")
);

#[cfg(feature = "postgres")]
engine!(
    sqlx::Postgres,
    sqlx::PgConnection,
    on_server("IDEM_POSTGRES_URL", " WITH (FORCE)"),
    |column, seconds| format!("{column} - interval '{seconds} seconds'")
);

#[cfg(feature = "mysql")]
engine!(
    sqlx::MySql,
    sqlx::MySqlConnection,
    on_server("IDEM_MYSQL_URL", ""),
    |column, seconds| format!("{column} - {seconds} * 1000")
);

/// A new database on the server that the variable names. A server that is named and can't be used fails the test.
#[cfg(any(feature = "postgres", feature = "mysql"))]
async fn on_server<DB: Engine>(variable: &str, force: &str) -> Option<Place<DB>> {
    let Ok(admin) = std::env::var(variable) else {
        eprintln!("{variable} is not set: nothing is tested; tests/run sets it");
        return None;
    };
    let name = name();
    let (server, _) = admin.rsplit_once('/').expect("the URL names a database");
    let url = format!("{server}/{name}");
    once::<DB>(&admin, format!("CREATE DATABASE {name}"))
        .await
        .unwrap_or_else(|error| panic!("no database on the server of {variable}: {error}"));
    let end = format!("DROP DATABASE IF EXISTS {name}{force}");
    let drop = move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("a runtime");
        if let Err(error) = runtime.block_on(once::<DB>(&admin, end)) {
            eprintln!("could not drop a test's database: {error}");
        }
    };
    Some(Place::open(&url, Home::Server(Some(Box::new(drop)))).await)
}

#[cfg(any(feature = "postgres", feature = "mysql"))]
async fn once<DB: Engine>(url: &str, sql: String) -> sqlx::Result<u64> {
    use sqlx::Connection;
    let mut connection = <DB::Connection as Connection>::connect(url).await?;
    let done = DB::execute(&mut connection, sql).await?;
    connection.close().await?;
    Ok(done)
}
