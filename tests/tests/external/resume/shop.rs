//! A database, a provider of a few lines, and handlers that are deployed over them.

use std::io::{self, Write};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::FromRef;
use axum::handler::Handler;
use axum::http::{Request, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use idem_runtime::operations::List;
use idem_runtime::steps::{CallFailure, Classify, DownstreamKey, Never, Recovered, Recovery};
use idem_runtime::{External, Idempotency};
use idem_tests::servers::{Backend, TestDatabase};
use idem_tests::wait::{PATIENCE, until};
use sqlx::Sqlite;
use sqlx::pool::PoolOptions;
use tower::ServiceExt;
use tracing_subscriber::fmt::MakeWriter;

pub(crate) const MAX_ATTEMPTS: u32 = 3;

#[derive(Clone, FromRef)]
pub(crate) struct App {
    idempotency: Idempotency<Sqlite>,
    gateway: External<Gateway>,
}

/// What the provider does now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answering {
    Charged,
    /// The answers are lost.
    Lost,
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

    pub(crate) async fn charge(&self, _: &DownstreamKey, _: &u64) -> Result<String, Lost> {
        self.0.1.fetch_add(1, Ordering::SeqCst);
        let answering = *self.0.0.lock().expect("no holder panics");
        match answering {
            Answering::Charged => Ok("ch_1".to_owned()),
            Answering::Lost => Err(Lost),
            Answering::Never => std::future::pending().await,
        }
    }
}

/// Nobody knows.
pub(crate) struct Lost;

impl Classify for Lost {
    type Refusal = Never;

    fn classify(self) -> CallFailure<Never> {
        CallFailure::Unknown("the answer is lost".to_owned())
    }
}

#[derive(Debug)]
pub(crate) struct Failed;

impl From<sqlx::Error> for Failed {
    fn from(_: sqlx::Error) -> Self {
        Self
    }
}

impl From<Never> for Failed {
    fn from(never: Never) -> Self {
        match never {}
    }
}

impl IntoResponse for Failed {
    fn into_response(self) -> Response {
        StatusCode::UNPROCESSABLE_ENTITY.into_response()
    }
}

pub(crate) struct Shop {
    pub(crate) idempotency: Idempotency<Sqlite>,
    pub(crate) gateway: Gateway,
    app: App,
    database: TestDatabase,
}

impl Shop {
    pub(crate) async fn open() -> Shop {
        let database = TestDatabase::create(Backend::Sqlite).await;
        let pool = idem_runtime::guard(PoolOptions::<Sqlite>::new())
            .connect(database.url())
            .await
            .expect("the database is there");
        let idempotency = Idempotency::builder(pool)
            .wait(Duration::from_millis(100))
            .retry_pause(Duration::from_millis(10))
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
        };
        Shop {
            idempotency,
            gateway,
            app,
            database,
        }
    }

    pub(crate) fn router<H, T>(&self, handler: H) -> Router
    where
        H: Handler<T, App>,
        T: 'static,
    {
        Router::new()
            .route("/accounts/{account}/charges", post(handler))
            .with_state(self.app.clone())
    }

    /// Status and body of the one request of this shop.
    pub(crate) async fn send(&self, router: Router) -> (u16, String) {
        let request = Request::post("/accounts/7/charges")
            .header("idempotency-key", "\"k\"")
            .body(Body::empty())
            .expect("a request");
        let answer = router.oneshot(request).await.expect("infallible");
        let status = answer.status().as_u16();
        let body = axum::body::to_bytes(answer.into_body(), usize::MAX).await;
        let body = String::from_utf8_lossy(&body.expect("a body")).into_owned();
        (status, body)
    }

    /// The first handler leaves its operation behind with a charge of which nothing was heard. The provider answers
    /// from then on.
    pub(crate) async fn left_behind(&self) {
        self.gateway.answers(Answering::Lost);
        let answer = self.send(self.router(super::deployed::charge)).await;
        assert_eq!(answer.0, 409, "it goes on later: {answer:?}");
        assert_eq!(self.things("reserve").await, 1);
        self.gateway.answers(Answering::Charged);
    }

    pub(crate) fn recovery(&self) -> Recovery<Sqlite, App> {
        self.idempotency.recovery(self.app.clone())
    }

    /// What a worker makes of what is due, as soon as something is.
    pub(crate) async fn recovered(
        &self,
        register: impl FnOnce(Recovery<Sqlite, App>) -> Recovery<Sqlite, App>,
    ) -> Vec<Recovered> {
        let recovery = register(self.recovery());
        let mut all = Vec::new();
        until("it is due", PATIENCE, async || {
            all = recovery.run_once().await.expect("the store is there");
            !all.is_empty()
        })
        .await;
        all
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
