//! Refusals with a reason of their own.
//!
//! A type is `EffectFree` under a condition that never holds, and rustc speaks of the condition. Its `Self`
//! is a marker, as the message of the type itself would be `EffectFree`'s. A
//! condition without parameters would be an error where it stands, hence `for<'never>`.

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
    note = "what is to be sent or done after the commit is a message of `tx.outbox()`; a call whose result the answer needs is a step of a handler with `Steps`",
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

/// Refuses types that have no parameter of their own.
macro_rules! refused {
    ($may:ident: $($(#[$attribute:meta])* $ty:ty),* $(,)?) => {
        $(
            $(#[$attribute])*
            impl EffectFree for $ty where for<'never> AtomicHandler: $may<$ty> {}
        )*
    };
}

impl<DB: Database> EffectFree for sqlx::Pool<DB> where AtomicHandler: MayWriteThrough<Self> {}
impl<DB: Database> EffectFree for sqlx::pool::PoolConnection<DB> where
    AtomicHandler: MayWriteThrough<Self>
{
}
impl<'t, DB: Database> EffectFree for sqlx::Transaction<'t, DB> where
    AtomicHandler: MayWriteThrough<Self>
{
}
impl<DB: Database> EffectFree for sqlx::pool::PoolOptions<DB> where
    AtomicHandler: MayWriteThrough<Self>
{
}
impl<DB: crate::Backend> EffectFree for crate::Tx<DB> where AtomicHandler: MayWriteThrough<Self> {}
impl<DB: crate::Backend> EffectFree for crate::Idempotency<DB> where
    AtomicHandler: MayWriteThrough<Self>
{
}
refused!(
    MayWriteThrough:
    #[cfg(feature = "postgres")]
    sqlx::PgConnection,
    #[cfg(feature = "postgres")]
    sqlx::postgres::PgConnectOptions,
    #[cfg(feature = "postgres")]
    sqlx::postgres::PgListener,
    #[cfg(feature = "sqlite")]
    sqlx::SqliteConnection,
    #[cfg(feature = "sqlite")]
    sqlx::sqlite::SqliteConnectOptions,
    #[cfg(feature = "mysql")]
    sqlx::MySqlConnection,
    #[cfg(feature = "mysql")]
    sqlx::mysql::MySqlConnectOptions,
);

impl<T> EffectFree for sync::mpsc::Sender<T> where AtomicHandler: MayActThrough<Self> {}
impl<T> EffectFree for sync::mpsc::SyncSender<T> where AtomicHandler: MayActThrough<Self> {}
impl<T> EffectFree for tokio_sync::broadcast::Sender<T> where AtomicHandler: MayActThrough<Self> {}
impl<T> EffectFree for tokio_sync::mpsc::Sender<T> where AtomicHandler: MayActThrough<Self> {}
impl<T> EffectFree for tokio_sync::mpsc::UnboundedSender<T> where AtomicHandler: MayActThrough<Self> {}
impl<T> EffectFree for tokio_sync::oneshot::Sender<T> where AtomicHandler: MayActThrough<Self> {}
impl<T> EffectFree for tokio_sync::watch::Sender<T> where AtomicHandler: MayActThrough<Self> {}
impl<T> EffectFree for tokio::task::JoinSet<T> where AtomicHandler: MayActThrough<Self> {}
refused!(
    MayActThrough:
    std::fs::File,
    std::net::TcpListener,
    std::net::TcpStream,
    std::net::UdpSocket,
    std::process::Child,
    std::process::Command,
    tokio::net::TcpListener,
    tokio::net::TcpStream,
    tokio::net::UdpSocket,
    tokio::runtime::Handle,
    tokio::runtime::Runtime,
    tokio_sync::Notify,
    tokio_util::task::TaskTracker,
);
#[cfg(unix)]
refused!(
    MayActThrough:
    std::os::unix::net::UnixDatagram,
    std::os::unix::net::UnixListener,
    std::os::unix::net::UnixStream,
    tokio::net::UnixDatagram,
    tokio::net::UnixListener,
    tokio::net::UnixStream,
);

impl<T: ?Sized> EffectFree for sync::Mutex<T> where AtomicHandler: MayChange<Self> {}
impl<T: ?Sized> EffectFree for sync::RwLock<T> where AtomicHandler: MayChange<Self> {}
impl<T> EffectFree for sync::OnceLock<T> where AtomicHandler: MayChange<Self> {}
impl<T: ?Sized> EffectFree for tokio_sync::Mutex<T> where AtomicHandler: MayChange<Self> {}
impl<T: ?Sized> EffectFree for tokio_sync::RwLock<T> where AtomicHandler: MayChange<Self> {}
impl<T> EffectFree for tokio_sync::OnceCell<T> where AtomicHandler: MayChange<Self> {}

// Not by the macro, which rustc would name: these are arguments by themselves.
impl EffectFree for Request where for<'never> AtomicHandler: MaySearch<Request> {}
impl EffectFree for Parts where for<'never> AtomicHandler: MaySearch<Parts> {}
impl EffectFree for Extensions where for<'never> AtomicHandler: MaySearch<Extensions> {}
