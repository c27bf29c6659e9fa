//! The relay: publishes what is staged and committed.

use std::fmt;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Notify, watch};
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use self::routes::Routes;
use self::session::Session;
use self::settings::RelaySettings;
use super::Publisher;
use crate::backend::Backend;
use crate::idempotency::{Idempotency, StoreError};

mod ceiling;
mod floor;
mod lease;
mod pace;
mod publishing;
mod routes;
mod session;
mod settings;
mod store;

/// The pause before the database is asked again, after the first failure and at most.
const RECONNECT: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(2));
/// The pause before a lost connection for notifications is replaced.
const LISTEN_AGAIN: Duration = Duration::from_secs(1);

/// What a relay did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Relayed {
    /// Messages whose publishers confirmed them.
    pub delivered: u64,
    /// Attempts that failed, and will be repeated.
    pub failed: u64,
    /// Messages that became dead letters.
    pub dead: u64,
}

/// Publishes staged messages. Made by [`Idempotency::relay`].
///
/// Start one in each process, or in processes of their own: they share the work, each lane of ordering keys being one
/// relay's at a time, and take over from each other when one dies.
///
/// # What it promises
///
/// * Each message whose transaction committed is published **at least once**, with the [id](super::MessageId) that it was
///   given when it was staged. It is published again whenever it is not known to be stored: after a crash, a lost
///   confirmation, an outage of the database after the publishing.
/// * Messages of one ordering key are published one after the other, each after the one before it was confirmed: the order
///   of their *first* deliveries is the order of their staging. A repetition may come later, after its successors, when a
///   relay was frozen for longer than its lease, or died. While one publisher is out of reach, messages of the key that go to
///   another one pass.
/// * A message that fails blocks its own key only, until it is delivered or, after
///   [`max_attempts`](Self::max_attempts), is a dead letter.
///
/// While it is busy it keeps a connection of the pool. On PostgreSQL it listens for notifications on one more, outside the
/// pool; behind a pooler that does not carry `LISTEN`, it finds messages by polling. There it also settles what is delivered
/// with `synchronous_commit` off: a server that crashes may forget the last of that, which is then published again.
#[must_use = "a relay does nothing until it is spawned or run"]
pub struct Relay<DB: Backend> {
    idempotency: Idempotency<DB>,
    settings: RelaySettings,
    routes: Routes,
}

impl<DB: Backend> Idempotency<DB> {
    /// A relay of the messages that handlers stage in their [outbox](crate::Tx::outbox).
    ///
    /// ```
    /// # #[cfg(feature = "sqlite")]
    /// # async fn f(idempotency: idem_runtime::Idempotency<sqlx::Sqlite>) {
    /// use idem_runtime::outbox::{OutboxMessage, PublishError, Publisher};
    ///
    /// struct Printer;
    ///
    /// impl Publisher for Printer {
    ///     async fn publish(&self, message: &OutboxMessage) -> Result<(), PublishError> {
    ///         println!("{}: {} bytes", message.topic(), message.payload().len());
    ///         Ok(())
    ///     }
    /// }
    ///
    /// let relay = idempotency.relay().publisher(Printer).spawn();
    /// // The service serves; when it is told to stop:
    /// relay.stop().await;
    /// # }
    /// ```
    pub fn relay(&self) -> Relay<DB> {
        Relay {
            settings: RelaySettings::new(self.shared.settings.notifies()),
            idempotency: self.clone(),
            routes: Routes::default(),
        }
    }
}

impl<DB: Backend> Relay<DB> {
    /// Where messages go whose topics begin with this. The longest beginning counts; a topic that none fits fails its
    /// attempts, and says so.
    pub fn to(mut self, prefix: impl Into<String>, publisher: impl Publisher) -> Self {
        self.routes.add(prefix.into(), publisher);
        self
    }

    /// Where all messages go that no [`to`](Self::to) names.
    pub fn publisher(self, publisher: impl Publisher) -> Self {
        self.to("", publisher)
    }

