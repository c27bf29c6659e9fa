//! A database, a provider of a few lines, and handlers that are deployed over them.

use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::body::Body;
use axum::extract::FromRef;
use axum::http::response::Parts;
use axum::http::{Request, StatusCode};
use axum::response::{IntoResponse, Response};
use idem_runtime::operations::{List, OperationState};
use idem_runtime::steps::{CallFailure, Classify, DownstreamKey, Recovered, Recovery};
use idem_runtime::{AssertEffectFree, External, Idempotency};
use idem_tests::servers::{Backend, TestDatabase};
use idem_tests::wait::{PATIENCE, until};
use serde::{Deserialize, Serialize};
use sqlx::pool::PoolOptions;
use tower::ServiceExt;
use tracing_subscriber::fmt::MakeWriter;

use super::deployed::{Tested, Version};

pub(crate) const MAX_ATTEMPTS: u32 = 3;

pub(crate) struct App<DB: idem_runtime::Backend> {
    idempotency: Idempotency<DB>,
    gateway: External<Gateway>,
    fails: Switch,
}

impl<DB: idem_runtime::Backend> Clone for App<DB> {
    fn clone(&self) -> Self {
        Self {
            idempotency: self.idempotency.clone(),
            gateway: self.gateway.clone(),
            fails: self.fails.clone(),
        }
    }
}

impl<DB: idem_runtime::Backend> App<DB> {
    pub(crate) fn recovery(&self) -> Recovery<DB, App<DB>> {
        self.idempotency.recovery(self.clone())
    }
}

impl<DB: idem_runtime::Backend> FromRef<App<DB>> for Idempotency<DB> {
    fn from_ref(app: &App<DB>) -> Self {
        app.idempotency.clone()
    }
}

impl<DB: idem_runtime::Backend> FromRef<App<DB>> for External<Gateway> {
    fn from_ref(app: &App<DB>) -> Self {
        app.gateway.clone()
    }
}

impl<DB: idem_runtime::Backend> FromRef<App<DB>> for AssertEffectFree<Switch> {
    fn from_ref(app: &App<DB>) -> Self {
        AssertEffectFree::new(app.fails.clone(), "what a test wants, in memory")
    }
}

/// Whether the next last step fails.
#[derive(Clone, Default)]
pub(crate) struct Switch(Arc<AtomicBool>);

impl Switch {
    pub(crate) fn take(&self) -> bool {
        self.0.swap(false, Ordering::SeqCst)
    }
}

/// What the provider does now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answering {
    Charged,
    /// The answers are lost.
    Lost,
    /// It says *not yet*, and perhaps when.
    Busy(Option<Duration>),
    Never,
}

#[derive(Clone)]
pub(crate) struct Gateway(Arc<(Mutex<Answering>, AtomicUsize)>);

impl Gateway {
    pub(crate) fn answers(&self, answering: Answering) {
        *self.0.0.lock().expect("no holder panics") = answering;
    }

    /// How often it was called.
    pub(crate) fn calls(&self) -> usize {
        self.0.1.load(Ordering::SeqCst)
    }

    pub(crate) async fn charge(&self, _: &DownstreamKey, _: &u64) -> Result<String, NoCharge> {
        self.0.1.fetch_add(1, Ordering::SeqCst);
        let answering = *self.0.0.lock().expect("no holder panics");
        match answering {
            Answering::Charged => Ok("ch_1".to_owned()),
            Answering::Lost => Err(NoCharge::Lost),
            Answering::Busy(after) => Err(NoCharge::NotYet(after)),
            Answering::Never => std::future::pending().await,
        }
    }
}

pub(crate) enum NoCharge {
    /// Nobody knows.
    Lost,
    NotYet(Option<Duration>),
}

/// The refusal.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Busy;

impl Classify for NoCharge {
    type Refusal = Busy;

    fn classify(self) -> CallFailure<Busy> {
        match self {
            Self::Lost => CallFailure::Unknown("the answer is lost".to_owned()),
            Self::NotYet(after) => CallFailure::NotYet {
                refusal: Busy,
                after,
            },
        }
    }
}

#[derive(Debug)]
pub(crate) struct Failed;

impl From<sqlx::Error> for Failed {
    fn from(_: sqlx::Error) -> Self {
        Self
    }
}

impl From<Busy> for Failed {
    fn from(_: Busy) -> Self {
        Self
    }
}

impl IntoResponse for Failed {
    fn into_response(self) -> Response {
        StatusCode::UNPROCESSABLE_ENTITY.into_response()
    }
}

pub(crate) struct Shop<DB: Tested> {
    pub(crate) idempotency: Idempotency<DB>,
    pub(crate) gateway: Gateway,
    app: App<DB>,
    database: TestDatabase,
}

impl<DB: Tested> Shop<DB> {
    pub(crate) async fn open(backend: Backend) -> Self {
        Self::open_with(backend, Duration::from_millis(10)).await
    }

