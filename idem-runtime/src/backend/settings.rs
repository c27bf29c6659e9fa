//! What is asked of a transaction, and of how it is sent.

/// The isolation level of the handler's transaction. SQLite has one, serializable, whatever is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Isolation {
    /// Each statement sees what was committed before it.
    ReadCommitted,
    /// Each statement sees what was committed before the first one.
    RepeatableRead,
    /// As if transactions ran one after the other.
    Serializable,
}

/// In how many messages the framework's own statements are sent, where the engine leaves a choice
/// (PostgreSQL).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum RoundTrips {
    /// As few as possible: the claim rides with `BEGIN`, and the stored answer with `COMMIT`. Two round trips less a
    /// request than [`Separate`](Self::Separate), near a server as far from it.
    ///
    /// It needs a session's prepared statements: [`transaction_pooling`](crate::IdempotencyBuilder::transaction_pooling) switches it
    /// off, and so does a hook of the pool that drops them. A
    /// duplicate that another process works on, or whose key this process does not remember, shows in the
    /// server's log as an error that says so.
    #[default]
    Fewest,
    /// Each statement is a message of its own.
    Separate,
}

#[cfg(feature = "mysql")]
impl Isolation {
    pub(super) fn as_sql(self) -> &'static str {
        match self {
            Self::ReadCommitted => "READ COMMITTED",
            Self::RepeatableRead => "REPEATABLE READ",
            Self::Serializable => "SERIALIZABLE",
        }
    }
}
