//! The handlers of a region, on each database, and how an account's records come from one database to another.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use axum::Router;
use axum::extract::{FromRef, Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use idem_runtime::region::NotHome;
use idem_runtime::steps::Recovery;
use idem_runtime::{AssertEffectFree, Backend, Disposition, Idempotency, Steps, Tx, idempotent};
use idem_tests::servers::{self, TestDatabase};
use sqlx::{AssertSqlSafe, Connection, Executor};

/// What handlers tell a test, and what it tells them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stage {
    entered: Arc<AtomicUsize>,
    stuck: Arc<AtomicBool>,
}

impl Stage {
    fn enter(&self) {
        self.entered.fetch_add(1, Ordering::SeqCst);
    }

    /// How often a handler was entered.
    pub(crate) fn entered(&self) -> usize {
        self.entered.load(Ordering::SeqCst)
    }

    /// Whether a charge stops half way.
    pub(crate) fn set_stuck(&self, stuck: bool) {
        self.stuck.store(stuck, Ordering::SeqCst);
    }

    fn is_stuck(&self) -> bool {
        self.stuck.load(Ordering::SeqCst)
    }
}

#[derive(Debug, thiserror::Error, Disposition)]
pub(crate) enum Failed {
    #[error("not now")]
    #[disposition(transient)]
    NotNow,
    #[error(transparent)]
    #[disposition(source)]
    Database(#[from] sqlx::Error),
    #[error(transparent)]
    #[disposition(source)]
    NotHome(#[from] NotHome),
    #[error(transparent)]
    #[disposition(source)]
    Inbox(#[from] idem_runtime::inbox::InboxError),
}

impl IntoResponse for Failed {
    fn into_response(self) -> Response {
        StatusCode::SERVICE_UNAVAILABLE.into_response()
    }
}

pub(crate) struct App<DB: Backend> {
    idempotency: Idempotency<DB>,
    stage: Stage,
}

impl<DB: Backend> Clone for App<DB> {
    fn clone(&self) -> Self {
        Self {
            idempotency: self.idempotency.clone(),
            stage: self.stage.clone(),
        }
    }
}

impl<DB: Backend> FromRef<App<DB>> for Idempotency<DB> {
    fn from_ref(app: &App<DB>) -> Self {
        app.idempotency.clone()
    }
}

impl<DB: Backend> FromRef<App<DB>> for AssertEffectFree<Stage> {
    fn from_ref(app: &App<DB>) -> Self {
        AssertEffectFree::new(app.stage.clone(), "what a test wants, in memory")
    }
}

pub(crate) trait Tested: Backend {
    const BACKEND: servers::Backend;

    /// `/orders/{account}`, `/keyless/{account}` and `/charges/{account}`.
    fn router(idempotency: Idempotency<Self>, stage: Stage) -> Router;

    /// A worker for charges.
    fn recovery(idempotency: &Idempotency<Self>, stage: &Stage) -> Recovery<Self, App<Self>>;

    fn order(connection: &mut Self::Connection) -> impl Future<Output = sqlx::Result<()>> + Send;

    /// Copies an owner's rows of a table.
    fn copy(
        from: &TestDatabase,
        to: &TestDatabase,
        table: &str,
        scope: &str,
    ) -> impl Future<Output = sqlx::Result<()>>;
}

macro_rules! backend {
    ($name:ident, $db:ty, $backend:expr, |$from:ident, $to:ident, $table:ident, $scope:ident| $copy:block) => {
        mod $name {
            use super::*;

            async fn insert(db: &mut <$db as sqlx::Database>::Connection) -> sqlx::Result<()> {
                sqlx::query("INSERT INTO orders (n) VALUES (1)")
                    .execute(db)
                    .await
                    .map(drop)
            }

            #[idempotent(scope = "account", max_body = "1KiB")]
            async fn order(
                tx: &mut Tx<$db>,
                Path(account): Path<String>,
                State(stage): State<AssertEffectFree<Stage>>,
            ) -> Result<(StatusCode, String), Failed> {
                stage.enter();
                insert(tx).await?;
                Ok((StatusCode::CREATED, format!("an order of {account}")))
            }

            #[idempotent(scope = "account", key = "optional")]
            async fn keyless(
                tx: &mut Tx<$db>,
                Path(account): Path<String>,
                State(stage): State<AssertEffectFree<Stage>>,
            ) -> Result<String, Failed> {
                stage.enter();
                insert(tx).await?;
                Ok(account)
            }

            #[idempotent(scope = "account", operation = "charges.create")]
            async fn charge(
                steps: &mut Steps<$db, Failed>,
                Path(account): Path<String>,
                State(stage): State<AssertEffectFree<Stage>>,
            ) -> Result<String, Failed> {
                stage.enter();
                steps
                    .atomic("reserve", async |tx: &mut Tx<$db>| Ok(insert(tx).await?))
                    .await?;
                // The first step commits when the second begins.
                steps
                    .atomic("settle", async |tx: &mut Tx<$db>| {
                        if stage.is_stuck() {
                            return Err(Failed::NotNow);
                        }
                        Ok(insert(tx).await?)
                    })
                    .await?;
                Ok(account)
            }

            impl Tested for $db {
                const BACKEND: servers::Backend = $backend;

                fn router(idempotency: Idempotency<Self>, stage: Stage) -> Router {
                    Router::new()
                        .route("/orders/{account}", post(order))
                        .route("/keyless/{account}", post(keyless))
                        .route("/charges/{account}", post(charge))
                        .with_state(App { idempotency, stage })
                }

                fn recovery(
                    idempotency: &Idempotency<Self>,
                    stage: &Stage,
                ) -> Recovery<Self, App<Self>> {
                    let app = App {
                        idempotency: idempotency.clone(),
                        stage: stage.clone(),
                    };
                    idempotency.recovery(app).register(charge)
                }

                async fn order(connection: &mut Self::Connection) -> sqlx::Result<()> {
                    insert(connection).await
                }

                async fn copy(
                    $from: &TestDatabase,
                    $to: &TestDatabase,
                    $table: &str,
                    $scope: &str,
                ) -> sqlx::Result<()> {
                    $copy
                }
            }
        }
    };
}

backend!(
    postgres,
    sqlx::Postgres,
    servers::Backend::Postgres,
    |from, to, table, scope| {
        let mut source = sqlx::PgConnection::connect(from.url()).await?;
        let mut target = sqlx::PgConnection::connect(to.url()).await?;
        let out = format!(
            "COPY (SELECT * FROM {table} WHERE scope = '{scope}') TO STDOUT (FORMAT binary)"
        );
        let rows = source.copy_out_raw(&out).await?;
        let into = format!("COPY {table} FROM STDIN (FORMAT binary)");
        let mut copying = target.copy_in_raw(&into).await?;
        let rows: Vec<bytes::Bytes> = futures_util::TryStreamExt::try_collect(rows).await?;
        for bytes in rows {
            copying.send(bytes).await?;
        }
        copying.finish().await.map(drop)
    }
);
backend!(
    sqlite,
    sqlx::Sqlite,
    servers::Backend::Sqlite,
    |from, to, table, scope| {
        let mut target = sqlx::SqliteConnection::connect(to.url()).await?;
        let file = from.url().trim_start_matches("sqlite:");
        let file = file.split('?').next().unwrap_or(file);
        let copy = format!(
            "ATTACH '{file}' AS source; INSERT INTO {table} SELECT * FROM source.{table} WHERE scope = '{scope}'"
        );
        target
            .execute(sqlx::raw_sql(AssertSqlSafe(copy)))
            .await
            .map(drop)
    }
);
backend!(
    mysql,
    sqlx::MySql,
    servers::Backend::MySql,
    |from, to, table, scope| {
        let name = from.url().rsplit('/').next().unwrap_or_default();
        let mut target = sqlx::MySqlConnection::connect(to.url()).await?;
        let copy =
            format!("INSERT INTO {table} SELECT * FROM {name}.{table} WHERE scope = '{scope}'");
        target
            .execute(sqlx::raw_sql(AssertSqlSafe(copy)))
            .await
            .map(drop)
    }
);
