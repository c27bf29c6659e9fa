//! An application on a database of its own, and what its operators do there.

use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::Request;
use idem_runtime::operations::{List, OperationSummary};
use idem_runtime::steps::Recovered;
use idem_runtime::{External, Idempotency};
use idem_tests::process::executable;
use idem_tests::servers::TestDatabase;
use idem_tests::wait::{PATIENCE, until};
use serde_json::Value;
use sqlx::pool::PoolOptions;
use tokio::process::Command;
use tower::ServiceExt;

use crate::handler::{App, Tested, Version};
use crate::plan::{Plan, Plans};
use crate::provider::Provider;

/// Makes each named case, an `async fn case<DB: Tested>()`, a test on every database.
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

pub(crate) struct World<DB: Tested> {
    pub(crate) database: Arc<TestDatabase>,
    pub(crate) app: App<DB>,
    calls: Arc<AtomicU32>,
    router: Router,
}

impl<DB: Tested> World<DB> {
    pub(crate) async fn new(plan: Plan) -> Self {
        let database = Arc::new(TestDatabase::create(DB::BACKEND).await);
        let pool = idem_runtime::guard(PoolOptions::<DB>::new())
            .max_connections(12)
            .connect(database.url())
            .await
            .unwrap();
        let idempotency = Idempotency::builder(pool.clone())
            .wait(Duration::from_millis(20))
            .retry_pause(Duration::from_millis(1))
            .max_attempts(2)
            .store_timeout(Duration::from_secs(10))
            .build()
            .unwrap();
        idempotency.migrate().await.unwrap();
        database
            .execute("CREATE TABLE effects (n INTEGER NOT NULL)")
            .await
            .unwrap();
        let plans = Plans::new(plan);
        let calls = Arc::new(AtomicU32::new(0));
        let app = App {
            provider: External::new(Provider {
                plans: plans.clone(),
                database: database.clone(),
                pool,
                calls: calls.clone(),
            }),
            idempotency,
            plans,
        };
        Self {
            database,
            router: DB::router(app.clone()),
            app,
            calls,
        }
    }

    /// With an operation that is unknown, because an `at_most_once` step lost its answer.
    pub(crate) async fn with_lost_answer(timeout: Duration) -> (Self, OperationSummary) {
        let world = Self::new(Plan {
            answer: crate::plan::Answer::Lost,
            timeout,
            ..Plan::default()
        })
        .await;
        assert_eq!(world.charge("alice").await, 409);
        let operation = world.only().await;
        (world, operation)
    }

    pub(crate) fn plan(&self, change: impl FnOnce(&mut Plan)) {
        let mut plan = self.app.plans.now();
        change(&mut plan);
        self.app.plans.change(plan);
    }

    /// A request with one key for each account; its answer's status.
    pub(crate) async fn charge(&self, account: &str) -> u16 {
        let request = Request::post(format!("/charges/{account}"))
            .header("idempotency-key", "\"key-1\"")
            .header("content-type", "application/json")
            .body(Body::from("{\"cents\":1250}"))
            .unwrap();
        let answer = self.router.clone().oneshot(request).await;
        answer.unwrap().status().as_u16()
    }

    /// Runs a recovery worker until it has taken something over.
    pub(crate) async fn recover(&self, version: Version) -> Recovered {
        let mut all = Vec::new();
        until("an operation is taken over", PATIENCE, async || {
            let recovery = DB::recovery(&self.app, version);
            all.extend(recovery.run_once().await.unwrap());
            !all.is_empty()
        })
        .await;
        all[0]
    }

    pub(crate) async fn listed(&self) -> Vec<OperationSummary> {
        let operations = self.app.idempotency.operations();
        operations.list(&List::all()).await.unwrap()
    }

    /// The one operation that is not completed.
    pub(crate) async fn only(&self) -> OperationSummary {
        let mut listed = self.listed().await;
        assert_eq!(listed.len(), 1, "{listed:?}");
        listed.remove(0)
    }

    /// How often the provider was called.
    pub(crate) fn provider_calls(&self) -> &AtomicU32 {
        &self.calls
    }

    pub(crate) async fn number(&self, sql: &str) -> i64 {
        self.database.number(sql).await
    }

    /// Every row of the framework's.
    pub(crate) async fn dump(&self) -> Vec<String> {
        let mut rows = Vec::new();
        for table in ["idem_keys", "idem_operations", "idem_audit"] {
            rows.extend(DB::dump(self.app.idempotency.pool(), table).await);
        }
        rows
    }

    /// Runs `idem` on this database.
    pub(crate) async fn idem(&self, arguments: &[&str]) -> Said {
        idem(Some(self.database.url()), arguments).await
    }
}

/// Runs `idem`.
pub(crate) async fn idem(url: Option<&str>, arguments: &[&str]) -> Said {
    let mut command = Command::new(executable("idem"));
    command
        .args(arguments)
        .env_remove("DATABASE_URL")
        .stdin(Stdio::null());
    if let Some(url) = url {
        command.env("DATABASE_URL", url);
    }
    Said::of(command.output().await.unwrap())
}

/// What a program said.
#[derive(Debug)]
pub(crate) struct Said {
    pub(crate) code: Option<i32>,
    pub(crate) data: String,
    pub(crate) messages: String,
}

impl Said {
    pub(crate) fn of(output: std::process::Output) -> Self {
        Self {
            code: output.status.code(),
            data: String::from_utf8(output.stdout).unwrap(),
            messages: String::from_utf8(output.stderr).unwrap(),
        }
    }

    /// Its data, of a command that did what it was asked for.
    #[track_caller]
    pub(crate) fn done(&self) -> &str {
        assert_eq!(self.code, Some(0), "{self:?}");
        &self.data
    }

    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(self.done()).unwrap()
    }

    /// Of one that did not: what it said, with an exit code.
    #[track_caller]
    pub(crate) fn refused(&self, code: i32) -> &str {
        assert_eq!(self.code, Some(code), "{self:?}");
        assert_eq!(self.data, "", "no data: {self:?}");
        &self.messages
    }
}
