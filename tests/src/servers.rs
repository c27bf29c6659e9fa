//! A database of its own for each test, on the servers that `tests/run` started.

use std::net::SocketAddr;
use std::time::Duration;

use idem_runtime::RoundTrips;
use reqwest::Url;
use sqlx::{AssertSqlSafe, Connection, Executor, MySqlConnection, PgConnection, SqliteConnection};
use tempfile::TempDir;
use uuid::Uuid;

use crate::deployment;
use crate::wait::{PATIENCE, until};

/// The databases that the library runs on, and how it talks to them where it has two ways.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backend {
    /// PostgreSQL, at `IDEM_POSTGRES_URL`. Each statement of the library's is a message of its own.
    Postgres,
    /// The same server. The library's statements are sent in as few messages as can be.
    PostgresFewest,
    /// SQLite, in a temporary file.
    Sqlite,
    /// MariaDB, or MySQL, at `IDEM_MYSQL_URL`.
    MySql,
}

impl Backend {
    /// Every database.
    pub fn all() -> [Backend; 3] {
        [Backend::Postgres, Backend::Sqlite, Backend::MySql]
    }

    /// Whether a server of its own, reached over TCP, runs this database.
    pub fn is_server(self) -> bool {
        self != Backend::Sqlite
    }

    /// Whether this is PostgreSQL.
    pub fn is_postgres(self) -> bool {
        matches!(self, Backend::Postgres | Backend::PostgresFewest)
    }

    /// What the library is told. Not `Auto`, which asks how busy this machine is.
    pub fn round_trips(self) -> RoundTrips {
        match self {
            Backend::PostgresFewest => RoundTrips::Fewest,
            _ => RoundTrips::Separate,
        }
    }

    /// The server that `tests/run` started.
    pub(crate) fn server_url(self) -> Url {
        let name = match self {
            Backend::Postgres | Backend::PostgresFewest => "IDEM_POSTGRES_URL",
            Backend::MySql => "IDEM_MYSQL_URL",
            Backend::Sqlite => unreachable!("SQLite has no server"),
        };
        let url = std::env::var(name).unwrap_or_else(|_| {
            panic!("{name} is not set: run the tests with tests/run, or set it to a server where databases may be created")
        });
        Url::parse(&url).unwrap_or_else(|error| panic!("{name} is no URL: {error}"))
    }
}

/// A fresh, empty database, dropped with this value.
#[derive(Debug)]
pub struct TestDatabase {
    backend: Backend,
    url: Url,
    place: Place,
}

#[derive(Debug)]
enum Place {
    Directory(#[allow(dead_code, reason = "removed when dropped")] TempDir),
    Server { admin: Url, name: String },
}

impl TestDatabase {
    /// Creates one on the backend's own server.
    pub async fn create(backend: Backend) -> TestDatabase {
        if backend.is_server() {
            Self::create_on(backend, backend.server_url()).await
        } else {
            let directory = TempDir::new().expect("a temporary directory");
            let url = format!(
                "sqlite:{}?mode=rwc",
                directory.path().join("test.db").display()
            );
            TestDatabase {
                backend,
                url: Url::parse(&url).expect("a file URL"),
                place: Place::Directory(directory),
            }
        }
    }

    /// Creates one on the server at `admin`, the URL of a database that exists there.
    pub async fn create_on(backend: Backend, admin: Url) -> TestDatabase {
        let name = format!("idem_{}", Uuid::new_v4().simple());
        execute(backend, &admin, &format!("CREATE DATABASE {name}"))
            .await
            .unwrap_or_else(|error| panic!("could not create a {backend:?} database: {error}"));
        let mut url = admin.clone();
        url.set_path(&name);
        for node in deployment::nodes(backend, &url) {
            let there = deployment::at(url.as_str(), node);
            until("a node has the database", PATIENCE, async || {
                MySqlConnection::connect(&there).await.is_ok()
            })
            .await;
        }
        TestDatabase {
            backend,
            url,
            place: Place::Server { admin, name },
        }
    }

    /// Whether its server is a MariaDB, and not a MySQL, which the same backend talks to.
    pub async fn is_mariadb(&self) -> bool {
        if self.backend != Backend::MySql {
            return false;
        }
        let mut connection = MySqlConnection::connect(self.url())
            .await
            .expect("the server is there");
        let version: String = sqlx::query_scalar("SELECT VERSION()")
            .fetch_one(&mut connection)
            .await
            .expect("the server tells its version");
        version.contains("MariaDB")
    }

    /// Which database this is.
    pub fn backend(&self) -> Backend {
        self.backend
    }

    /// Its sqlx URL.
    pub fn url(&self) -> &str {
        self.url.as_str()
    }

    /// Where its server listens.
    ///
    /// # Panics
    ///
    /// On SQLite, which has none.
    pub fn server_address(&self) -> SocketAddr {
        let host = self.url.host_str().expect("a server's URL has a host");
        let port = self.url.port().expect("a test server's URL has a port");
        format!("{host}:{port}")
            .parse()
            .expect("test servers are named by address")
    }

    /// How often transactions commit in a run, once nobody is connected any more. The least of three runs, since the
    /// server's own transactions (autovacuum's) count too.
    ///
    /// # Panics
    ///
    /// On other databases than PostgreSQL, which count this for a whole server or not at all.
    pub async fn commits_of(&self, run: impl AsyncFn()) -> i64 {
        let mut least = i64::MAX;
        for _ in 0..3 {
            let before = self.commits().await;
            run().await;
            least = least.min(self.commits().await - before);
        }
        least
    }

