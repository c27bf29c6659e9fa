//! The framework's tables are missing, older than this version needs, or newer: what a service without `check` says of it.

use std::io::{self, Write};
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::to_bytes;
use axum::http::StatusCode;
use idem_runtime::{Idempotency, StartupError};
use idem_tests::servers::TestDatabase;
use serde_json::Value;
use sqlx::pool::PoolOptions;
use tracing_subscriber::fmt::MakeWriter;

use crate::setup::{Store, Tested, send};

/// What the library says on this thread.
#[derive(Clone, Default)]
struct Said(Arc<Mutex<Vec<u8>>>);

impl Said {
    fn lines(&self, text: &str) -> usize {
        let said = self.0.lock().unwrap();
        let said = String::from_utf8_lossy(&said);
        said.lines().filter(|line| line.contains(text)).count()
    }
}

impl Write for Said {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl MakeWriter<'_> for Said {
    type Writer = Said;

    fn make_writer(&self) -> Said {
        self.clone()
    }
}

fn listen() -> (Said, tracing::subscriber::DefaultGuard) {
    let said = Said::default();
    let subscriber = tracing_subscriber::fmt()
        .with_writer(said.clone())
        .with_ansi(false)
        .finish();
    (said, tracing::subscriber::set_default(subscriber))
}

/// The answer to who can do nothing about it.
async fn assert_refused(service: &Router, key: &str) {
    let answer = send(service, "/effects/alice", key).await;
    let (parts, body) = answer.into_parts();
    let body = to_bytes(body, usize::MAX).await.unwrap();
    let problem: Value = serde_json::from_slice(&body).unwrap();
    assert_eq!(parts.status, StatusCode::INTERNAL_SERVER_ERROR, "{problem}");
    assert_eq!(parts.headers["content-type"], "application/problem+json");
    assert!(!parts.headers.contains_key("retry-after"), "{parts:?}");
    assert_eq!(problem["code"], "idempotency-store-not-migrated");
    assert_eq!(problem["retryable"], false);
}

async fn another<DB: Tested>(database: &TestDatabase) -> Idempotency<DB> {
    let pool = PoolOptions::<DB>::new().connect(database.url()).await;
    Idempotency::new(pool.unwrap())
}

async fn missing<DB: Tested>() {
    let database = TestDatabase::create(DB::BACKEND).await;
    let table = "CREATE TABLE effects (n INTEGER NOT NULL)";
    database.execute(table).await.unwrap();
    let idempotency = another::<DB>(&database).await;
    let error = idempotency.check().await.unwrap_err();
    assert!(
        matches!(error, StartupError::Schema { found: None, .. }),
        "{error}"
    );
    let service = DB::service(idempotency.clone());
    let (said, events) = listen();
    for key in ["one", "two", "three"] {
        assert_refused(&service, key).await;
    }
    let swept = idempotency.sweeper().sweep_once().await.unwrap_err();
    let recovered = idempotency.recovery(()).run_once().await.unwrap_err();
    for error in [error.to_string(), swept.to_string(), recovered.to_string()] {
        for advice in [
            "are missing",
            "`idempotency.migrate().await`",
            "`idem schema`",
        ] {
            assert!(error.contains(advice), "{error}");
        }
    }
    assert_eq!(said.lines("`idempotency.migrate().await`"), 1, "once");
    assert_eq!(said.lines("ERROR idem: nothing can be done before"), 1);
    drop(events);
    // As soon as somebody has, and without a restart.
    another::<DB>(&database).await.migrate().await.unwrap();
    let answer = send(&service, "/effects/alice", "one").await;
    assert_eq!(answer.status(), StatusCode::CREATED);
    assert_eq!(database.number("SELECT count(*) FROM effects").await, 1);
}

async fn older<DB: Tested>() {
    let store = Store::<DB>::new().await;
    let version = "SELECT max(version) FROM idem_schema";
    let version = store.database.number(version).await;
    let last = format!("DELETE FROM idem_schema WHERE version = {version}");
    store.database.execute(&last).await.unwrap();
    let idempotency = store.another().await;
    let error = idempotency.check().await.unwrap_err();
    let expected = format!(
        "at version {}, and this version needs version {version}",
        version - 1
    );
    assert!(error.to_string().contains(&expected), "{error}");
    let service = DB::service(idempotency);
    assert_refused(&service, "one").await;
    assert_eq!(store.effects().await, 0);
    let back = format!("INSERT INTO idem_schema (version) VALUES ({version})");
    store.database.execute(&back).await.unwrap();
    let answer = send(&service, "/effects/alice", "one").await;
    assert_eq!(answer.status(), StatusCode::CREATED);
}

/// As in the middle of a deploy.
async fn newer<DB: Tested>() {
    let store = Store::<DB>::new().await;
    let next = "INSERT INTO idem_schema (version) SELECT max(version) + 1 FROM idem_schema";
    store.database.execute(next).await.unwrap();
    let idempotency = store.another().await;
    let answer = send(&DB::service(idempotency.clone()), "/effects/alice", "one").await;
    assert_eq!(answer.status(), StatusCode::CREATED);
    idempotency.check().await.unwrap();
}

