//! Why a message is not processed.

use std::error::Error;
use std::time::Duration;

use crate::backend;
use crate::idempotency::{StartupError, StoreError};
use crate::settle::{Disposition, ErrorKind};

/// Why a message can't be told from others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum IdentityError {
    /// There is no id.
    #[error(
        "the message has no id: its publisher must set one that is the same at every publication of it"
    )]
    MissingId,
    /// The field of the payload that is the id is not there, or neither a string nor a whole number of 64 bits.
    #[error(
        "the payload has no id in the field that the consumer names: a string, or a whole number of 64 bits"
    )]
    MissingField,
    /// The id is empty.
    #[error("the message's id is empty: all messages with an empty one would be the same")]
    EmptyId,
    /// The consumer's name is empty or longer than 255 bytes.
    #[error("a consumer's name has 1 to 255 bytes")]
    Consumer,
    /// The source's name is empty or longer than 255 bytes.
    #[error("a source's name has 1 to 255 bytes")]
    Source,
}

/// Why a message was not processed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InboxError {
    /// It can't be told from others.
    #[error(transparent)]
    Identity(#[from] IdentityError),
    /// Another process still works on it.
    #[error("the message is being processed elsewhere")]
    InFlight,
    /// The database refused, or is out of reach.
    #[error("the inbox can't be reached: {0}")]
    Database(#[from] sqlx::Error),
    /// The database, or a connection to it, was waited for too long.
    #[error("the inbox waited too long for {0}")]
    StoreTimedOut(&'static str),
    /// The tables are missing, or older than this version needs.
    #[error(transparent)]
    Schema(StartupError),
    /// The runtime shut down under it.
    #[error("processing was interrupted by the runtime's shutdown")]
    Interrupted,
    /// The database asked for another run too often.
    #[error("serialization failures or deadlocks ended all {0} runs")]
    SerializationFailure(u32),
    /// The body took too long, and is undone.
    #[error("the consumer took longer than {0:?}")]
    TimedOut(Duration),
    /// The body panicked, and is undone.
    #[error("the consumer panicked")]
    Panicked,
    /// The body returned `Ok`, but its transaction can't be committed: a constraint failed at the end, or an error before it
    /// was ignored.
    #[error("the transaction was rolled back at its end: {0}")]
    TransactionAborted(String),
    /// The body ended the transaction itself. Something of it may be durable: the message is kept as unknown, and not run again.
    #[error(
        "the consumer ended its transaction itself; what is durable of it is unknown, and it does not run again"
    )]
    TransactionEnded,
    /// The body took a connection of its own from a pool with the [`guard`](crate::guard). Something of it may be durable: the
    /// message is kept as unknown, and not run again.
    #[error(
        "the consumer took a connection beside its transaction; what is durable of it is unknown, and it does not run again"
    )]
    EffectOutsideTransaction,
    /// An earlier run of this message ended so.
    #[error("what an earlier run of this message left is unknown; it does not run again")]
    OutcomeUnknown,
}

impl InboxError {
    /// Nobody's fault, and over some day: the message should wait for the database, and that it was delivered does not count.
    pub(crate) fn is_outage(&self) -> bool {
        match self {
            Self::Database(error) => backend::is_outage(error),
            Self::StoreTimedOut(_) | Self::Schema(_) | Self::Interrupted => true,
            _ => false,
        }
    }
}

impl Disposition for InboxError {
    /// `Validation`: the message is wrong. `Rejection`: it must not run again. `Transient`: deliver it again.
    fn disposition(&self) -> ErrorKind {
        match self {
            Self::Identity(_) => ErrorKind::Validation,
            Self::TransactionEnded | Self::EffectOutsideTransaction | Self::OutcomeUnknown => {
                ErrorKind::Rejection
            }
            _ => ErrorKind::Transient,
        }
    }

    fn cause(&self) -> Option<&(dyn Error + 'static)> {
        self.source()
    }
}

impl From<StoreError> for InboxError {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Database(error) => Self::Database(error),
            StoreError::TimedOut(what) => Self::StoreTimedOut(what),
            StoreError::Cipher(error) => Self::Database(sqlx::Error::Decode(error)),
            StoreError::Schema(error) => Self::Schema(error),
            StoreError::Corrupt(what) => Self::Database(sqlx::Error::Decode(what.into())),
        }
    }
}

/// So that a body may return what sqlx does.
impl From<InboxError> for sqlx::Error {
    fn from(error: InboxError) -> Self {
        match error {
            InboxError::Database(error) => error,
            other => sqlx::Error::Encode(Box::new(other)),
        }
    }
}
