//! Handlers that lock the first account, meet their rival, and want the second.

use axum::Router;
use axum::body::Body;
use axum::http::{Request, StatusCode};
use axum::response::{IntoResponse, Response};
use futures_util::future::BoxFuture;
use idem_runtime::{Backend, Idempotency};
use idem_tests::servers::{self, TestDatabase};
use sqlx::Pool;
use sqlx::pool::PoolOptions;
use tower::ServiceExt;

use super::rival::{Rival, Server};

/// A handler's error, which shows the database's.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failed {
    #[error("the database failed")]
    Database(#[from] sqlx::Error),
    #[error("refused")]
    Refused,
}

impl IntoResponse for Failed {
    fn into_response(self) -> Response {
        (StatusCode::UNPROCESSABLE_ENTITY, self.to_string()).into_response()
    }
}

/// The servers that have deadlocks.
pub(crate) trait Tested: Backend + Server {
    const BACKEND: servers::Backend;

    /// All handlers of this database.
    fn router(idempotency: Idempotency<Self>, rival: Rival) -> Router;
}

/// Writes of handlers, in functions of their own: half of them do what no handler should.
pub(crate) fn send<'c, DB: Server>(
    connection: &'c mut DB::Connection,
    statement: &'static str,
) -> BoxFuture<'c, Result<(), Failed>> {
    let sent = DB::execute(connection, statement.to_owned());
    Box::pin(async move { Ok(sent.await?) })
}

pub(crate) const FIRST: &str = "UPDATE accounts SET n = n + 1 WHERE id = 1";
pub(crate) const SECOND: &str = "UPDATE accounts SET n = n + 1 WHERE id = 2";
pub(crate) const EFFECT: &str = "INSERT INTO effects VALUES (1)";