/// Somebody drops a table, or a column, while `idem_schema` says that all is well.
async fn dropped<DB: Tested>() {
    for statement in [
        "DROP TABLE idem_keys",
        "ALTER TABLE idem_keys DROP COLUMN fingerprint",
    ] {
        let store = Store::<DB>::new().await;
        let service = DB::service(store.idempotency.clone());
        let answer = send(&service, "/effects/alice", "one").await;
        assert_eq!(answer.status(), StatusCode::CREATED);
        store.database.execute(statement).await.unwrap();
        let (said, events) = listen();
        for key in ["two", "three"] {
            assert_refused(&service, key).await;
        }
        drop(events);
        assert_eq!(said.lines("`Idempotency::check` names a table"), 2);
        assert_eq!(store.effects().await, 1);
    }
}

/// A start finds it, whether it migrates or checks only.
async fn incomplete<DB: Tested>() {
    let store = Store::<DB>::new().await;
    for table in ["idem_inbox", "idem_outbox_lanes"] {
        let statement = format!("DROP TABLE {table}");
        store.database.execute(&statement).await.unwrap();
    }
    let started = store.another().await;
    let (migrated, checked) = (started.migrate().await, started.check().await);
    for error in [migrated.unwrap_err(), checked.unwrap_err()] {
        assert!(
            matches!(&error, StartupError::Incomplete { missing, .. } if missing[..] == ["idem_outbox_lanes", "idem_inbox"]),
            "{error}"
        );
        for text in [
            "`idem_outbox_lanes` and `idem_inbox` are missing",
            "restore it from a backup",
            "`idem schema`",
        ] {
            assert!(error.to_string().contains(text), "{error}");
        }
    }
}

/// The tables are there, and what says of which version is not.
async fn unversioned<DB: Tested>() {
    let store = Store::<DB>::new().await;
    let version = "SELECT max(version) FROM idem_schema";
    let version = store.database.number(version).await;
    for statement in ["DELETE FROM idem_schema", "DROP TABLE idem_schema"] {
        store.database.execute(statement).await.unwrap();
        let started = store.another().await;
        if DB::BACKEND == idem_tests::servers::Backend::MySql {
            // Each of its statements finds what is there.
            started.migrate().await.unwrap();
            started.check().await.unwrap();
            continue;
        }
        let (migrated, checked) = (started.migrate().await, started.check().await);
        for error in [migrated.unwrap_err(), checked.unwrap_err()] {
            let says = error.to_string();
            assert!(
                matches!(error, StartupError::Unversioned { .. }),
                "{statement}: {says}"
            );
            let put_back = format!("INSERT INTO idem_schema (version) VALUES ({version})");
            for text in [
                "`idem_keys`",
                "`idem_inbox` are here",
                "a backup",
                &put_back,
            ] {
                assert!(says.contains(text), "{statement}: {says}");
            }
        }
    }
}

macro_rules! on_each_backend {
    ($($module:ident: $db:ty;)*) => {$(
        mod $module {
            #[tokio::test]
            async fn missing_tables_are_an_error_of_the_service_that_says_what_to_do() {
                super::missing::<$db>().await;
            }

            #[tokio::test]
            async fn older_tables_are_an_error_of_the_service_that_says_what_to_do() {
                super::older::<$db>().await;
            }

            #[tokio::test]
            async fn a_table_or_a_column_that_was_dropped_is_an_error_of_the_service() {
                super::dropped::<$db>().await;
            }

            #[tokio::test]
            async fn a_start_names_the_tables_that_were_dropped() {
                super::incomplete::<$db>().await;
            }

            #[tokio::test]
            async fn a_start_says_what_to_do_with_tables_of_no_known_version() {
                super::unversioned::<$db>().await;
            }

            #[tokio::test]
            async fn newer_tables_serve() {
                super::newer::<$db>().await;
            }
        }
    )*};
}

on_each_backend! {
    postgres: sqlx::Postgres;
    sqlite: sqlx::Sqlite;
    mysql: sqlx::MySql;
}

/// Who may use the tables need not be let read their version.
#[tokio::test]
async fn a_user_without_the_right_to_read_the_version_is_served() {
    let store = Store::<sqlx::Postgres>::new().await;
    let role = format!("idem_limited_{}", uuid::Uuid::new_v4().simple());
    for statement in [
        format!("CREATE ROLE {role}"),
        format!("GRANT ALL ON idem_keys, effects TO {role}"),
    ] {
        store.database.execute(&statement).await.unwrap();
    }
    let limited = role.clone();
    let pool = PoolOptions::<sqlx::Postgres>::new()
        .after_connect(move |connection, _| {
            let sql = sqlx::AssertSqlSafe(format!("SET ROLE {limited}"));
            Box::pin(async move {
                sqlx::raw_sql(sql).execute(&mut *connection).await?;
                Ok(())
            })
        })
        .connect(store.database.url())
        .await
        .unwrap();
    let service = <sqlx::Postgres as Tested>::service(Idempotency::new(pool.clone()));
    let answer = send(&service, "/effects/alice", "one").await;
    assert_eq!(answer.status(), StatusCode::CREATED);
    pool.close().await;
    for statement in [format!("DROP OWNED BY {role}"), format!("DROP ROLE {role}")] {
        store.database.execute(&statement).await.unwrap();
    }
}
