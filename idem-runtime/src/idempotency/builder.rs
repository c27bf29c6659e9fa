//! Settings of a user's own.

use std::sync::Arc;
use std::time::Duration;

use sqlx::Pool;

use super::{Idempotency, Settings, StartupError};
use crate::backend::{Backend, Isolation, RoundTrips};
use crate::cipher::PayloadCipher;
use crate::operation::{Errors, Expired, InFlight};
use crate::outbox::{BoxError, TraceContext, TraceHook};
use crate::problem::{ProblemStyle, UriReference};
use crate::region::{Home, HomeRegion};
use crate::response::HeaderPolicy;
use crate::scope::ScopeKey;

/// The defaults of all handlers of one database, and what no attribute can say.
///
/// | setting | default |
/// |---|---|
/// | [`ttl`](Self::ttl) | 24 hours |
/// | [`wait`](Self::wait) | 5 seconds |
/// | [`errors`](Self::errors) | release |
/// | [`in_flight`](Self::in_flight) | wait |
/// | [`expired`](Self::expired) | execute |
/// | [`tombstone`](Self::tombstone) | 30 days, only with `expired` = reject |
/// | [`timeout`](Self::timeout) | 30 seconds; a handler with steps has 2 minutes unless its attribute says |
/// | [`max_body`](Self::max_body) | 2 MiB |
/// | [`max_response`](Self::max_response) | 1 MiB |
/// | [`max_in_flight`](Self::max_in_flight) | 1024 |
/// | [`max_waiting`](Self::max_waiting) | 4096 |
/// | [`store_timeout`](Self::store_timeout) | 1.5 seconds |
/// | [`writer_timeout`](Self::writer_timeout) | 10 seconds |
/// | [`bare_keys`](Self::bare_keys) | accepted |
/// | [`isolation`](Self::isolation) | the database's own default |
/// | [`lease`](Self::lease) | 30 seconds |
/// | [`max_attempts`](Self::max_attempts) | 30 |
/// | [`retry_pause`](Self::retry_pause) | 1 second |
/// | [`hints`](Self::hints) | yes |
/// | [`round_trips`](Self::round_trips) | as few as possible |
/// | [`transaction_pooling`](Self::transaction_pooling) | no |
/// | [`max_message`](Self::max_message) | 1 MiB |
/// | [`notify`](Self::notify) | yes |
/// | [`trace_context`](Self::trace_context) | the request's |
/// | [`home_region`](Self::home_region) | every account is at home |
#[derive(Debug)]
pub struct IdempotencyBuilder<DB: Backend> {
    pool: Pool<DB>,
    settings: Settings,
}

