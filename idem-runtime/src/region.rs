//! Where an account's writes go, when a service runs in several regions with a database in each.
//!
//! A key can be claimed in one place only. With a database in each region that place is the account's *home region*, and
//! [`IdempotencyBuilder::home_region`](crate::IdempotencyBuilder::home_region) says how it is looked up. A request of an account
//! with another home is answered 421 `idempotency-wrong-region` with the region's name, and its address if there is one; no body is
//! read, no key claimed, and no handler runs.
//!
//! ```
//! # #[cfg(feature = "sqlite")] {
//! # use std::{collections::HashMap, sync::{Arc, RwLock}};
//! use idem_runtime::Idempotency;
//! use idem_runtime::problem::UriReference;
//! use idem_runtime::region::Region;
//! use idem_runtime::scope::ScopeKey;
//!
//! # fn build(pool: sqlx::SqlitePool) -> Result<(), Box<dyn std::error::Error>> {
//! /// Homes by tenant, kept up to date by a task.
//! let homes: Arc<RwLock<HashMap<ScopeKey, String>>> = Arc::default();
//! let idempotency = Idempotency::builder(pool)
//!     .home_region("west", move |scope: ScopeKey| {
//!         // The owner is (tenant, user): a tenant moves as a whole.
//!         let tenant = scope.parts().into_iter().next();
//!         let home = tenant.and_then(|tenant| homes.read().ok()?.get(&tenant).cloned());
//!         async move {
//!             let name = home.ok_or("no such tenant")?;
//!             let url = UriReference::parse(format!("https://{name}.api.example"))?;
//!             Ok::<_, Box<dyn std::error::Error + Send + Sync>>(Region::new(name).url(url))
//!         }
//!     })
//!     .build()?;
//! # Ok(()) }
//! # }
//! ```
//!
//! # What is checked
//!
//! | | asked | where the home is elsewhere |
//! |---|---|---|
//! | a request, with a key or without | after `authorize`, before its body is read, and after one that came slowly | 421; while the account [moves](Home::Moving), or when the lookup fails, 503 |
//! | an operation with recovery points, when a worker takes it over | before its handler runs | it is put back, and looked at again a minute later |
//! | a message of a consumer | where the consumer calls [`Tx::at_home`] | as the consumer answers the error: `?` leaves it to be delivered again |
//!
//! A message has no owner that the library knows, so nothing is asked for it by itself: give each region the messages of its own
//! accounts.
//!
//! A request without a key (`key = "optional"`) is refused as well. It would be written where the account's other writes
//! are not, and no move would take it along.
//!
//! The check precedes the claim, and comes again after a body that took longer than a second to arrive; the commit has none.
//! Whoever moves an account says [`Home::Moving`] until all
//! that was in flight is over; `docs/scaling.md` has the steps.

use std::fmt;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tokio::time::timeout;

use crate::backend::Backend;
use crate::guard;
use crate::idempotency::Idempotency;
use crate::operation::Spec;
use crate::outbox::BoxError;
use crate::problem::{Code, Problem, UriReference};
use crate::scope::{Scope, ScopeKey};
use crate::settle::{Disposition, ErrorKind};
use crate::telemetry::Signal;
use crate::tx::Tx;

/// How long the lookup's word holds for a request whose body is still on its way.
pub(crate) const ADMITTED_FOR: Duration = Duration::from_secs(1);

/// A region: its name, and where clients reach it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Region {
    name: String,
    url: Option<UriReference>,
}

impl Region {
    /// A region by its name, which clients are shown.
    #[must_use]
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            url: None,
        }
    }

    /// Where clients reach it; sent as the answer's `region_url`.
    #[must_use]
    pub fn url(mut self, url: UriReference) -> Self {
        self.url = Some(url);
        self
    }

    /// The name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The address, where there is one.
    #[must_use]
    pub fn address(&self) -> Option<&UriReference> {
        self.url.as_ref()
    }
}

/// Where an account's writes go.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Home {
    /// To this region.
    Region(Region),
    /// Nowhere for the moment: the account moves from one region to another. Requests are answered 503.
    Moving,
}

impl From<Region> for Home {
    fn from(region: Region) -> Self {
        Self::Region(region)
    }
}

/// Why an account must not be written here.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NotHome {
    /// Its home is another region.
    #[error("the account's home is the region `{}`", .0.name())]
    Elsewhere(Region),
    /// It moves from one region to another.
    #[error("the account moves from one region to another")]
    Moving,
    /// The lookup failed, panicked, or took longer than `store_timeout`.
    #[error("the account's home region can't be found out: {0}")]
    Unknown(#[source] BoxError),
}

/// It may be at home later, or found out.
impl Disposition for NotHome {
    fn disposition(&self) -> ErrorKind {
        ErrorKind::Transient
    }

    fn cause(&self) -> Option<&(dyn std::error::Error + 'static)> {
        std::error::Error::source(self)
    }
}