    /// How many messages are read and published at once: 100 unless said, 1 at least, and half as many whose time has come
    /// again. The next are read while these are published, so that the payloads of two batches are in memory.
    pub fn batch(mut self, messages: u32) -> Self {
        self.settings.batch = messages.max(1);
        self
    }

    /// How often the database is asked when nothing says that there is something: 500 milliseconds unless said. A commit in
    /// the same process, and on PostgreSQL a [notification](Self::notify) from any, is answered at once.
    pub fn poll(mut self, every: Duration) -> Self {
        self.settings.poll = every.max(Duration::from_millis(1));
        self
    }

    /// After how many failed attempts a message is a dead letter: 20 unless said, 1 at least. An attempt that finds the
    /// publisher out of reach does not count.
    pub fn max_attempts(mut self, attempts: u32) -> Self {
        self.settings.max_attempts = attempts.max(1);
        self
    }

    /// The pause after a first failed attempt, and the longest: 1 second and 5 minutes unless said. It doubles, and
    /// each is 50 to 100 % of it.
    pub fn backoff(mut self, first: Duration, longest: Duration) -> Self {
        self.settings.backoff = (first, longest.max(first));
        self
    }

    /// How long the lanes of a relay that died stay its own: 10 seconds unless said, 1 second at least. Renewed at a third of
    /// it.
    pub fn lease(mut self, lease: Duration) -> Self {
        self.settings.lease = lease.max(Duration::from_secs(1));
        self
    }

    /// How long a publisher is given for one message: 10 seconds unless said. Then the message counts as unconfirmed, and is
    /// published again.
    pub fn timeout(mut self, limit: Duration) -> Self {
        self.settings.timeout = limit;
        self
    }

    /// How long delivered messages stay in the database, to be looked at: not at all unless said. Relays of one database
    /// should agree.
    pub fn keep_delivered(mut self, keep: Duration) -> Self {
        self.settings.keep_delivered = keep;
        self
    }

    /// Whether it listens for PostgreSQL's notifications: as the [builder](crate::IdempotencyBuilder::notify) says unless
    /// said.
    pub fn notify(mut self, notify: bool) -> Self {
        self.settings.notify = notify;
        self
    }

    /// Publishes what can be published now, until nothing is left, and gives its lanes back. Where other relays run it has
    /// a part of the lanes at most.
    ///
    /// # Errors
    ///
    /// [`RelayError`], when the database can't be reached. What was published and not written down by then is published
    /// again.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: what was published and not written down is published again. Its lanes are free when the lease is over.
    pub async fn run_once(&self) -> Result<Relayed, RelayError> {
        let mut session = self.session();
        let done = loop {
            match session.round().await {
                Ok(true) => {}
                Ok(false) if session.is_publishing() => session.next_done().await,
                Ok(false) => break Ok(()),
                Err(error) => break Err(RelayError(error)),
            }
        };
        session.close().await;
        done.map(|()| session.relayed)
    }

    /// Publishes until `shutdown` is ready. What is being published then is waited for and written down, and the lanes are
    /// given back. It ends by itself only when the pool is closed.
    ///
    /// # Cancel safety
    ///
    /// As of [`run_once`](Self::run_once).
    pub async fn run_until(self, shutdown: impl Future<Output = ()>) {
        let stop = CancellationToken::new();
        let mut work = pin!(self.work(&stop));
        tokio::select! {
            () = &mut work => return,
            () = shutdown => stop.cancel(),
        }
        work.await;
    }

    /// Starts it in a task.
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime.
    pub fn spawn(self) -> RelayHandle {
        let stop = CancellationToken::new();
        let token = stop.clone();
        let task = tokio::spawn(async move { self.work(&token).await });
        RelayHandle { stop, task }
    }

    fn session(&self) -> Session<DB> {
        let routes = Arc::new(self.routes.clone());
        Session::new(self.idempotency.clone(), self.settings.clone(), routes)
    }

