//! The business: rows in a table, and statements that go wrong as asked.

mod mysql;
mod postgres;
mod sqlite;

use std::collections::HashMap;
use std::future::Future;
use std::sync::{LazyLock, Mutex};

use serde::Serialize;
use sqlx::pool::PoolOptions;
use sqlx::{Database, Pool};

use super::ask::{Ask, Fault};
use super::config::Config;
use super::failure::Failure;
use super::gates;

/// One effect, as it is written.
#[derive(Debug)]
pub(crate) struct Effect<'a> {
    pub(crate) account: &'a str,
    pub(crate) key_digest: &'a str,
    pub(crate) path: &'a str,
    pub(crate) query: &'a str,
    pub(crate) body: &'a [u8],
}

/// One effect, as `GET /effects` shows it.
#[derive(Debug, Serialize, sqlx::FromRow)]
pub(crate) struct Row {
    pub(crate) id: i64,
    pub(crate) key_digest: String,
    pub(crate) path: String,
    pub(crate) query: String,
    pub(crate) body: String,
}

/// The SQL of one database.
pub(crate) trait Business: Database {
    /// Connects, with the isolation that was asked for.
    fn connect(
        options: PoolOptions<Self>,
        config: &Config,
    ) -> impl Future<Output = sqlx::Result<Pool<Self>>> + Send;

    /// Creates the tables that are not there.
    fn create_tables(pool: &Pool<Self>) -> impl Future<Output = sqlx::Result<()>> + Send;

    /// Writes an effect and gives its id.
    fn write(
        connection: &mut Self::Connection,
        effect: &Effect<'_>,
    ) -> impl Future<Output = sqlx::Result<i64>> + Send;

    /// An account's effects, read on a connection of its own.
    fn read(url: &str, account: &str) -> impl Future<Output = sqlx::Result<Vec<Row>>> + Send;

    /// Violates a unique constraint.
    fn violate(connection: &mut Self::Connection) -> impl Future<Output = sqlx::Result<()>> + Send;

    /// Leaves a constraint violated that is checked at the commit, where the database can.
    fn violate_later(
        connection: &mut Self::Connection,
    ) -> impl Future<Output = sqlx::Result<()>> + Send;

    /// Fails as a serialization failure, or as the victim of a deadlock, does.
    fn conflict(
        connection: &mut Self::Connection,
        fault: Fault,
    ) -> impl Future<Output = sqlx::Result<()>> + Send;

    /// Ends the transaction with a statement of its own, and begins another if `chain` is set.
    fn end_transaction(
        connection: &mut Self::Connection,
        chain: bool,
    ) -> impl Future<Output = sqlx::Result<()>> + Send;

    /// Takes a minute or longer.
    fn dawdle(connection: &mut Self::Connection) -> impl Future<Output = sqlx::Result<()>> + Send;

    /// A pool that a static holds, as careless code has one.
    fn static_pool() -> &'static std::sync::OnceLock<Pool<Self>>;
}

/// How often a handler was entered, by the digest of its key.
static ENTERED: Mutex<Option<HashMap<String, u64>>> = Mutex::new(None);

/// Whether that is counted: it takes memory for each key.
static COUNTED: LazyLock<bool> =
    LazyLock::new(|| std::env::var("COUNT_ENTERED").as_deref() != Ok("off"));

fn enter(key_digest: &str) -> u64 {
    if !*COUNTED {
        return 1;
    }
    let mut entered = ENTERED.lock().expect("no holder panics");
    let count = entered
        .get_or_insert_default()
        .entry(key_digest.to_owned())
        .or_default();
    *count += 1;
    *count
}

/// How often a handler was entered with a key, or with any.
pub(crate) fn entered(key_digest: Option<&str>) -> u64 {
    let entered = ENTERED.lock().expect("no holder panics");
    let Some(entered) = &*entered else { return 0 };
    match key_digest {
        Some(digest) => entered.get(digest).copied().unwrap_or(0),
        None => entered.values().sum(),
    }
}

/// What every handler does: writes its effect, then whatever it is asked for. Gives the row's id.
pub(crate) async fn act<DB: Business>(
    connection: &mut DB::Connection,
    account: &str,
    ask: &Ask,
    body: &[u8],
) -> Result<i64, Failure> {
    let attempt = enter(&ask.key_digest);
    let effect = Effect {
        account,
        key_digest: &ask.key_digest,
        path: &ask.path,
        query: &ask.query,
        body,
    };
    let id = DB::write(connection, &effect).await?;
    if !ask.sleep.is_zero() {
        tokio::time::sleep(ask.sleep).await;
    }
    if let Some(gate) = &ask.gate {
        gates::pass(gate).await;
    }
    match ask.fault {
        None => {}
        Some(Fault::Panic) => panic!("asked to"),
        Some(Fault::Swallow) => {
            let swallowed = DB::violate(connection).await;
            assert!(swallowed.is_err(), "the violation is one");
        }
        Some(Fault::Deferred) => DB::violate_later(connection).await?,
        Some(fault @ (Fault::Serialization | Fault::Deadlock)) if attempt == 1 => {
            DB::conflict(connection, fault).await?;
        }
        Some(Fault::Serialization | Fault::Deadlock) => {}
        Some(fault @ Fault::SerializationAlways) => DB::conflict(connection, fault).await?,
        Some(Fault::RawCommit) => DB::end_transaction(connection, false).await?,
        Some(fault @ (Fault::RawCommitSerialization | Fault::ChainedCommitSerialization)) => {
            let chain = fault == Fault::ChainedCommitSerialization;
            DB::end_transaction(connection, chain).await?;
            DB::conflict(connection, fault).await?;
        }
        Some(Fault::SlowStatement) => DB::dawdle(connection).await?,
        Some(Fault::StaticPool) => {
            let pool = DB::static_pool().get().expect("set before serving");
            let mut other = pool.acquire().await?;
            DB::write(&mut other, &effect).await?;
        }
    }
    match ask.error {
        Some(status) => Err(Failure::Refused(status)),
        None => Ok(id),
    }
}
