//! What a database does for operations with recovery points: their rows outlive the transactions of their steps.
//!
//! An operation has a row in `idem_keys`, as every key, and one in `idem_operations` from its claim to its completion. The
//! second holds the lease, the inputs and the journal of its steps, and is deleted with the completion: the table holds what
//! is not resolved, and stays small beside any number of completed keys.
//!
//! Every write of an attempt is fenced: it says which attempt and owner it believes to be, and changes nothing when that is
//! no longer true. All times are the database's own.

use std::future::Future;
use std::time::Duration;

use sqlx::Database;
use uuid::Uuid;

use super::{Answer, Claim, Record, State, Stored};
use crate::scope::{RecordId, ScopeKey};

pub(in crate::backend) mod rows;
#[cfg(any(feature = "sqlite", feature = "mysql"))]
pub(in crate::backend) mod several;
#[cfg(test)]
mod tests;

/// Which attempt writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fence {
    pub(crate) id: RecordId,
    /// Grows with each take-over, and with each decision of an operator.
    pub(crate) attempt: i32,
    /// Drawn anew with each take-over.
    pub(crate) owner: [u8; 16],
}

/// An operation that begins.
#[derive(Debug)]
pub struct Start<'a> {
    pub(crate) operation_id: Uuid,
    /// Of the handler that began it.
    pub(crate) definition: i32,
    /// The handler's arguments; perhaps sealed.
    pub(crate) inputs: &'a [u8],
    pub(crate) sealed: bool,
    pub(crate) lease: Duration,
}

/// What the beginning of an operation found.
#[derive(Debug)]
pub enum Started {
    /// The key is this attempt's, durably: attempt 1, with the claim's owner.
    Won {
        /// From a record past its retention.
        took_over: bool,
        /// Milliseconds since 1970, by the database's clock.
        now: i64,
    },
    /// There is a record that is not past its retention.
    Held(Record),
    /// Another transaction works on the key.
    InFlight,
}

/// What is written of the steps so far.
#[derive(Clone, Copy, Debug)]
pub struct Written<'a> {
    pub(crate) journal: &'a [u8],
    pub(crate) sealed: bool,
    /// The lease begins anew.
    pub(crate) lease: Duration,
}

/// A row of `idem_operations`.
#[derive(Clone, Debug)]
pub struct OperationRow {
    pub(crate) id: RecordId,
    pub(crate) scope: String,
    pub(crate) operation: String,
    pub(crate) operation_id: Uuid,
    pub(crate) definition: i32,
    pub(crate) attempt: i32,
    pub(crate) owner: [u8; 16],
    /// How many attempts were begun that did not end in order. What a shutdown hands over does not count.
    pub(crate) tries: i32,
    pub(crate) inputs: Vec<u8>,
    pub(crate) inputs_sealed: bool,
    /// `None` before the first step is recorded.
    pub(crate) journal: Option<Vec<u8>>,
    pub(crate) journal_sealed: bool,
    /// Milliseconds since 1970, as all times here: when the operation began.
    pub(crate) created_at: i64,
    /// When the journal was last written, or the operation begun.
    pub(crate) recorded_at: i64,
    /// From when on a worker may take it over; `None` while nobody may, because the outcome is unknown.
    pub(crate) due_at: Option<i64>,
    /// Since when the outcome is unknown.
    pub(crate) parked_at: Option<i64>,
    /// Why.
    pub(crate) reason: Option<String>,
    /// The moment at which the row was read.
    pub(crate) now: i64,
}

/// Which operations an operator asks for.
#[derive(Clone, Debug, Default)]
pub struct Filter<'a> {
    pub(crate) operation: Option<&'a str>,
    pub(crate) scope: Option<&'a str>,
    /// `Started` or `Unknown`.
    pub(crate) state: Option<State>,
    /// Begun at least so long ago.
    pub(crate) older_than: Duration,
    /// Those that follow this one, by age and then by id: a page's last.
    pub(crate) after: Option<(i64, RecordId)>,
    pub(crate) limit: u32,
}

/// What is not resolved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Unresolved {
    /// Whose lease is over, or whose next try is due.
    pub(crate) due: u64,
    /// Begun and not ended, the due ones among them.
    pub(crate) started: u64,
    pub(crate) unknown: u64,
    /// The age of the oldest that is begun or unknown, in milliseconds; 0 if there is none.
    pub(crate) oldest: i64,
}

impl Unresolved {
    /// From counts as databases have them, in the order of the fields.
    pub(in crate::backend) fn from_counts(
        (due, started, unknown, oldest): (i64, i64, i64, i64),
    ) -> Self {
        Self {
            due: due.unsigned_abs(),
            started: started.unsigned_abs(),
            unknown: unknown.unsigned_abs(),
            oldest: oldest.max(0),
        }
    }
}

/// What an operator did.
#[derive(Clone, Debug)]
pub struct AuditRow {
    pub(crate) at: i64,
    pub(crate) actor: String,
    pub(crate) action: String,
    pub(crate) reason: String,
    /// As JSON.
    pub(crate) detail: Option<String>,
}

impl AuditRow {
    /// From columns in the order of the fields.
    pub(in crate::backend) fn from_columns(
        (at, actor, action, reason, detail): (i64, String, String, String, Option<String>),
    ) -> Self {
        Self {
            at,
            actor,
            action,
            reason,
            detail,
        }
    }
}