    async fn work(&self, stop: &CancellationToken) {
        let mut session = self.session();
        let mut wakes = Wakes::of(self);
        let mut failures = 0_u32;
        while !stop.is_cancelled() {
            // Before the round: what is staged during it is looked for.
            wakes.mark();
            let pause = match session.round().await {
                Ok(true) => {
                    failures = 0;
                    continue;
                }
                Ok(false) => {
                    failures = 0;
                    None
                }
                Err(error) if error.is_of_closed_pool() => {
                    tracing::debug!(target: "idem", "the pool is closed; the relay ends");
                    break;
                }
                Err(error) => {
                    let (first, longest) = RECONNECT;
                    let pause = first.saturating_mul(1 << failures.min(8)).min(longest);
                    failures = failures.saturating_add(1);
                    tracing::warn!(target: "idem", %error, failures, "the relay can't reach the database; it tries again later");
                    Some(Instant::now() + pause)
                }
            };
            let until = pause.unwrap_or_else(|| session.idle_until());
            tokio::select! {
                () = stop.cancelled() => {}
                () = tokio::time::sleep_until(until) => {}
                () = session.next_done() => {}
                () = wakes.wait(), if pause.is_none() => {}
            }
        }
        session.close().await;
    }
}

/// What tells a relay that something was staged.
struct Wakes {
    here: watch::Receiver<()>,
    elsewhere: Arc<Notify>,
    _listener: Option<AbortOnDropHandle<()>>,
}

impl Wakes {
    fn of<DB: Backend>(relay: &Relay<DB>) -> Self {
        let elsewhere = Arc::new(Notify::new());
        let listener = relay.settings.notify.then(|| {
            let (idempotency, notify) = (relay.idempotency.clone(), elsewhere.clone());
            AbortOnDropHandle::new(tokio::spawn(listen(idempotency, notify)))
        });
        Self {
            here: relay.idempotency.shared.staged.subscribe(),
            elsewhere,
            _listener: listener,
        }
    }

    fn mark(&mut self) {
        self.here.mark_unchanged();
    }

    /// Cancel safe.
    async fn wait(&mut self) {
        tokio::select! {
            // Its sender lives in the settings that the relay has.
            _ = self.here.changed() => {}
            () = self.elsewhere.notified() => {}
        }
    }
}

async fn listen<DB: Backend>(idempotency: Idempotency<DB>, notify: Arc<Notify>) {
    if idempotency.shared.settings.transaction_pooling {
        // Whoever has that server's process next would be told.
        return;
    }
    loop {
        match DB::listen(idempotency.pool(), || notify.notify_one()).await {
            Ok(false) => return,
            Ok(true) => {}
            Err(error) => {
                tracing::debug!(target: "idem", %error, "the relay can't listen, and polls meanwhile");
            }
        }
        tokio::time::sleep(LISTEN_AGAIN).await;
    }
}

impl<DB: Backend> Clone for Relay<DB> {
    fn clone(&self) -> Self {
        Self {
            idempotency: self.idempotency.clone(),
            settings: self.settings.clone(),
            routes: self.routes.clone(),
        }
    }
}

impl<DB: Backend> fmt::Debug for Relay<DB> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Relay")
            .field("topics", &self.routes.prefixes().collect::<Vec<_>>())
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}

/// A relay that runs in a task. Dropping the handle does not stop it.
#[must_use = "dropped, it leaves the relay running until the runtime ends"]
pub struct RelayHandle {
    stop: CancellationToken,
    task: JoinHandle<()>,
}

impl RelayHandle {
    /// Stops it: what is being published is waited for and written down, and its lanes are given back. That takes as long as
    /// the publishers do, at most their time-out; where the database is away, a lease longer.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: it stops all the same.
    pub async fn stop(self) {
        self.stop.cancel();
        // It fails only with the runtime, and then it has stopped.
        let _ = self.task.await;
    }
}

impl fmt::Debug for RelayHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RelayHandle")
            .field("running", &!self.task.is_finished())
            .finish_non_exhaustive()
    }
}

/// Why messages could not be relayed now.
#[derive(Debug, thiserror::Error)]
#[error("staged messages can't be relayed now: {0}")]
pub struct RelayError(#[source] StoreError);
