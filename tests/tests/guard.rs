//! What gets past the compiler and is found at run time: a connection beside the transaction, and a transaction that
//! the handler ended. Each leak is in a helper, where no lint of a handler's body looks.

use std::collections::HashMap;
use std::io::Write;
use std::sync::{Arc, LazyLock, Mutex};

use axum::body::Body;
use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{Request, StatusCode};
use axum::response::IntoResponse;
use axum::{Router, response::Response};
use idem_tests::servers::{Backend, TestDatabase};
use idem_tests::wait::{PATIENCE, until};
use tower::ServiceExt;

/// Whose key it is, and which test's database: the `authorization` field's text.
struct Account(String);

impl<S: Send + Sync> FromRequestParts<S> for Account {
    type Rejection = StatusCode;
    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, StatusCode> {
        let token = parts.headers.get("authorization");
        token
            .and_then(|token| token.to_str().ok())
            .map(|token| Self(token.to_owned()))
            .ok_or(StatusCode::UNAUTHORIZED)
    }
}

#[derive(Debug)]
struct Failed(sqlx::Error);

impl From<sqlx::Error> for Failed {
    fn from(error: sqlx::Error) -> Self {
        Self(error)
    }
}

impl IntoResponse for Failed {
    fn into_response(self) -> Response {
        (StatusCode::IM_A_TEAPOT, self.0.to_string()).into_response()
    }
}

/// Answers of one path with one key, or with none.
async fn post(app: &Router, path: &str, account: &str, key: Option<&str>) -> (u16, String) {
    let mut request = Request::post(path).header("authorization", account);
    if let Some(key) = key {
        request = request.header("idempotency-key", key);
    }
    let request = request.body(Body::empty()).expect("a valid request");
    let response = app
        .clone()
        .oneshot(request)
        .await
        .unwrap_or_else(|never| match never {});
    let status = response.status().as_u16();
    let body = axum::body::to_bytes(response.into_body(), usize::MAX)
        .await
        .expect("a whole body");
    (status, String::from_utf8_lossy(&body).into_owned())
}

/// What was logged while it is held, on this thread.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    fn listen(&self) -> tracing::subscriber::DefaultGuard {
        let log = self.clone();
        let subscriber = tracing_subscriber::fmt()
            .with_ansi(false)
            .with_writer(move || log.clone())
            .finish();
        tracing::subscriber::set_default(subscriber)
    }

    fn text(&self) -> String {
        let written = self.0.lock().expect("no writer panics").clone();
        String::from_utf8(written).expect("events are text")
    }
}

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0
            .lock()
            .expect("no writer panics")
            .extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

