//! Handlers that leak in as many ways as the tests ask for, on one database.

/// The handlers over one database, and a router over a database of its own.
macro_rules! leaks {
    ($db:ty, $connection:ty, $backend:expr) => {
        use axum::extract::{FromRef, Path};
        use axum::routing::post as route;
        use idem_runtime::{Idempotency, Tx, guard, idempotent};
        use sqlx::pool::PoolOptions;
        use sqlx::{Connection, Executor, Pool};

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
                "run-and-swallow" => {
                    let swallowed = run(tx, how).await;
                    assert!(swallowed.is_err());
                }
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
                let idempotency = Idempotency::builder(pool.clone())
                    .round_trips($backend.round_trips())
                    .build()
                    .expect("the settings make sense");
                idempotency.migrate().await.expect("the schema is made");
                // Each gives its connection back in a task of its own.
                all_idle(&pool).await;
                idempotency.check().await.expect("all is well");
                all_idle(&pool).await;
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
                    .merge(reached())
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

        /// Until nobody uses a connection.
        async fn all_idle(pool: &Pool<$db>) {
            until("the connections are back", PATIENCE, async || {
                pool.num_idle() == pool.size() as usize
            })
            .await;
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
    };
}

pub(crate) use leaks;