macro_rules! tested {
    ($name:ident, $db:ty, $backend:ident) => {
        mod $name {
            use axum::Router;
            use axum::extract::{FromRef, Path, State};
            use axum::routing::post;
            use idem_runtime::{Idempotency, Steps, Tx, idempotent};
            use idem_tests::servers;

            use super::super::rival::{Rival, Server};
            use super::{EFFECT, FIRST, Failed, SECOND, Tested, send};

            type Store = $db;

            #[derive(Clone, FromRef)]
            struct App {
                idempotency: Idempotency<Store>,
                rival: Rival,
            }

            /// What a handler does that is written as it should be.
            async fn transfer(tx: &mut Tx<Store>, rival: &Rival) -> Result<(), Failed> {
                send::<Store>(tx, EFFECT).await?;
                send::<Store>(tx, FIRST).await?;
                rival.cross::<Store>().await;
                send::<Store>(tx, SECOND).await
            }

            #[idempotent(scope = "account")]
            async fn plain(
                tx: &mut Tx<Store>,
                Path(account): Path<u64>,
                State(rival): State<Rival>,
            ) -> Result<String, Failed> {
                transfer(tx, &rival).await?;
                Ok(account.to_string())
            }

            #[idempotent(scope = "account", key = "optional")]
            async fn optional(
                tx: &mut Tx<Store>,
                Path(account): Path<u64>,
                State(rival): State<Rival>,
            ) -> Result<String, Failed> {
                transfer(tx, &rival).await?;
                Ok(account.to_string())
            }

            #[idempotent(scope = "account")]
            async fn saved(
                tx: &mut Tx<Store>,
                Path(account): Path<u64>,
                State(rival): State<Rival>,
            ) -> Result<String, Failed> {
                tx.savepoint(async |tx| transfer(tx, &rival).await).await?;
                Ok(account.to_string())
            }

            #[idempotent(scope = "account")]
            async fn ignored(
                tx: &mut Tx<Store>,
                Path(account): Path<u64>,
                State(rival): State<Rival>,
            ) -> Result<String, Failed> {
                let _ = transfer(tx, &rival).await;
                let _ = send::<Store>(tx, EFFECT).await;
                Ok(account.to_string())
            }

            #[idempotent(scope = "account")]
            async fn ignored_in_a_savepoint(
                tx: &mut Tx<Store>,
                Path(account): Path<u64>,
                State(rival): State<Rival>,
            ) -> Result<String, Failed> {
                send::<Store>(tx, FIRST).await?;
                let _ = tx.savepoint(async |tx| transfer(tx, &rival).await).await;
                send::<Store>(tx, EFFECT).await?;
                Ok(account.to_string())
            }

            #[idempotent(scope = "account")]
            async fn ignored_and_refused(
                tx: &mut Tx<Store>,
                Path(account): Path<u64>,
                State(rival): State<Rival>,
            ) -> Result<String, Failed> {
                let first = rival.runs() == 0;
                let done = transfer(tx, &rival).await;
                if first {
                    let _ = send::<Store>(tx, EFFECT).await;
                    return Err(Failed::Refused);
                }
                done?;
                Ok(account.to_string())
            }

            /// What no handler should.
            async fn end_and_go_on(tx: &mut Tx<Store>, end: &'static str) -> Result<(), Failed> {
                send::<Store>(tx, end).await?;
                send::<Store>(tx, EFFECT).await
            }

            #[idempotent(scope = "account")]
            async fn rolled_back(
                tx: &mut Tx<Store>,
                Path(account): Path<u64>,
            ) -> Result<String, Failed> {
                let _ = account;
                end_and_go_on(tx, "ROLLBACK").await?;
                Err(Failed::Refused)
            }

            #[idempotent(scope = "account", operation = "stepped")]
            async fn stepped(
                steps: &mut Steps<Store, Failed>,
                Path(account): Path<u64>,
                State(rival): State<Rival>,
            ) -> Result<String, Failed> {
                steps
                    .atomic("first", async |tx| send::<Store>(tx, EFFECT).await)
                    .await?;
                steps
                    .atomic("second", async |tx| transfer(tx, &rival).await)
                    .await?;
                Ok(account.to_string())
            }

            /// Meets its rival at the record of its step.
            #[idempotent(scope = "account", operation = "recorded")]
            async fn recorded(
                steps: &mut Steps<Store, Failed>,
                Path(account): Path<u64>,
                State(rival): State<Rival>,
            ) -> Result<String, Failed> {
                steps
                    .atomic("first", async |tx| {
                        send::<Store>(tx, EFFECT).await?;
                        send::<Store>(tx, FIRST).await?;
                        rival.cross::<Store>().await;
                        Ok(())
                    })
                    .await?;
                steps
                    .atomic("second", async |tx| send::<Store>(tx, EFFECT).await)
                    .await?;
                Ok(account.to_string())
            }

            /// Commits in a step, and says then that it is a victim.
            #[idempotent(scope = "account", operation = "stepped.and.committed")]
            async fn stepped_and_committed(
                steps: &mut Steps<Store, Failed>,
                Path(account): Path<u64>,
                State(rival): State<Rival>,
            ) -> Result<String, Failed> {
                rival.enter();
                steps
                    .atomic("first", async |tx| {
                        send::<Store>(tx, EFFECT).await?;
                        send::<Store>(tx, "COMMIT AND CHAIN").await?;
                        send::<Store>(tx, Store::VICTIM).await
                    })
                    .await?;
                Ok(account.to_string())
            }

            /// Its session's clock is a day ahead from here on.
            #[idempotent(scope = "account")]
            async fn ahead(tx: &mut Tx<Store>, Path(account): Path<u64>) -> Result<String, Failed> {
                let _ = send::<Store>(tx, "SET timestamp = UNIX_TIMESTAMP() + 86400").await;
                Ok(account.to_string())
            }

            /// Holds the first account for as long as its statement runs.
            async fn dawdle(tx: &mut Tx<Store>) -> Result<(), Failed> {
                send::<Store>(tx, FIRST).await?;
                send::<Store>(tx, Store::SLEEP).await
            }

            #[idempotent(scope = "account", timeout = "500ms")]
            async fn slow(tx: &mut Tx<Store>, Path(account): Path<u64>) -> Result<String, Failed> {
                dawdle(tx).await?;
                Ok(account.to_string())
            }

            #[idempotent(scope = "account", key = "optional", timeout = "500ms")]
            async fn slow_optional(
                tx: &mut Tx<Store>,
                Path(account): Path<u64>,
            ) -> Result<String, Failed> {
                dawdle(tx).await?;
                Ok(account.to_string())
            }

            #[idempotent(scope = "account", operation = "slow.stepped", timeout = "500ms")]
            async fn slow_stepped(
                steps: &mut Steps<Store, Failed>,
                Path(account): Path<u64>,
            ) -> Result<String, Failed> {
                steps.atomic("first", async |tx| dawdle(tx).await).await?;
                Ok(account.to_string())
            }

            impl Tested for Store {
                const BACKEND: servers::Backend = servers::Backend::$backend;

                fn router(idempotency: Idempotency<Self>, rival: Rival) -> Router {
                    Router::<App>::new()
                        .route("/plain/{account}", post(plain))
                        .route("/optional/{account}", post(optional))
                        .route("/saved/{account}", post(saved))
                        .route("/ignored/{account}", post(ignored))
                        .route(
                            "/ignored-in-a-savepoint/{account}",
                            post(ignored_in_a_savepoint),
                        )
                        .route("/ignored-and-refused/{account}", post(ignored_and_refused))
                        .route("/rolled-back/{account}", post(rolled_back))
                        .route("/stepped/{account}", post(stepped))
                        .route("/recorded/{account}", post(recorded))
                        .route(
                            "/stepped-and-committed/{account}",
                            post(stepped_and_committed),
                        )
                        .route("/ahead/{account}", post(ahead))
                        .route("/slow/{account}", post(slow))
                        .route("/slow-optional/{account}", post(slow_optional))
                        .route("/slow-stepped/{account}", post(slow_stepped))
                        .with_state(App { idempotency, rival })
                }
            }
        }
    };
}