macro_rules! settings {
    ($($(#[$docs:meta])* $name:ident: $type:ty),* $(,)?) => {
        $(
            $(#[$docs])*
            #[must_use]
            pub fn $name(mut self, $name: $type) -> Self {
                self.settings.$name = $name;
                self
            }
        )*
    };
}

impl<DB: Backend> IdempotencyBuilder<DB> {
    pub(super) fn new(pool: Pool<DB>) -> Self {
        Self {
            pool,
            settings: Settings::default(),
        }
    }

    settings! {
        /// How long a stored answer is replayed, from its storing.
        ttl: Duration,
        /// How long a duplicate waits for the first request's answer before it is told 409.
        wait: Duration,
        /// How long after its `ttl` a key stays refused, where expired keys are.
        tombstone: Duration,
        /// How long a handler may run, its answer's body included.
        timeout: Duration,
        /// What becomes of a key whose handler answered `Err`.
        errors: Errors,
        /// What a duplicate of a running request is told.
        in_flight: InFlight,
        /// What a key does past its `ttl`.
        expired: Expired,
        /// The largest request body, in bytes.
        max_body: usize,
        /// The largest answer that is stored, in bytes.
        max_response: usize,
        /// The largest message of the [outbox](crate::Tx::outbox), its headers included, in bytes.
        max_message: usize,
        /// Whether a commit with staged messages notifies the relays of other processes (PostgreSQL). Its transactions
        /// take a lock of the whole database when they commit; switched off, those relays find messages by polling. One
        /// process's own relays are woken all the same.
        notify: bool,
        /// How many attempts may run in this process; more are answered 503.
        max_in_flight: usize,
        /// How many duplicates may wait in this process; more are answered 503.
        max_waiting: usize,
        /// How long the store may take to begin a transaction and to take a key, before the request is
        /// answered 503. The handler's own statements are not meant.
        store_timeout: Duration,
        /// How long a request waits for its turn to write while other handlers of this process have theirs, before it is answered
        /// 503, where the database has one writer at a time (SQLite). Never longer than its handler may run (`timeout`), nor
        /// shorter than [`store_timeout`](Self::store_timeout): that counts from when the database was last seen to work, so
        /// that one that does not answer keeps nobody for longer.
        writer_timeout: Duration,
        /// Whether keys without quotes are accepted, as nearly every client sends them.
        bare_keys: bool,
        /// The first integer of PostgreSQL's two-integer advisory locks: change it where an application's
        /// own locks use the same.
        lock_namespace: i32,
        /// Whether statements are sent that only spare work, and that nothing right depends on: yes unless said. Switch them off on
        /// an engine that speaks as PostgreSQL or MySQL does, and has no such functions, or has them do something else.
        ///
        /// On PostgreSQL they are the advisory locks, [notifications](Self::notify), and the summarizing of the index of expiries after a
        /// sweep; on PostgreSQL, MySQL and MariaDB the cancelling of a statement that a handler left running when its time was over.
        /// Without the locks duplicates in *one* process still wait for the first, without a connection. Of two in
        /// two processes both run, and the unique index lets one commit: the other holds its connection until that one has ended, is rolled
        /// back, and answers what is stored. A duplicate that `in_flight = "reject"` would refuse with 409 is found out only then.
        hints: bool,
        /// In how many messages the framework's own statements are sent to PostgreSQL.
        round_trips: RoundTrips,
        /// Whether PostgreSQL is reached through a pooler that lends its connections a transaction at a time, as PgBouncer does with
        /// `pool_mode = transaction`. [`Idempotency::check`] finds one, and refuses to start without this.
        ///
        /// Then every statement of the framework's is in a transaction, what a transaction prepared, the handler's statements
        /// included, is gone at its end, and nothing else of a session is used. It costs a request some round trips
        /// to the pooler: [`round_trips`](Self::round_trips) has no effect, and relays of the outbox in other processes
        /// are not notified, and poll. Statements that the application runs past its `tx` are its own to keep in a transaction.
        transaction_pooling: bool,
        /// How the framework's error answers look.
        problems: ProblemStyle,
        /// Which of an answer's header fields are stored.
        headers: HeaderPolicy,
    }

    /// The isolation level of the handlers' transactions.
    #[must_use]
    pub fn isolation(mut self, isolation: Isolation) -> Self {
        self.settings.isolation = Some(isolation);
        self
    }

    /// How long an operation with recovery points belongs to the attempt that began it or took it over: 30 seconds unless said.
    /// Renewed while the attempt runs; a crash holds the operation up for so long.
    #[must_use]
    pub fn lease(mut self, lease: Duration) -> Self {
        self.settings.lease = lease;
        self
    }

    /// How many attempts that did not end it an operation with recovery points has, before it is kept as *unknown*: 30 unless
    /// said, which is more than an hour of trying. What a shutdown hands over does not count.
    #[must_use]
    pub fn max_attempts(mut self, attempts: u32) -> Self {
        self.settings.max_attempts = attempts;
        self
    }

    /// The pause after the first attempt that did not end its operation: 1 second unless said. It doubles with each, up to
    /// five minutes, each 50 to 100 % of it.
    #[must_use]
    pub fn retry_pause(mut self, pause: Duration) -> Self {
        self.settings.retry_pause = pause;
        self
    }

    /// Encrypts stored answers, and the arguments and steps of operations with recovery points.
    #[must_use]
    pub fn cipher(mut self, cipher: impl PayloadCipher) -> Self {
        self.settings.cipher = Some(Arc::new(cipher));
        self
    }

    /// Where staged messages take their trace from, in place of the request: the span that is active, from a tracer. Asked
    /// when a message is staged; `None` is no trace.
    #[must_use]
    pub fn trace_context(
        mut self,
        current: impl Fn() -> Option<TraceContext> + Send + Sync + 'static,
    ) -> Self {
        self.settings.trace = Some(TraceHook(Arc::new(current)));
        self
    }

    /// The region that this process writes in, and how an account's home is found out: in a cache, by a query. Requests of accounts
    /// with another home are answered 421 `idempotency-wrong-region`, before their body is read.
    ///
    /// The lookup is asked for every request, replays too, so a query makes each as slow as itself. It is given
    /// [`store_timeout`](Self::store_timeout); when it fails, panics or takes longer, the request is answered 503
    /// `idempotency-region-unavailable`. See [`region`](crate::region).
    #[must_use]
    pub fn home_region<L, F, H, E>(mut self, here: impl Into<String>, lookup: L) -> Self
    where
        L: Fn(ScopeKey) -> F + Send + Sync + 'static,
        F: Future<Output = Result<H, E>> + Send + 'static,
        H: Into<Home>,
        E: Into<BoxError>,
    {
        self.settings.home = Some(HomeRegion::new(here.into(), lookup));
        self
    }

    /// Where a client learns of an operation: `base`, a `/` and the operation's id are sent as `Link: <..>; rel="status"` with the
    /// answers that say that its outcome is unknown, or that it is not ended. Serve it with
    /// [`Idempotency::status`](Idempotency::status).
    #[must_use]
    pub fn status_link(mut self, base: UriReference) -> Self {
        self.settings.status_link = Some(base);
        self
    }

    /// Checks the settings.
    ///
    /// # Errors
    ///
    /// [`StartupError::Setting`], for a limit of zero or a `ttl` that is not longer than `wait`.
    pub fn build(self) -> Result<Idempotency<DB>, StartupError> {
        let settings = &self.settings;
        let wrong = if settings.ttl <= settings.wait {
            Some(
                "`ttl` must be longer than `wait`: a duplicate that waited would find its answer expired",
            )
        } else if settings.timeout.is_zero() || settings.store_timeout.is_zero() {
            Some("`timeout` and `store_timeout` must be longer than zero")
        } else if settings.lease < settings.store_timeout * 2 {
            Some(
                "`lease` must be at least twice as long as `store_timeout`: it could not be renewed in time",
            )
        } else if settings.max_attempts == 0 {
            Some("`max_attempts` must be at least 1")
        } else if settings.max_in_flight == 0 {
            Some("`max_in_flight` must be at least 1: with 0 every request is refused")
        } else if settings.max_message == 0 {
            Some("`max_message` must be at least 1: with 0 nothing could be staged")
        } else if settings.home.as_ref().is_some_and(|home| !home.is_named()) {
            Some("`home_region` needs this region's name: without one no account is at home")
        } else {
            None
        };
        match wrong {
            Some(wrong) => Err(StartupError::Setting(wrong)),
            None => Ok(Idempotency::with(self.pool, self.settings)),
        }
    }
}