macro_rules! backend {
    ($name:ident, $db:ty, $connection:ty, $backend:expr) => {
        mod $name {
            use axum::extract::{FromRef, Path};
            use axum::routing::post as route;
            use idem_runtime::{Idempotency, Tx, guard, idempotent};
            use sqlx::pool::PoolOptions;
            use sqlx::{Connection, Executor, Pool};

            use super::*;

            #[derive(Clone)]
            struct App(Idempotency<$db>);

            impl FromRef<App> for Idempotency<$db> {
                fn from_ref(app: &App) -> Self {
                    app.0.clone()
                }
            }

            /// As careless code keeps its pool, one for each test.
            static POOLS: LazyLock<Mutex<HashMap<String, (String, Pool<$db>)>>> =
                LazyLock::new(Mutex::default);

            fn pool_of(account: &str) -> Pool<$db> {
                POOLS.lock().expect("no holder panics")[account].1.clone()
            }

            fn url_of(account: &str) -> String {
                POOLS.lock().expect("no holder panics")[account].0.clone()
            }

            async fn insert(db: &mut $connection, n: i32) -> sqlx::Result<()> {
                let sql = format!("INSERT INTO things (n) VALUES ({n})");
                db.execute(sqlx::AssertSqlSafe(sql)).await?;
                Ok(())
            }

            /// Where the engine has one writer, a second one could only wait for it.
            async fn write_beside(other: &mut $connection) -> sqlx::Result<()> {
                if $backend == Backend::Sqlite {
                    other.execute("SELECT 1").await?;
                } else {
                    insert(other, 2).await?;
                }
                Ok(())
            }

            async fn beside(account: &str, how: &str) -> sqlx::Result<()> {
                let pool = pool_of(account);
                match how {
                    "query" => {
                        sqlx::query("SELECT 1").execute(&pool).await?;
                    }
                    "begin" => {
                        let mut other = pool.begin().await?;
                        other.execute("SELECT 1").await?;
                        other.rollback().await?;
                    }
                    "try-acquire" => {
                        let mut other = pool.try_acquire().expect("an idle one");
                        write_beside(&mut other).await?;
                    }
                    _ => write_beside(&mut *pool.acquire().await?).await?,
                }
                Ok(())
            }

            /// Each statement by itself, as a helper would send it.
            async fn run(db: &mut $connection, statements: &str) -> sqlx::Result<()> {
                for statement in statements.split(';') {
                    db.execute(sqlx::raw_sql(sqlx::AssertSqlSafe(statement.to_owned())))
                        .await?;
                }
                Ok(())
            }

            async fn forget(db: &mut $connection) -> sqlx::Result<()> {
                let mut part = db.begin().await?;
                insert(&mut part, 3).await?;
                std::mem::forget(part);
                Ok(())
            }

            async fn swap(tx: &mut Tx<$db>, account: &str) -> sqlx::Result<()> {
                let mut other = <$connection>::connect(&url_of(account)).await?;
                std::mem::swap(&mut **tx, &mut other);
                if $backend != Backend::Sqlite {
                    insert(tx, 4).await?;
                }
                Ok(())
            }

            async fn leak(
                tx: &mut Tx<$db>,
                account: &str,
                kind: &str,
                how: &str,
            ) -> Result<String, Failed> {
                insert(tx, 1).await?;
                match kind {
                    "beside" if how == "join" => {
                        let (inside, outside) = tokio::join!(insert(tx, 1), beside(account, how));
                        inside?;
                        outside?;
                    }
                    "beside" => beside(account, how).await?,
                    "beside-and-fail" => {
                        beside(account, how).await?;
                        return Err(Failed(sqlx::Error::RowNotFound));
                    }
                    "run" => run(tx, how).await?,
                    "run-and-fail" => {
                        run(tx, how).await?;
                        return Err(Failed(sqlx::Error::RowNotFound));
                    }
                    "run-and-panic" => {
                        run(tx, how).await?;
                        panic!("asked to");
                    }
                    "nested" => {
                        let mut part = Connection::begin(&mut **tx).await?;
                        insert(&mut part, 3).await?;
                        if how == "commit" {
                            part.commit().await?;
                        }
                    }
                    "forget" => forget(tx).await?,
                    "swap" => swap(tx, account).await?,
                    _ => {}
                }
                Ok(how.to_owned())
            }

            #[idempotent(scope = "account")]
            async fn keyed(
                tx: &mut Tx<$db>,
                Account(account): Account,
                Path((kind, how)): Path<(String, String)>,
            ) -> Result<String, Failed> {
                leak(tx, &account, &kind, &how).await
            }

            #[idempotent(scope = "account", key = "optional")]
            async fn unkeyed(
                tx: &mut Tx<$db>,
                Account(account): Account,
                Path((kind, how)): Path<(String, String)>,
            ) -> Result<String, Failed> {
                leak(tx, &account, &kind, &how).await
            }

            struct Set {
                database: TestDatabase,
                account: String,
                app: Router,
            }

            impl Set {
                /// A router over a guarded pool of `connections`.
                async fn new(connections: u32) -> (Set, Pool<$db>) {
                    let database = TestDatabase::create($backend).await;
                    let pool: Pool<$db> = guard(PoolOptions::new())
                        .max_connections(connections)
                        .connect(database.url())
                        .await
                        .expect("the database is there");
                    let idempotency = Idempotency::new(pool.clone());
                    idempotency.migrate().await.expect("the schema is made");
                    database
                        .execute("CREATE TABLE things (n INTEGER NOT NULL)")
                        .await
                        .expect("the table is made");
                    let account = uuid::Uuid::new_v4().to_string();
                    let known = (database.url().to_owned(), pool.clone());
                    POOLS
                        .lock()
                        .expect("no holder panics")
                        .insert(account.clone(), known);
                    let app = Router::new()
                        .route("/keyed/{kind}/{how}", route(keyed))
                        .route("/unkeyed/{kind}/{how}", route(unkeyed))
                        .with_state(App(idempotency));
                    let set = Set {
                        database,
                        account,
                        app,
                    };
                    (set, pool)
                }

                async fn guarded() -> Set {
                    Set::new(5).await.0
                }

                /// A key has no spaces and no semicolons.
                async fn post(&self, path: &str, key: &str) -> (u16, String) {
                    let key = key.replace(|letter: char| !letter.is_ascii_alphanumeric(), "-");
                    post(&self.app, path, &self.account, Some(&key)).await
                }

                async fn things(&self, n: i32) -> i64 {
                    let sql = format!("SELECT count(*) FROM things WHERE n = {n}");
                    self.database.number(&sql).await
                }

                /// The request is answered 500 with this code, its key kept, and its handler never run again.
                async fn is_unknown(&self, path: &str, code: &str) {
                    let (status, body) = self.post(path, path).await;
                    assert_eq!(status, 500, "{path}: {body}");
                    assert!(body.contains(code), "{path}: {body}");
                    let before = [self.things(1).await, self.things(2).await];
                    let (status, body) = self.post(path, path).await;
                    assert_eq!(status, 409, "{path}: {body}");
                    assert!(body.contains("idempotency-outcome-unknown"), "{body}");
                    assert_eq!([self.things(1).await, self.things(2).await], before);
                }

                /// The request is answered 500, nothing of it is there, and its key is free.
                async fn is_undone(&self, path: &str) {
                    for _ in 0..2 {
                        let (status, body) = self.post(path, path).await;
                        assert_eq!(status, 500, "{path}: {body}");
                        assert!(body.contains("idempotency-transaction-aborted"), "{body}");
                    }
                    for n in 1..=4 {
                        assert_eq!(self.things(n).await, 0, "{path}: {n}");
                    }
                }
            }

            /// Until so many connections lie idle in the pool.
            async fn warm(pool: &Pool<$db>, connections: usize) {
                let mut taken = Vec::new();
                for _ in 0..connections {
                    taken.push(pool.acquire().await.expect("the database is there"));
                }
                drop(taken);
                until("the connections are back", PATIENCE, async || {
                    pool.num_idle() >= connections
                })
                .await;
            }

            const OUTSIDE: &str = "idempotency-effect-outside-transaction";
            const ENDED: &str = "idempotency-transaction-ended";

            #[tokio::test]
            async fn a_connection_beside_the_transaction_is_found_however_it_is_taken() {
                let (set, pool) = Set::new(5).await;
                for how in ["acquire", "join", "query", "begin"] {
                    set.is_unknown(&format!("/keyed/beside/{how}"), OUTSIDE)
                        .await;
                    assert_eq!(
                        set.things(1).await,
                        0,
                        "{how}: its own writes are rolled back"
                    );
                }
                // The first found a new connection, these find idle ones.
                warm(&pool, 4).await;
                for how in ["acquire-idle", "join-idle"] {
                    set.is_unknown(&format!("/keyed/beside/{how}"), OUTSIDE)
                        .await;
                }
                set.is_unknown("/keyed/beside-and-fail/acquire", OUTSIDE)
                    .await;
                assert_eq!(set.things(1).await, 0);
            }

            #[tokio::test]
            async fn a_connection_that_is_new_is_found_too() {
                let (set, pool) = Set::new(5).await;
                assert_eq!(pool.size(), 1, "the handler's own; another must be opened");
                set.is_unknown("/keyed/beside/acquire", OUTSIDE).await;
                assert!(pool.size() > 1, "it was opened");
            }

            #[tokio::test]
            async fn a_handler_that_takes_no_connection_is_not_suspected() {
                let (set, pool) = Set::new(5).await;
                warm(&pool, 3).await;
                // Another task may take what it likes meanwhile.
                let other = tokio::spawn(async move { pool.acquire().await.map(drop) });
                assert_eq!(set.post("/keyed/none/fine", "k").await.0, 200);
                other.await.expect("no panic").expect("a connection");
                assert_eq!(set.things(1).await, 1);
            }

            #[tokio::test]
            async fn without_a_key_the_faults_are_found_as_well() {
                let set = Set::guarded().await;
                let path = "/unkeyed/beside/acquire";
                let (status, body) = post(&set.app, path, &set.account, None).await;
                assert_eq!(status, 500);
                assert!(body.contains(OUTSIDE), "{body}");
                assert_eq!(set.things(1).await, 0);
                let path = "/unkeyed/forget/part";
                let (status, body) = post(&set.app, path, &set.account, None).await;
                assert_eq!(status, 500, "{body}");
                assert_eq!((set.things(1).await, set.things(3).await), (0, 0));
                let path = "/unkeyed/run/COMMIT";
                let (status, body) = post(&set.app, path, &set.account, None).await;
                // SQLite refuses the statement, and the handler passes its error on.
                let refused = $backend == Backend::Sqlite;
                assert_eq!(status, if refused { 418 } else { 500 }, "{body}");
                assert_eq!(set.things(1).await, i64::from(!refused));
            }

            #[tokio::test]
            async fn a_transaction_that_the_handler_ends_is_found() {
                let set = Set::guarded().await;
                let mut leaks = vec!["COMMIT", "COMMIT;BEGIN", "ROLLBACK;BEGIN", "ROLLBACK"];
                match $backend {
                    // The commit hook refuses the commit, and SQLite rolls back.
                    Backend::Sqlite => {
                        for leak in ["COMMIT", "END", "ROLLBACK", "ROLLBACK;BEGIN"] {
                            let (status, body) =
                                set.post(&format!("/keyed/run/{leak}"), leak).await;
                            assert!(matches!(status, 500 | 418), "{leak}: {body}");
                            assert_eq!(set.things(1).await, 0, "{leak}");
                        }
                        return;
                    }
                    Backend::Postgres => {
                        leaks.extend(["COMMIT AND CHAIN", "ROLLBACK AND CHAIN", "END"])
                    }
                    Backend::MySql => leaks.extend([
                        "COMMIT AND CHAIN",
                        "ROLLBACK AND CHAIN",
                        "CREATE TABLE more (n int)",
                        "ALTER TABLE things COMMENT = 'more'",
                        "SET autocommit = 0;START TRANSACTION",
                        "LOCK TABLES things WRITE;UNLOCK TABLES",
                    ]),
                }
                for leak in leaks {
                    let leak = leak.replace(' ', "%20");
                    set.is_unknown(&format!("/keyed/run/{leak}"), ENDED).await;
                }
                set.is_unknown("/keyed/run-and-fail/COMMIT", ENDED).await;
                set.is_unknown("/keyed/run-and-panic/COMMIT", ENDED).await;
            }

            #[tokio::test]
            async fn what_the_database_can_undo_is_no_fault() {
                let set = Set::guarded().await;
                let mut honest = vec!["SAVEPOINT a;ROLLBACK TO a;RELEASE SAVEPOINT a"];
                match $backend {
                    Backend::MySql => honest.push("CREATE TEMPORARY TABLE more (n int)"),
                    _ => honest.push("CREATE TABLE more (n int)"),
                }
                for statements in honest {
                    let path = format!("/keyed/run/{}", statements.replace(' ', "%20"));
                    let (status, body) = set.post(&path, &path).await;
                    assert_eq!(status, 200, "{statements}: {body}");
                }
                assert_eq!(set.things(1).await, 2);
            }

            #[tokio::test]
            async fn a_nested_transaction_is_a_savepoint() {
                let set = Set::guarded().await;
                for how in ["commit", "drop"] {
                    let (status, body) = set.post(&format!("/keyed/nested/{how}"), how).await;
                    assert_eq!(status, 200, "{how}: {body}");
                }
                assert_eq!((set.things(1).await, set.things(3).await), (2, 1));
            }

            #[tokio::test]
            async fn a_nested_transaction_that_is_forgotten_undoes_everything() {
                // One connection: what the first request leaves of it, the next ones find.
                let (set, _) = Set::new(1).await;
                set.is_undone("/keyed/forget/part").await;
                assert_eq!(set.post("/keyed/none/fine", "k").await.0, 200);
                assert_eq!(set.things(1).await, 1);
            }

            #[tokio::test]
            async fn a_connection_that_was_swapped_is_found() {
                let set = Set::guarded().await;
                let (status, body) = set.post("/keyed/swap/it", "k").await;
                assert_eq!(status, 500, "{body}");
                let (again, body) = set.post("/keyed/swap/it", "k").await;
                assert_eq!(again, 409, "{body}");
                assert_eq!(set.things(1).await, 0);
            }

            /// The hole that sqlx leaves: it asks no hook. Clippy and the lint of the body name the method.
            #[tokio::test]
            async fn try_acquire_is_not_found() {
                let (set, pool) = Set::new(5).await;
                warm(&pool, 2).await;
                assert_eq!(set.post("/keyed/beside/try-acquire", "k").await.0, 200);
            }

            /// What a start says of a pool over these options.
            async fn said_at_the_start(options: PoolOptions<$db>) -> String {
                let database = TestDatabase::create($backend).await;
                let pool = options
                    .connect(database.url())
                    .await
                    .expect("the database is there");
                let idempotency = Idempotency::<$db>::new(pool);
                idempotency.migrate().await.expect("the schema is made");
                let log = Log::default();
                let listening = log.listen();
                idempotency.check().await.expect("all is well");
                drop(listening);
                log.text()
            }

            #[tokio::test]
            async fn a_start_warns_of_a_pool_without_the_whole_guard() {
                let options = PoolOptions::<$db>::new;
                let own = || {
                    guard(options()).after_connect(|_, _| {
                        idem_runtime::record_acquire();
                        Box::pin(async { Ok(()) })
                    })
                };
                for guarded in [guard(options()), guard(options().max_connections(1)), own()] {
                    let said = said_at_the_start(guarded).await;
                    assert!(!said.contains("no run-time guard"), "{said}");
                }
                let new_only = guard(options()).before_acquire(|_, _| Box::pin(async { Ok(true) }));
                let idle_only = guard(options()).after_connect(|_, _| Box::pin(async { Ok(()) }));
                for unguarded in [options(), new_only, idle_only] {
                    let said = said_at_the_start(unguarded).await;
                    assert!(said.contains("no run-time guard"), "{said}");
                }
            }

            #[tokio::test]
            async fn a_fault_is_reported() {
                let set = Set::guarded().await;
                let log = Log::default();
                let listening = log.listen();
                set.post("/keyed/beside/acquire", "k").await;
                drop(listening);
                let text = log.text();
                assert!(text.contains("ERROR"), "{text}");
                assert!(
                    text.contains("an effect may have missed the transaction"),
                    "{text}"
                );
                assert!(
                    text.contains("operation=\"keyed\"") && text.contains(OUTSIDE),
                    "{text}"
                );
            }
        }
    };
}

backend!(
    postgres,
    sqlx::Postgres,
    sqlx::PgConnection,
    Backend::Postgres
);
backend!(
    sqlite,
    sqlx::Sqlite,
    sqlx::SqliteConnection,
    Backend::Sqlite
);
backend!(mysql, sqlx::MySql, sqlx::MySqlConnection, Backend::MySql);