tested!(postgres, sqlx::Postgres, Postgres);
tested!(mysql, sqlx::MySql, MySql);

/// A database with two accounts, and the handlers on it.
pub(crate) struct Bank<DB: Tested> {
    pub(crate) pool: Pool<DB>,
    pub(crate) idempotency: Idempotency<DB>,
    pub(crate) rival: Rival,
    router: Router,
    /// Dropped last.
    database: TestDatabase,
}

impl<DB: Tested> Bank<DB> {
    pub(crate) async fn open() -> Self {
        let database = TestDatabase::create(DB::BACKEND).await;
        let pool = idem_runtime::guard(PoolOptions::<DB>::new())
            .max_connections(4)
            .connect(database.url())
            .await
            .expect("the database is there");
        let idempotency = Idempotency::builder(pool.clone())
            .build()
            .expect("the settings make sense");
        idempotency.migrate().await.expect("the schema is made");
        for statement in [
            "CREATE TABLE accounts (id INTEGER PRIMARY KEY, n INTEGER NOT NULL)",
            "INSERT INTO accounts VALUES (1, 0), (2, 0)",
            "CREATE TABLE effects (n INTEGER NOT NULL)",
            "CREATE TABLE ballast (n INTEGER NOT NULL)",
        ] {
            let done = database.execute(statement).await;
            done.expect("the tables are made");
        }
        let rival = Rival::new(database.url());
        let router = DB::router(idempotency.clone(), rival.clone());
        Self {
            pool,
            idempotency,
            rival,
            router,
            database,
        }
    }

    /// Status and body.
    pub(crate) async fn post(&self, path: &str) -> (u16, String) {
        let request = Request::post(path).header("idempotency-key", "\"k\"");
        self.answer(request.body(Body::empty()).expect("a request"))
            .await
    }

    /// The same without a key.
    pub(crate) async fn post_without_key(&self, path: &str) -> (u16, String) {
        let request = Request::post(path).body(Body::empty()).expect("a request");
        self.answer(request).await
    }

    async fn answer(&self, request: Request<Body>) -> (u16, String) {
        let answer = self.router.clone().oneshot(request).await;
        let answer = answer.expect("infallible");
        let status = answer.status().as_u16();
        let body = axum::body::to_bytes(answer.into_body(), usize::MAX).await;
        let body = String::from_utf8_lossy(&body.expect("a body")).into_owned();
        (status, body)
    }

    pub(crate) fn url(&self) -> &str {
        self.database.url()
    }

    pub(crate) async fn number(&self, query: &str) -> i64 {
        self.database.number(query).await
    }

    pub(crate) async fn effects(&self) -> i64 {
        self.database.number("SELECT count(*) FROM effects").await
    }

    pub(crate) async fn records(&self) -> i64 {
        self.database.number("SELECT count(*) FROM idem_keys").await
    }
}
