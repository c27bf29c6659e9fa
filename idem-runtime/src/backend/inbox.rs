//! What a database does for consumers: one row a message that was processed, committed with what the consumer wrote.

use std::future::Future;
use std::time::Duration;

use sqlx::Database;

use super::millis;
use crate::scope::RecordId;

/// A message that an attempt wants to process.
#[derive(Clone, Debug)]
pub struct Entry {
    /// The digest of consumer, source and message id.
    pub(crate) id: RecordId,
    pub(crate) consumer: String,
    pub(crate) source: String,
    /// Drawn anew for each attempt: tells an attempt's own row from another's.
    pub(crate) owner: [u8; 16],
    /// How long the row stays, from its insertion.
    pub(crate) ttl: Duration,
    /// The first integer of advisory locks; `None`: none are taken.
    #[cfg_attr(not(feature = "postgres"), allow(dead_code))]
    pub(crate) lock_namespace: Option<i32>,
}

impl Entry {
    pub(super) fn ttl_millis(&self) -> i64 {
        millis(self.ttl)
    }
}

/// What an attempt to take a message found.
#[derive(Clone, Debug)]
pub enum Taken {
    /// Its row is inserted, in the transaction that is open.
    Won,
    /// It has a row that is not past its retention.
    Held(Processed),
    /// Another transaction works on it.
    InFlight,
}

/// The row of a message.
#[derive(Clone, Debug)]
pub struct Processed {
    pub(crate) owner: Vec<u8>,
    /// Something of the consumer's may be durable that is not all of it.
    pub(crate) unknown: bool,
}

impl Processed {
    pub(super) fn from_sql(owner: Vec<u8>, state: i16) -> Self {
        Self {
            owner,
            unknown: state != STATE_PROCESSED,
        }
    }
}

/// The row commits with the effects of a whole run.
pub(super) const STATE_PROCESSED: i16 = 1;
/// The consumer ended the transaction itself.
pub(super) const STATE_UNKNOWN: i16 = 2;

/// A message's consumer was entered so often and did not come back: this is the first time, and each adds one. Such a row is no
/// message's own.
pub(super) const STATE_ENTERED: i16 = 3;

/// How often a consumer was entered, by what its row says.
pub(super) fn entries(state: i16) -> u32 {
    u32::try_from(state - STATE_ENTERED + 1).unwrap_or(0)
}

/// See the module.
pub trait InboxStore: Database {
    /// Whether the server may end a transaction by itself and leave no trace of that (a deadlock of InnoDB's).
    #[doc(hidden)]
    const ENDS_BY_ITSELF: bool;

    /// Inserts the row, or replaces one past its retention, in the transaction that is open. Does not wait for another
    /// transaction that works on the same message, or not for long. Whatever the answer but `Won`, the transaction is only
    /// good for its rollback.
    #[doc(hidden)]
    fn take(
        connection: &mut Self::Connection,
        entry: &Entry,
    ) -> impl Future<Output = sqlx::Result<Taken>> + Send;

    /// Reads a row that is not past its retention, outside any transaction.
    #[doc(hidden)]
    fn processed(
        connection: &mut Self::Connection,
        id: &RecordId,
    ) -> impl Future<Output = sqlx::Result<Option<Processed>>> + Send;

    /// Keeps the message as unknown, by a statement of its own, unless another attempt's row is there.
    #[doc(hidden)]
    fn keep_unknown(
        connection: &mut Self::Connection,
        entry: &Entry,
    ) -> impl Future<Output = sqlx::Result<()>> + Send;

    /// Counts that a message's consumer is entered, in no transaction; the same owner counts once. Returns how often it was and did
    /// not leave, with this time. `entry` is the row's that counts.
    #[doc(hidden)]
    fn count_entry(
        connection: &mut Self::Connection,
        entry: &Entry,
    ) -> impl Future<Output = sqlx::Result<u32>> + Send;

    /// Forgets that it was, if the last who entered was this one.
    #[doc(hidden)]
    fn forget_entries(
        connection: &mut Self::Connection,
        id: &RecordId,
        owner: Option<&[u8; 16]>,
    ) -> impl Future<Output = sqlx::Result<()>> + Send;

    /// Deletes rows whose retention is over. Returns how many.
    #[doc(hidden)]
    fn delete_expired_messages(
        connection: &mut Self::Connection,
        batch: u32,
    ) -> impl Future<Output = sqlx::Result<u64>> + Send;
}