type Lookup = dyn Fn(ScopeKey) -> BoxFuture<'static, Result<Home, BoxError>> + Send + Sync;

/// This process's region, and how an account's is found out.
#[derive(Clone)]
pub(crate) struct HomeRegion {
    here: String,
    lookup: Arc<Lookup>,
}

impl HomeRegion {
    pub(crate) fn new<L, F, H, E>(here: String, lookup: L) -> Self
    where
        L: Fn(ScopeKey) -> F + Send + Sync + 'static,
        F: Future<Output = Result<H, E>> + Send + 'static,
        H: Into<Home>,
        E: Into<BoxError>,
    {
        Self {
            here,
            lookup: Arc::new(move |scope| {
                let found = lookup(scope);
                async move { found.await.map(Into::into).map_err(Into::into) }.boxed()
            }),
        }
    }

    /// Whether the region has a name.
    pub(crate) fn is_named(&self) -> bool {
        !self.here.is_empty()
    }

    /// Fails closed: what is not known to be at home is not written.
    async fn expect(&self, scope: &ScopeKey, limit: Duration) -> Result<(), NotHome> {
        // It is the application's code: a panic must not drop the connection, and the closure may panic as well as its future.
        let lookup = AssertUnwindSafe(async { (self.lookup)(scope.clone()).await }).catch_unwind();
        // It may use a pool with the guard, and is no effect.
        match guard::unwatched(timeout(limit, lookup)).await {
            Ok(Ok(Ok(Home::Region(home)))) if home.name == self.here => Ok(()),
            Ok(Ok(Ok(Home::Region(home)))) => Err(NotHome::Elsewhere(home)),
            Ok(Ok(Ok(Home::Moving))) => Err(NotHome::Moving),
            Ok(Ok(Err(error))) => Err(NotHome::Unknown(error)),
            Ok(Err(_)) => Err(NotHome::Unknown("the lookup panicked".into())),
            Err(_) => {
                let error = format!("the lookup took longer than {limit:?}");
                Err(NotHome::Unknown(error.into()))
            }
        }
    }
}

impl fmt::Debug for HomeRegion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HomeRegion")
            .field("here", &self.here)
            .finish_non_exhaustive()
    }
}

/// What a request is told whose account is not at home.
pub(crate) struct Misdirected {
    pub(crate) problem: Problem,
    pub(crate) signal: Signal,
}

impl<DB: Backend> Idempotency<DB> {
    /// Whether this region is the owner's home, for code of your own that writes beside handlers: a job, a consumer of messages.
    /// Always, where no [`home_region`](crate::IdempotencyBuilder::home_region) is set.
    ///
    /// # Errors
    ///
    /// [`NotHome`], when it must not be written here.
    ///
    /// # Cancel safety
    ///
    /// As cancel safe as the lookup is.
    pub async fn at_home<T: Scope + ?Sized>(&self, owner: &T) -> Result<(), NotHome> {
        self.expect_home(&ScopeKey::of(owner)).await
    }

    pub(crate) async fn expect_home(&self, scope: &ScopeKey) -> Result<(), NotHome> {
        let settings = &self.shared.settings;
        match &settings.home {
            Some(home) => home.expect(scope, settings.store_timeout).await,
            None => Ok(()),
        }
    }

    /// Whether a request of the owner's may go on here.
    pub(crate) async fn admit(&self, scope: &ScopeKey, spec: &Spec) -> Result<(), Misdirected> {
        if self.shared.settings.home.is_none() {
            return Ok(());
        }
        // What no database can store is no question for one either.
        if !scope.is_storable() {
            return Err(Misdirected {
                problem: Problem::new(Code::ScopeInvalid),
                signal: Signal::Refused,
            });
        }
        let (problem, signal) = match self.expect_home(scope).await {
            Ok(()) => return Ok(()),
            Err(NotHome::Elsewhere(region)) => (
                Problem::new(Code::WrongRegion).region(region),
                Signal::WrongRegion,
            ),
            Err(NotHome::Moving) => (Problem::new(Code::RegionUnavailable), Signal::WrongRegion),
            Err(NotHome::Unknown(error)) => {
                tracing::error!(target: "idem", operation = spec.name, %error, "an account's home region can't be found out");
                (Problem::new(Code::RegionUnavailable), Signal::StoreFailure)
            }
        };
        Err(Misdirected { problem, signal })
    }
}

impl<DB: Backend> Tx<DB> {
    /// Whether this region is the owner's home, in a consumer: a message has no owner that is known before its body is read.
    /// Requests are checked before their handler runs.
    ///
    /// # Errors
    ///
    /// [`NotHome`], which a consumer that returns it is delivered again for.
    ///
    /// # Cancel safety
    ///
    /// As cancel safe as the lookup is.
    pub async fn at_home<T: Scope + ?Sized>(&self, owner: &T) -> Result<(), NotHome> {
        self.idempotency().at_home(owner).await
    }
}
