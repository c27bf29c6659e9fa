//! What is known of a server, and of one transaction on it.

use super::super::Isolation;
use super::fused;
use super::statements::CANCEL_HOLDERS;
use crate::guard::Breach;

/// What the claim learned of its transaction.
#[derive(Debug, Default)]
pub struct Session {
    /// The transaction's id, as `pg_current_xact_id()` gives it.
    pub(super) transaction: Option<String>,
    /// The mark of a claim that was fused with its begin.
    pub(super) mark: Option<Mark>,
    /// Whether the claimed key has a record, past its retention.
    pub(super) takes_over: bool,
    /// The server process, where the claim told it; to cancel a statement that was left running.
    pub(super) process: i32,
    /// What records a step can ride with the commit.
    pub(super) records_with_commit: bool,
    /// Whether the key had a record before the transaction began; `None`: nobody looked. See [`super::serializable`].
    pub(super) found: Option<bool>,
    /// See [`super::pooling`].
    pub(super) pooled: bool,
    pub(super) breach: Option<Breach>,
}

/// See [`fused`].
#[derive(Debug)]
pub(super) struct Mark {
    pub(super) text: String,
    /// The advisory lock that the transaction holds, if such are taken.
    pub(super) lock: Option<(i32, i32)>,
    /// The lock is no key's, so that no other transaction takes it.
    pub(super) is_own: bool,
}

impl Mark {
    /// Cancels what the holders of its lock run.
    pub(super) fn cancel_holders(&self) -> Option<String> {
        let (first, second) = self.lock?;
        Some(format!(
            "{CANCEL_HOLDERS} AND classid::bigint = {first}::bigint & 4294967295 \
               AND objid::bigint = {second}::bigint & 4294967295"
        ))
    }
}

/// What is known of the server.
#[derive(Clone, Debug, Default)]
pub struct Server {
    pub(super) fusing: fused::Fusing,
    /// See [`super::pooling`].
    pub(super) pooled: bool,
    /// Advisory locks are taken.
    pub(super) locks: bool,
    /// What the server makes of a transaction that says nothing.
    pub(super) serializable: bool,
}

impl Server {
    pub(super) fn is_serializable(&self, isolation: Option<Isolation>) -> bool {
        isolation.map_or(self.serializable, |isolation| {
            isolation == Isolation::Serializable
        })
    }
}