/// An entry for the audit, with the change that it is about.
#[derive(Clone, Copy, Debug)]
pub struct Audit<'a> {
    pub(crate) actor: &'a str,
    pub(crate) action: &'static str,
    pub(crate) reason: &'a str,
    pub(crate) detail: Option<&'a str>,
}

/// See the module. Those of its methods that say so run in a transaction of their own, and must be called outside any; a
/// future of theirs that is dropped leaves the connection in no known state.
pub trait OperationStore: Database {
    /// Claims the key and writes the operation, in a transaction of its own.
    fn start(
        connection: &mut Self::Connection,
        claim: &Claim<'_>,
        start: &Start<'_>,
    ) -> impl Future<Output = sqlx::Result<Started>> + Send;

    /// Writes the journal; false: the fence does not hold, or a transaction was begun with this mark and is not the one that is
    /// open. One statement, in the transaction that is open, if one is.
    fn record(
        connection: &mut Self::Connection,
        mark: Option<&str>,
        fence: &Fence,
        written: &Written<'_>,
    ) -> impl Future<Output = sqlx::Result<bool>> + Send;

    /// Begins the lease anew; false: the fence does not hold. One statement.
    fn renew(
        connection: &mut Self::Connection,
        fence: &Fence,
        lease: Duration,
    ) -> impl Future<Output = sqlx::Result<bool>> + Send;

    /// Stores the answer, and deletes the operation; `None`: the fence or the mark does not hold, and nothing is changed. In
    /// the transaction that is open: there must be one.
    fn complete_operation(
        connection: &mut Self::Connection,
        mark: Option<&str>,
        fence: &Fence,
        answer: &Answer<'_>,
    ) -> impl Future<Output = sqlx::Result<Option<Stored>>> + Send;

    /// Keeps the operation as unknown; false: the fence does not hold. In a transaction of its own.
    fn park(
        connection: &mut Self::Connection,
        fence: &Fence,
        reason: &str,
    ) -> impl Future<Output = sqlx::Result<bool>> + Send;

    /// Keeps an operation as unknown whoever has it, unless it is completed: an effect showed that no attempt recorded.
    /// The attempt grows. In a transaction of its own.
    fn alarm(
        connection: &mut Self::Connection,
        id: &RecordId,
        reason: &str,
    ) -> impl Future<Output = sqlx::Result<bool>> + Send;

    /// Deletes operation and key, so that a retry begins anew; false: the fence does not hold, or there is a journal. In a
    /// transaction of its own.
    fn release(
        connection: &mut Self::Connection,
        fence: &Fence,
    ) -> impl Future<Output = sqlx::Result<bool>> + Send;

    /// Hands the operation to whoever comes after `delay`; false: the fence does not hold. `in_order`: the attempt does not
    /// count. One statement.
    fn hand_over(
        connection: &mut Self::Connection,
        fence: &Fence,
        delay: Duration,
        in_order: bool,
    ) -> impl Future<Output = sqlx::Result<bool>> + Send;

    /// Takes over operations that are due, the longest due first, past those that others are taking: their attempt and
    /// their tries grow by one, the owner is theirs, the lease begins. The rows are as they are after that. In a
    /// transaction of its own.
    fn take_over(
        connection: &mut Self::Connection,
        operations: &[&str],
        owner: [u8; 16],
        lease: Duration,
        batch: u32,
    ) -> impl Future<Output = sqlx::Result<Vec<OperationRow>>> + Send;

    /// Operations that are due and whose names are not among these, with their numbers.
    fn orphans(
        connection: &mut Self::Connection,
        operations: &[&str],
    ) -> impl Future<Output = sqlx::Result<Vec<(String, u64)>>> + Send;

    /// Counts what is not resolved.
    fn unresolved(
        connection: &mut Self::Connection,
    ) -> impl Future<Output = sqlx::Result<Unresolved>> + Send;

    /// The operations that a filter lets through, the oldest first. Changes nothing.
    fn list(
        connection: &mut Self::Connection,
        filter: &Filter<'_>,
    ) -> impl Future<Output = sqlx::Result<Vec<OperationRow>>> + Send;

    /// One operation that is not completed. Changes nothing.
    fn inspect(
        connection: &mut Self::Connection,
        id: &RecordId,
    ) -> impl Future<Output = sqlx::Result<Option<OperationRow>>> + Send;

    /// The key's record, if it is this scope's: for its owner. Changes nothing.
    fn owned(
        connection: &mut Self::Connection,
        id: &RecordId,
        scope: &ScopeKey,
    ) -> impl Future<Output = sqlx::Result<Option<Record>>> + Send;

    /// An operator's decision: the journal is as it says (`None`: as it is), the operation is due at once and its tries begin
    /// at zero, nobody's earlier fence holds, and the audit has an entry. False: `attempt` is no longer the operation's, and
    /// nothing is changed. In a transaction of its own.
    fn decide(
        connection: &mut Self::Connection,
        id: &RecordId,
        attempt: i32,
        journal: Option<(&[u8], bool)>,
        audit: &Audit<'_>,
    ) -> impl Future<Output = sqlx::Result<bool>> + Send;

    /// What operators did to this key's operation, the oldest first. It outlives the operation.
    fn audit(
        connection: &mut Self::Connection,
        id: &RecordId,
    ) -> impl Future<Output = sqlx::Result<Vec<AuditRow>>> + Send;
}
