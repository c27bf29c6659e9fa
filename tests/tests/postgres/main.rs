//! What only PostgreSQL can do, in process, with the library's statements in separate messages and in the fewest.

mod commits;
mod hints;
mod isolation;
mod lookups;
mod parts;
mod pools;
mod steps;
mod values;

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::{FromRef, Path};
use axum::http::{Request, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use idem_runtime::{EffectFree, Idempotency, IdempotencyBuilder, Tx, idempotent};
use idem_tests::servers::{Backend, TestDatabase};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::{Executor, PgPool, Postgres};
use tokio::sync::Barrier;
use tower::ServiceExt;

#[derive(Clone, FromRef)]
struct App {
    idempotency: Idempotency<Postgres>,
}

/// Where handlers wait for each other, so that all have claimed before one commits.
#[derive(Clone, EffectFree)]
struct Meeting(#[effect_free(trust = "handlers meet at it")] Arc<Barrier>);

#[derive(Clone, FromRef)]
struct Process {
    idempotency: Idempotency<Postgres>,
    meeting: Meeting,
}

#[derive(Debug)]
struct Failed(sqlx::Error);

impl From<sqlx::Error> for Failed {
    fn from(error: sqlx::Error) -> Self {
        Self(error)
    }
}

impl std::fmt::Display for Failed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "the handler's statement failed")
    }
}

impl std::error::Error for Failed {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.0)
    }
}

impl IntoResponse for Failed {
    fn into_response(self) -> Response {
        StatusCode::IM_A_TEAPOT.into_response()
    }
}

/// Runs one statement, and answers so many bytes.
async fn act(tx: &mut Tx<Postgres>, statement: &str, length: usize) -> Result<String, Failed> {
    let connection: &mut sqlx::PgConnection = tx;
    connection
        .execute("INSERT INTO things (n) VALUES (1)")
        .await?;
    if !statement.is_empty() {
        let statement = sqlx::AssertSqlSafe(statement.to_owned());
        connection.execute(sqlx::raw_sql(statement)).await?;
    }
    Ok("'\\\"x".chars().cycle().take(length).collect())
}

#[idempotent(scope = "account")]
async fn things(
    tx: &mut Tx<Postgres>,
    Path((account, length)): Path<(String, usize)>,
    statement: String,
) -> Result<String, Failed> {
    tx.resource("thing", &account);
    act(tx, &statement, length).await
}

/// A router over a pool and a database of its own.
struct Set {
    app: Router,
    idempotency: Idempotency<Postgres>,
    pool: PgPool,
    /// Dropped last.
    database: TestDatabase,
}

/// An answer as a test looks at it.
#[derive(Debug, PartialEq)]
struct Seen {
    status: u16,
    replayed: bool,
    body: String,
}

impl Seen {
    #[track_caller]
    fn assert_problem(&self, status: u16, code: &str) {
        let code = format!("\"{code}\"");
        assert!(
            self.status == status && self.body.contains(&code),
            "{self:?}"
        );
    }
}

impl Set {
    async fn new(backend: Backend) -> Set {
        Set::with(backend, PgPoolOptions::new()).await
    }

    /// Every request meets what the one before it left of the connection.
    async fn with_one_connection(backend: Backend) -> Set {
        Set::with(backend, PgPoolOptions::new().max_connections(1)).await
    }

    async fn with(backend: Backend, options: PgPoolOptions) -> Set {
        let database = TestDatabase::create(backend).await;
        let url = database.url().to_owned();
        Set::over(
            database,
            &url,
            options,
            |options| options,
            |builder| builder,
        )
        .await
    }

    async fn over(
        database: TestDatabase,
        url: &str,
        options: PgPoolOptions,
        connect: impl FnOnce(PgConnectOptions) -> PgConnectOptions,
        configure: impl FnOnce(IdempotencyBuilder<Postgres>) -> IdempotencyBuilder<Postgres>,
    ) -> Set {
        let pool = options
            .connect_with(connect(url.parse().expect("a URL")))
            .await
            .expect("the database is there");
        let builder = Idempotency::builder(pool.clone());
        let builder = builder.round_trips(database.backend().round_trips());
        let idempotency = configure(builder).build().expect("the settings make sense");
        idempotency.migrate().await.expect("the schema is made");
        idempotency.check().await.expect("all is well");
        database
            .execute("CREATE TABLE things (n INTEGER NOT NULL)")
            .await
            .expect("the table is made");
        let app = Router::new()
            .route("/things/{account}/{length}", post(things))
            .with_state(App {
                idempotency: idempotency.clone(),
            });
        Set {
            app,
            idempotency,
            pool,
            database,
        }
    }

    async fn post(&self, path: &str, key: &str, statement: &str) -> Seen {
        Self::post_to(&self.app, path, key, statement).await
    }

    async fn post_to(app: &Router, path: &str, key: &str, statement: &str) -> Seen {
        let request = Request::post(path)
            .header("idempotency-key", key)
            .header("content-type", "text/plain")
            .body(Body::from(statement.to_owned()))
            .expect("a valid request");
        let response = app
            .clone()
            .oneshot(request)
            .await
            .unwrap_or_else(|never| match never {});
        let (parts, body) = response.into_parts();
        let body = axum::body::to_bytes(body, usize::MAX)
            .await
            .expect("a whole body");
        Seen {
            status: parts.status.as_u16(),
            replayed: parts.headers.contains_key("idempotent-replayed"),
            body: String::from_utf8_lossy(&body).into_owned(),
        }
    }

    /// A first use and its replay.
    async fn assert_works(&self, key: &str) {
        let first = self.post("/things/alice/10", key, "").await;
        assert_eq!((first.status, first.replayed), (200, false), "{first:?}");
        let replay = self.post("/things/alice/10", key, "").await;
        assert_eq!((replay.status, replay.replayed), (200, true), "{replay:?}");
        assert_eq!(replay.body, first.body);
    }

    /// Runs statements outside any transaction of the library's.
    async fn prepare(&self, statements: &str) {
        self.database
            .execute(statements)
            .await
            .expect("the database takes them");
    }

    /// Counted on a connection of its own, which an open transaction shows nothing.
    async fn things(&self) -> i64 {
        self.database.number("SELECT count(*) FROM things").await
    }
}

/// Makes each case a test with either number of messages.
macro_rules! both {
    ($($case:ident,)*) => {
        mod separate {
            $(
                #[tokio::test]
                async fn $case() {
                    super::$case(idem_tests::servers::Backend::Postgres).await;
                }
            )*
        }
        mod fewest {
            $(
                #[tokio::test]
                async fn $case() {
                    super::$case(idem_tests::servers::Backend::PostgresFewest).await;
                }
            )*
        }
    };
}

pub(crate) use both;
