//! Refusals with a reason of their own.
//!
//! A type is `EffectFree` under a condition that never holds, and rustc speaks of the condition. Its `Self`
//! is a marker, as the message of the type itself would be `EffectFree`'s.

use std::sync;

use axum::extract::Request;
use http::Extensions;
use http::request::Parts;
use sqlx::Database;
use tokio::sync as tokio_sync;

use super::EffectFree;

/// A handler that runs in one transaction.
pub struct AtomicHandler(());

/// A way to the database beside `tx`. Never implemented.
#[diagnostic::on_unimplemented(
    message = "`{Handle}` writes outside the handler's transaction",
    label = "use the `tx` argument instead",
    note = "what it writes stays when the transaction is rolled back, and is written again when the handler runs again",
    note = "a query takes `&mut *tx`; a helper that takes a connection, such as `&mut PgConnection`, is called with `tx`"
)]
pub trait MayWriteThrough<Handle: ?Sized> {}

/// A channel, a file, a socket, a task: what is done there is done. Never implemented.
#[diagnostic::on_unimplemented(
    message = "what is done through `{Handle}` is not undone with the handler's transaction",
    label = "leaves an effect outside the transaction",
    note = "the handler may run again after a rollback, and would do it again",
    note = "write what is to be sent or done to a table, through `tx`, and do it after the commit",
    note = "if it is harmless, say why: `#[effect_free(trust = \"..\")]` on a field of yours, or `AssertEffectFree<{Handle}>`"
)]
pub trait MayActThrough<Handle: ?Sized> {}

/// Memory that is shared. Never implemented.
#[diagnostic::on_unimplemented(
    message = "what is changed in `{Handle}` stays changed when the handler's transaction is rolled back",
    label = "memory that no rollback restores",
    note = "keep what must change together with the database in the database, and write it through `tx`",
    note = "to read it, hand the handler a copy: `State<Part>`, where `Part: FromRef<AppState>` takes it out",
    note = "if a change is harmless (a cache, a counter), say why: `#[effect_free(trust = \"..\")]` on a field of yours, or `AssertEffectFree<{Handle}>`"
)]
pub trait MayChange<Handle: ?Sized> {}

/// A map of anything. Never implemented.
#[diagnostic::on_unimplemented(
    message = "`{Handle}` holds whatever a layer put into the request's extensions, such as a connection pool",
    label = "take only what the handler needs",
    note = "the body is `Json<_>`, `Bytes` or `String`, or `Body` unread; the rest is `Method`, `Uri`, `HeaderMap`",
    note = "one value that a layer put there is `Extension<T>`"
)]
pub trait MaySearch<Handle: ?Sized> {}

macro_rules! refused {
    ($reason:ident: $([$($parameters:tt)*] $ty:ty),* $(,)?) => {
        $(
            // `for`: a condition without parameters is an error where it stands, but for a lifetime
            impl<$($parameters)*> EffectFree for $ty where for<'never> AtomicHandler: $reason<$ty> {}
        )*
    };
}

refused!(
    MayWriteThrough:
    [DB: Database] sqlx::Pool<DB>,
    [DB: Database] sqlx::pool::PoolConnection<DB>,
    ['t, DB: Database] sqlx::Transaction<'t, DB>,
    [DB: Database] sqlx::pool::PoolOptions<DB>,
    [DB: crate::Backend] crate::Idempotency<DB>,
);
#[cfg(feature = "postgres")]
refused!(
    MayWriteThrough:
    [] sqlx::PgConnection,
    [] sqlx::postgres::PgListener,
);
#[cfg(feature = "sqlite")]
refused!(MayWriteThrough: [] sqlx::SqliteConnection);
#[cfg(feature = "mysql")]
refused!(MayWriteThrough: [] sqlx::MySqlConnection);

refused!(
    MayActThrough:
    [T] sync::mpsc::Sender<T>,
    [T] sync::mpsc::SyncSender<T>,
    [T] tokio_sync::broadcast::Sender<T>,
    [T] tokio_sync::mpsc::Sender<T>,
    [T] tokio_sync::mpsc::UnboundedSender<T>,
    [T] tokio_sync::oneshot::Sender<T>,
    [T] tokio_sync::watch::Sender<T>,
    [] tokio::runtime::Handle,
    [] tokio::runtime::Runtime,
    [T] tokio::task::JoinSet<T>,
    [] tokio_util::task::TaskTracker,
    [] std::fs::File,
    [] std::net::TcpListener,
    [] std::net::TcpStream,
    [] std::net::UdpSocket,
    [] tokio::net::TcpListener,
    [] tokio::net::TcpStream,
    [] tokio::net::UdpSocket,
    [] std::process::Child,
    [] std::process::Command,
);

refused!(
    MayChange:
    [T: ?Sized] sync::Mutex<T>,
    [T: ?Sized] sync::RwLock<T>,
    [T] sync::OnceLock<T>,
    [T: ?Sized] tokio_sync::Mutex<T>,
    [T: ?Sized] tokio_sync::RwLock<T>,
    [T] tokio_sync::OnceCell<T>,
    [T: ?Sized] std::cell::Cell<T>,
    [T: ?Sized] std::cell::RefCell<T>,
    [T] std::cell::OnceCell<T>,
);

refused!(
    MaySearch:
    [] Request,
    [] Parts,
    [] Extensions,
);