    async fn commits(&self) -> i64 {
        let Place::Server { admin, name } = &self.place else {
            panic!("SQLite does not count commits");
        };
        let mut connection = PgConnection::connect(admin.as_str())
            .await
            .expect("the server is there");
        until("the connections are gone", PATIENCE, async || {
            let connected: i64 =
                sqlx::query_scalar("SELECT count(*) FROM pg_stat_activity WHERE datname = $1")
                    .bind(name)
                    .fetch_one(&mut connection)
                    .await
                    .expect("the server answers");
            connected == 0
        })
        .await;
        sqlx::query_scalar("SELECT xact_commit FROM pg_stat_database WHERE datname = $1")
            .bind(name)
            .fetch_one(&mut connection)
            .await
            .expect("the server answers")
    }

    /// Its URL with another address in place of the server's, as of a proxy in front of it.
    pub fn url_through(&self, address: SocketAddr) -> String {
        crate::deployment::at(self.url(), address)
    }

    /// Executes one statement on a connection of its own.
    ///
    /// # Errors
    ///
    /// Whatever the database says.
    pub async fn execute(&self, sql: &str) -> Result<u64, sqlx::Error> {
        execute(self.backend, &self.url, sql).await
    }

    /// Makes every record of a key so much older, as if the time had gone by.
    ///
    /// # Panics
    ///
    /// When the table is not there.
    pub async fn age_keys(&self, by: Duration) {
        let by = by.as_millis();
        let by = match self.backend.is_postgres() {
            true => format!("{by} * interval '1 millisecond'"),
            false => by.to_string(),
        };
        let columns = ["created_at", "completed_at", "expires_at", "retain_until"];
        let older = columns.map(|column| format!("{column} = {column} - {by}"));
        self.execute(&format!("UPDATE idem_keys SET {}", older.join(", ")))
            .await
            .expect("the framework's table is there");
    }

    /// The single number that a query answers, read on a connection of its own.
    pub async fn number(&self, sql: &str) -> i64 {
        let sql = AssertSqlSafe(sql.to_owned());
        let read = match self.backend {
            Backend::Postgres | Backend::PostgresFewest => {
                let mut connection = connect::<PgConnection>(&self.url).await;
                sqlx::query_scalar(sql).fetch_one(&mut connection).await
            }
            Backend::Sqlite => {
                let mut connection = connect::<SqliteConnection>(&self.url).await;
                sqlx::query_scalar(sql).fetch_one(&mut connection).await
            }
            Backend::MySql => {
                let mut connection = connect::<MySqlConnection>(&self.url).await;
                if !deployment::nodes(self.backend, &self.url).is_empty() {
                    // What a probe has committed on another.
                    let wait = "SET SESSION wsrep_sync_wait = 7";
                    let set = connection.execute(wait).await;
                    set.expect("a node knows the setting");
                }
                sqlx::query_scalar(sql).fetch_one(&mut connection).await
            }
        };
        read.expect("a test's query answers one number")
    }
}

async fn connect<C: Connection>(url: &Url) -> C {
    C::connect(url.as_str())
        .await
        .expect("the test's database is reachable")
}

async fn execute(backend: Backend, url: &Url, sql: &str) -> Result<u64, sqlx::Error> {
    let statement = sqlx::raw_sql(AssertSqlSafe(sql.to_owned()));
    Ok(match backend {
        Backend::Postgres | Backend::PostgresFewest => {
            let mut connection = PgConnection::connect(url.as_str()).await?;
            let done = connection.execute(statement).await?.rows_affected();
            connection.close().await?;
            done
        }
        Backend::Sqlite => {
            let mut connection = SqliteConnection::connect(url.as_str()).await?;
            let done = connection.execute(statement).await?.rows_affected();
            connection.close().await?;
            done
        }
        Backend::MySql => {
            let mut connection = MySqlConnection::connect(url.as_str()).await?;
            let done = connection.execute(statement).await?.rows_affected();
            connection.close().await?;
            done
        }
    })
}

impl Drop for TestDatabase {
    fn drop(&mut self) {
        let Place::Server { admin, name } = &self.place else {
            return;
        };
        let (backend, admin) = (self.backend, admin.clone());
        let force = if backend.is_postgres() {
            " WITH (FORCE)"
        } else {
            ""
        };
        let sql = format!("DROP DATABASE IF EXISTS {name}{force}");
        // A runtime of its own: the test's may be the one that is being dropped.
        let dropper = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .expect("a runtime to drop a database in");
            let dropped = runtime.block_on(async {
                tokio::time::timeout(crate::wait::PATIENCE, execute(backend, &admin, &sql)).await
            });
            if !matches!(dropped, Ok(Ok(_))) {
                eprintln!("could not drop a test's database: {dropped:?}");
            }
        });
        let _ = dropper.join();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn every_backend_gives_an_empty_database_that_is_gone_afterwards() {
        for backend in Backend::all() {
            let database = TestDatabase::create(backend).await;
            database
                .execute("CREATE TABLE t (n INTEGER)")
                .await
                .expect("an empty database takes a table");
            database
                .execute("INSERT INTO t VALUES (1), (2)")
                .await
                .expect("the table takes rows");
            assert_eq!(database.number("SELECT COUNT(*) FROM t").await, 2);
            let url = database.url.clone();
            drop(database);
            let gone = execute(backend, &url, "SELECT 1").await;
            assert!(gone.is_err(), "{backend:?}: {gone:?}");
        }
    }
}