    /// With another pause between two attempts.
    pub(crate) async fn open_with(backend: Backend, retry_pause: Duration) -> Self {
        let database = TestDatabase::create(backend).await;
        let pool = idem_runtime::guard(PoolOptions::<DB>::new())
            .connect(database.url())
            .await
            .expect("the database is there");
        let idempotency = Idempotency::builder(pool)
            .round_trips(backend.round_trips())
            .wait(Duration::from_millis(100))
            .store_timeout(Duration::from_secs(10))
            .retry_pause(retry_pause)
            .max_attempts(MAX_ATTEMPTS)
            .build()
            .expect("the settings make sense");
        idempotency.migrate().await.expect("the schema is made");
        database
            .execute("CREATE TABLE things (step TEXT NOT NULL)")
            .await
            .expect("the table is made");
        let gateway = Gateway(Arc::new((
            Mutex::new(Answering::Charged),
            AtomicUsize::new(0),
        )));
        let app = App {
            idempotency: idempotency.clone(),
            gateway: External::new(gateway.clone()),
            fails: Switch::default(),
        };
        Shop {
            idempotency,
            gateway,
            app,
            database,
        }
    }

    /// The last step fails, the next time.
    pub(crate) fn fails_once(&self) {
        self.app.fails.0.store(true, Ordering::SeqCst);
    }

    /// The answer to the one request of this shop, and its body.
    pub(crate) async fn answer(&self, version: Version) -> (Parts, String) {
        let request = Request::post("/accounts/7/charges")
            .header("idempotency-key", "\"k\"")
            .body(Body::empty())
            .expect("a request");
        let router = DB::router(self.app.clone(), version);
        let answer = router.oneshot(request).await.expect("infallible");
        let (parts, body) = answer.into_parts();
        let body = axum::body::to_bytes(body, usize::MAX).await;
        let body = String::from_utf8_lossy(&body.expect("a body")).into_owned();
        (parts, body)
    }

    /// Its status and body.
    pub(crate) async fn send(&self, version: Version) -> (u16, String) {
        let (answer, body) = self.answer(version).await;
        (answer.status.as_u16(), body)
    }

    /// The first handler leaves its operation behind with a charge of which nothing was heard. The provider answers
    /// from then on.
    pub(crate) async fn left_behind(&self) {
        self.gateway.answers(Answering::Lost);
        let answer = self.send(Version::First).await;
        assert_eq!(answer.0, 409, "it goes on later: {answer:?}");
        assert_eq!(self.things("reserve").await, 1);
        self.gateway.answers(Answering::Charged);
    }

    pub(crate) fn recovery(&self, version: Version) -> Recovery<DB, App<DB>> {
        DB::recovery(&self.app, version)
    }

    /// What a worker makes of what is due, as soon as something is.
    pub(crate) async fn recovered(&self, version: Version) -> Vec<Recovered> {
        let recovery = self.recovery(version);
        let mut all = Vec::new();
        until("it is due", PATIENCE, async || {
            all = recovery.run_once().await.expect("the store is there");
            !all.is_empty()
        })
        .await;
        all
    }

    /// Does not wait until the next attempt is due.
    pub(crate) async fn make_due(&self) {
        let past = if self.database.backend().is_postgres() {
            "now()"
        } else {
            "0"
        };
        let due = format!("UPDATE idem_operations SET due_at = {past} WHERE due_at IS NOT NULL");
        let due = self.database.execute(&due).await;
        assert_eq!(due.expect("the database answers"), 1);
    }

    /// The one operation was kept as unknown for this reason, and nobody takes it up again by himself.
    pub(crate) async fn assert_parked(&self, recovered: &[Recovered], reason: &str) {
        assert_eq!(recovered, [Recovered::Unknown], "{reason}");
        let listed = self.idempotency.operations().list(&List::all()).await;
        let listed = listed.expect("the operations are listed");
        let [operation] = listed.as_slice() else {
            panic!("one operation: {listed:?}");
        };
        assert_eq!(operation.state, OperationState::Unknown);
        let said = operation.reason.as_deref().unwrap_or_default();
        assert!(said.contains(reason), "{reason}: {said}");
        let again = self.recovery(Version::First).run_once().await;
        assert_eq!(again.expect("the store is there"), []);
        let answer = self.send(Version::First).await;
        assert_eq!(answer.0, 409, "{answer:?}");
        assert!(
            answer.1.contains("idempotency-outcome-unknown"),
            "{answer:?}"
        );
    }

    /// The rows of a step.
    pub(crate) async fn things(&self, step: &str) -> i64 {
        let sql = format!("SELECT COUNT(*) FROM things WHERE step = '{step}'");
        self.database.number(&sql).await
    }

    /// How many attempts of the one operation count.
    pub(crate) async fn tries(&self) -> i32 {
        let listed = self.idempotency.operations().list(&List::all()).await;
        let listed = listed.expect("the operations are listed");
        listed.first().expect("there is one").tries
    }
}

/// What the library says on this thread.
#[derive(Clone, Default)]
pub(crate) struct Said(Arc<Mutex<Vec<u8>>>);

impl Said {
    pub(crate) fn contains(&self, text: &str) -> bool {
        let said = self.0.lock().expect("no holder panics");
        String::from_utf8_lossy(&said).contains(text)
    }
}

impl Write for Said {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().expect("no holder panics").write(bytes)
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

/// Listens until the guard is dropped.
pub(crate) fn listen() -> (Said, tracing::subscriber::DefaultGuard) {
    let said = Said::default();
    let subscriber = tracing_subscriber::fmt()
        .with_writer(said.clone())
        .with_ansi(false)
        .finish();
    (said, tracing::subscriber::set_default(subscriber))
}
