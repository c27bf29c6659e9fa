//! The crash test: what it is given, and what it tells.

use std::fmt;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use futures_util::future::LocalBoxFuture;
use http::Request;

use super::client::MakeRequest;
use super::count::Count;
use super::trial::Trial;
use super::violation::{Phase, Violation};
use crate::response::HeaderPolicy;

/// Recovers what is due now.
pub(super) type Recover = Box<dyn Fn() -> LocalBoxFuture<'static, Result<(), String>>>;

/// A test of what a crash leaves behind: the request runs with a crash at each statement and each step of its handler, is
/// sent again, and must have had one effect.
///
/// ```
/// # #[cfg(feature = "sqlite")] {
/// use axum::body::Body;
/// use http::Request;
/// use idem_runtime::steps::Recovery;
/// use idem_runtime::testing::Crashes;
/// use sqlx::{Sqlite, SqlitePool};
///
/// # #[derive(Clone)] struct AppState;
/// async fn a_crash_charges_nobody_twice(
///     instances: Vec<axum::Router>,
///     recovery: Recovery<Sqlite, AppState>, // with the handler registered
///     watcher: SqlitePool,
/// ) {
///     let count = |sql: &'static str, pool: SqlitePool| async move {
///         sqlx::query_scalar::<_, u32>(sql).fetch_one(&pool).await.map(u64::from)
///     };
///     let provider = watcher.clone();
///     Crashes::new(instances)
///         .request(|key| {
///             Request::post("/charges")
///                 .header("idempotency-key", format!("\"{key}\""))
///                 .header("content-type", "application/json")
///                 .body(Body::from(r#"{"cents":1250}"#))
///                 .expect("a request")
///         })
///         .effects(async move || count("SELECT count(*) FROM orders", watcher.clone()).await)
///         .calls(async move || count("SELECT count(*) FROM charges_at_provider", provider.clone()).await)
///         .recovery(async move || recovery.run_once().await)
///         .assert()
///         .await;
/// }
/// # }
/// ```
///
/// First the request runs as it is, which shows what it passes: `begin.before`, `handler.statement` for each statement,
/// `call.before` and `call.after` for each external call, `commit.before`, `answer` and so on. Then, for each of these points
/// and with a key of its own, the attempt ends there, as with its process: it writes and calls nothing more, its transaction
/// is rolled back, its lease is left to end, and its client gets no answer. The client sends the request again, to the next
/// instance, while recovery runs. Wanted are, at each point:
///
/// * one effect, and as many calls of another service as the request makes without a crash;
/// * an answer with the same status, and for one more retry the same answer, marked `Idempotent-Replayed`.
///
/// # Handlers with recovery points
///
/// After a crash an operation belongs to the lost attempt until its lease is over, and each point after the claim waits for
/// that. The 30 seconds of the default make a long test; a test's own [`Idempotency`](crate::Idempotency) has a short one:
///
/// ```
/// # #[cfg(feature = "sqlite")] {
/// # fn f(pool: sqlx::SqlitePool) -> Result<(), idem_runtime::StartupError> {
/// use std::time::Duration;
///
/// let idempotency = idem_runtime::Idempotency::builder(pool)
///     .store_timeout(Duration::from_millis(500))
///     .lease(Duration::from_secs(1))
///     .retry_pause(Duration::from_millis(50))
///     .build()?;
/// # Ok(()) }
/// # }
/// ```
///
/// # What it does not show
///
/// The attempt unwinds, where a process is killed: destructors run, tasks that the handler started go on, and other requests
/// live. A step that says `key_lifetime` is called again when the lease is over, and never after the provider forgot its key.
/// Crashes inside one statement, between the statements of a transaction that the handler begins inside its own, or in recovery
/// itself, are not made.
pub struct Crashes {
    pub(super) instances: Vec<Router>,
    request: Option<MakeRequest>,
    effects: Option<Count>,
    calls: Option<Count>,
    recovery: Option<Recover>,
    pub(super) unknown_allowed: bool,
    pub(super) patience: Duration,
    grace: Duration,
    pub(super) policy: HeaderPolicy,
}

/// What a crash test that was passed had seen.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct CrashReport {
    /// The points, in the order in which an attempt passes them.
    pub points: Vec<CrashPoint>,
}

/// A crash that was survived.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct CrashPoint {
    /// What the point is called.
    pub name: &'static str,
    /// How the operation ended.
    pub end: CrashEnd,
}

/// How an operation ended after a crash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CrashEnd {
    /// With its answer, and one effect.
    Answered,
    /// With an outcome that is unknown until an operator resolves it, and one effect at most.
    Unknown,
}

impl Crashes {
    /// A test of one handler, served by some instances of its router. They stand for processes: build each from an
    /// [`Idempotency`](crate::Idempotency) and a pool of its own, on one database.
    ///
    /// The handler must run in the task of its request: no middleware may move it to another.
    #[must_use]
    pub fn new(instances: Vec<Router>) -> Crashes {
        Crashes {
            instances,
            request: None,
            effects: None,
            calls: None,
            recovery: None,
            unknown_allowed: false,
            patience: Duration::from_secs(30),
            grace: Duration::from_millis(200),
            policy: HeaderPolicy::default(),
        }
    }

