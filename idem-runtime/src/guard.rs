//! What compile time can't see: a connection that a handler takes beside its transaction.
//!
//! While a handler runs, a task-local watch is set; the hooks that [`guard`] installs in a pool report
//! to it. What was written through such a connection may be durable, so that the key is kept as
//! *unknown* and the request answered 500.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use sqlx::pool::PoolOptions;
use sqlx::{Database, Pool};

use crate::problem::Code;

tokio::task_local! {
    static WATCH: Arc<Watch>;
}

/// How a handler came to have an effect that may not be in its transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Breach {
    BesideTransaction,
    Ended,
    OtherTransaction,
    OtherConnection,
    HooksReplaced,
    Unclear,
}

impl Breach {
    /// The event's field `fault`.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::BesideTransaction => "connection_beside_transaction",
            Self::Ended => "transaction_ended",
            Self::OtherTransaction => "other_transaction",
            Self::OtherConnection => "other_connection",
            Self::HooksReplaced => "hooks_replaced",
            Self::Unclear => "transaction_unclear",
        }
    }

    const fn told(self) -> &'static str {
        match self {
            Self::BesideTransaction => {
                "the handler took a connection beside its transaction, and what it wrote there may be durable"
            }
            Self::Ended => {
                "the handler ended its transaction, by a statement of its own or by one that commits by itself"
            }
            Self::OtherTransaction => {
                "the handler's connection is in another transaction than the one that it was given"
            }
            Self::OtherConnection => {
                "the handler put another connection in the place of the one that it was given"
            }
            Self::HooksReplaced => {
                "the handler replaced the hooks that refuse a commit of its own, and ended its transaction"
            }
            Self::Unclear => {
                "the handler's transaction is gone, and whether it was committed can't be found out"
            }
        }
    }

    /// Tells who operates the service. `key` and `id` are empty for a request without a key.
    pub(crate) fn tell(self, operation: &str, key: &str, id: &str, code: Code) {
        let some = |text: &'_ str| (!text.is_empty()).then(|| text.to_owned());
        let becomes = if id.is_empty() {
            "the request had no key, and a retry runs again"
        } else {
            "the key is kept as unknown"
        };
        tracing::error!(
            target: "idem",
            fault = self.as_str(),
            operation,
            key = some(key),
            id = some(id),
            code = code.as_str(),
            "an effect may have missed the transaction: {}; {becomes}",
            self.told(),
        );
    }
}

/// What one handler did beside its transaction.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    took_connection: AtomicBool,
}

impl Watch {
    /// Runs a future under this watch.
    pub(crate) async fn scope<F: Future>(self: &Arc<Self>, future: F) -> F::Output {
        WATCH.scope(self.clone(), future).await
    }

    /// Whether a connection was taken.
    pub(crate) fn took_connection(&self) -> bool {
        self.took_connection.load(Ordering::SeqCst)
    }
}

/// Runs what the framework does for a handler while it runs: its connections are none of the handler's.
pub(crate) async fn unwatched<F: Future>(future: F) -> F::Output {
    WATCH.scope(Arc::default(), future).await
}

/// Installs the hooks of the run-time guard in a pool's options.
///
/// A connection that a handler takes from the guarded pool, while it holds its `tx`, is then found: the
/// request is answered 500, and its key kept as *unknown*. The framework's own statements are not
/// affected. The guard replaces the hooks `before_acquire` and `after_connect`; where you have your own,
/// call [`record_acquire`] from both instead.
///
/// ```no_run
/// # async fn f() -> sqlx::Result<()> {
/// # #[cfg(feature = "sqlite")] {
/// let pool = idem_runtime::guard(sqlx::sqlite::SqlitePoolOptions::new())
///     .max_connections(5)
///     .connect("sqlite:orders.db")
///     .await?;
/// # }
/// # Ok(())
/// # }
/// ```
#[must_use]
pub fn guard<DB: Database>(options: PoolOptions<DB>) -> PoolOptions<DB> {
    options
        .before_acquire(|_, _| {
            record_acquire();
            Box::pin(std::future::ready(Ok(true)))
        })
        .after_connect(|_, _| {
            record_acquire();
            Box::pin(std::future::ready(Ok(())))
        })
}

/// Reports that a connection was taken; to be called from a pool's own `before_acquire` **and**
/// `after_connect` hooks, where [`guard`] can't be used. Outside a handler it does nothing.
pub fn record_acquire() {
    // Outside a handler there is no watch, and nothing to report.
    let _ = WATCH.try_with(|watch| watch.took_connection.store(true, Ordering::SeqCst));
}

/// Whether a pool has both hooks: a later `after_connect` of the application's own would have replaced one. Its options
/// don't show them, so another pool is made of these, and its one connection taken twice: new, and then idle.
pub(crate) async fn is_guarded<DB: Database>(pool: &Pool<DB>) -> sqlx::Result<bool> {
    let options = pool.options().clone();
    let one = options
        .min_connections(0)
        .max_connections(1)
        .connect_lazy_with((*pool.connect_options()).clone());
    let guarded = async { sqlx::Result::Ok(reports(&one).await? && reports(&one).await?) }.await;
    one.close().await;
    guarded
}

/// Whether a hook reports that a connection is taken.
async fn reports<DB: Database>(pool: &Pool<DB>) -> sqlx::Result<bool> {
    let watch = Arc::new(Watch::default());
    drop(watch.scope(pool.acquire()).await?);
    Ok(watch.took_connection())
}