    /// The request, as a function of its key (a new UUID for each use), which goes into its `Idempotency-Key`. Called with one
    /// key it must make equal requests, and a first use must succeed.
    #[must_use]
    pub fn request(mut self, request: impl Fn(&str) -> Request<Body> + 'static) -> Crashes {
        self.request = Some(Box::new(request));
        self
    }

    /// Counts all effects that there are; a request is expected to add one. It must read what is committed, on a connection
    /// of its own, and nothing else may add effects meanwhile.
    #[must_use]
    pub fn effects<F, E>(mut self, effects: F) -> Crashes
    where
        F: AsyncFn() -> Result<u64, E> + 'static,
        E: fmt::Display,
    {
        self.effects = Some(Count::new(effects));
        self
    }

    /// Counts what the handler's calls did at the other service, a test's own: charges, not requests that the service
    /// recognised by their key. A request is expected to add what it adds without a crash, one at least.
    #[must_use]
    pub fn calls<F, E>(mut self, calls: F) -> Crashes
    where
        F: AsyncFn() -> Result<u64, E> + 'static,
        E: fmt::Display,
    {
        self.calls = Some(Count::new(calls));
        self
    }

    /// Recovers what is due, for a handler with recovery points: [`Recovery::run_once`](crate::steps::Recovery::run_once). It
    /// is called until the retry has its answer. Without, a recovery worker must run.
    #[must_use]
    pub fn recovery<F, T, E>(mut self, recover: F) -> Crashes
    where
        F: AsyncFn() -> Result<T, E> + 'static,
        E: fmt::Display,
    {
        let recover = std::sync::Arc::new(recover);
        self.recovery = Some(Box::new(move || {
            let recover = recover.clone();
            Box::pin(async move { recover().await.map(drop).map_err(|error| error.to_string()) })
        }));
        self
    }

    /// An operation may end as *unknown*, with at most one effect and at most the usual calls: a handler with a step that says
    /// `at_most_once` can't promise more.
    #[must_use]
    pub fn unknown_allowed(mut self) -> Crashes {
        self.unknown_allowed = true;
        self
    }

    /// How long a request may go without an answer, the retries after a crash included: 30 seconds unless said. For a handler
    /// with recovery points, longer than the lease.
    #[must_use]
    pub fn patience(mut self, patience: Duration) -> Crashes {
        self.patience = patience;
        self
    }

    /// How long late effects are waited for at the end: 200 milliseconds unless said.
    #[must_use]
    pub fn grace(mut self, grace: Duration) -> Crashes {
        self.grace = grace;
        self
    }

    /// Which header fields a replay keeps, where the service's own policy is not the default.
    #[must_use]
    pub fn headers(mut self, policy: HeaderPolicy) -> Crashes {
        self.policy = policy;
        self
    }

    /// Runs the test.
    ///
    /// # Panics
    ///
    /// If a crash breaks the contract; the message says at which point, and how.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe, but the requests that were sent go on.
    pub async fn assert(self) -> CrashReport {
        match self.check().await {
            Ok(report) => report,
            Err(violation) => panic!("a crash breaks the idempotency contract\n  {violation}"),
        }
    }

    /// Runs the test.
    ///
    /// # Errors
    ///
    /// The first [`Violation`] of the contract.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe, but the requests that were sent go on.
    pub async fn check(self) -> Result<CrashReport, Violation> {
        let trial = Trial {
            request: self
                .request
                .as_deref()
                .ok_or(Violation::Incomplete("a request: call `.request(..)`"))?,
            effects: self.effects.as_ref().ok_or(Violation::Incomplete(
                "a count of effects: call `.effects(..)`",
            ))?,
            calls: self.calls.as_ref(),
            recovery: self.recovery.as_deref(),
            crashes: &self,
        };
        if self.instances.is_empty() {
            return Err(Violation::Incomplete("an instance of the router"));
        }
        let usual = trial.undisturbed().await?;
        let mut points = Vec::new();
        for number in 1.. {
            match trial.crashed(number, &usual).await? {
                Some(point) => points.push(point),
                // The first attempt of an instance may pass more than the others: it asks what the database can do.
                None if number > usual.points => break,
                None => {}
            }
        }
        let last = trial.counted(Phase::Aftermath).await?;
        tokio::time::sleep(self.grace).await;
        trial.none_since(&last).await?;
        Ok(CrashReport { points })
    }
}

impl fmt::Debug for Crashes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Crashes")
            .field("instances", &self.instances.len())
            .field("unknown_allowed", &self.unknown_allowed)
            .finish_non_exhaustive()
    }
}

impl fmt::Display for CrashReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, CrashPoint { name, end }) in self.points.iter().enumerate() {
            let separator = if index == 0 { "" } else { "\n" };
            let end = match end {
                CrashEnd::Answered => "answered",
                CrashEnd::Unknown => "unknown",
            };
            write!(
                f,
                "{separator}crash at point {}, `{name}`: {end}",
                index + 1
            )?;
        }
        Ok(())
    }
}
