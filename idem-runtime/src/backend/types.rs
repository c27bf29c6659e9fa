//! What passes between the framework and a database.

use std::time::Duration;

use bytes::Bytes;

use crate::fingerprint::Fingerprint;
use crate::scope::{RecordId, ScopeKey};

/// A key that an attempt wants.
#[derive(Debug)]
pub struct Claim<'a> {
    pub(crate) id: &'a RecordId,
    pub(crate) scope: &'a ScopeKey,
    pub(crate) operation: &'static str,
    pub(crate) fingerprint: &'a Fingerprint,
    /// What the fingerprint was told to count and to ignore, as JSON; `None` for nothing.
    pub(crate) fingerprint_options: Option<&'a str>,
    /// Drawn anew for each request: tells an attempt's own record from another's.
    pub(crate) owner: [u8; 16],
    /// The first integer of advisory locks; `None`: none are taken.
    #[cfg_attr(not(feature = "postgres"), allow(dead_code))]
    pub(crate) lock_namespace: Option<i32>,
}

/// An answer to be stored.
#[derive(Debug)]
pub struct Answer<'a> {
    pub(crate) status: u16,
    /// `None` where `replay_with` rebuilds the answer.
    pub(crate) content: Option<Content<'a>>,
    /// The resources as JSON; `None` for none.
    pub(crate) resources: Option<&'a str>,
    /// From the storing of the answer, by the database's clock. `None`: never.
    pub(crate) ttl: Option<Duration>,
    /// After `ttl`.
    pub(crate) tombstone: Duration,
}

#[cfg(feature = "postgres")]
impl Claim<'_> {
    /// The two integers of the key's advisory lock; `None`: none is taken.
    pub(super) fn lock(&self) -> Option<(i32, i32)> {
        Some((self.lock_namespace?, self.id.lock_word()))
    }
}

impl Answer<'_> {
    /// Of headers and body, in bytes.
    pub(crate) fn content_length(&self) -> usize {
        self.content
            .as_ref()
            .map_or(0, |content| content.headers.len() + content.body.len())
    }

    pub(super) fn ttl_millis(&self) -> Option<i64> {
        self.ttl.map(millis)
    }

    pub(super) fn retention_millis(&self) -> Option<i64> {
        self.ttl
            .map(|ttl| millis(ttl).saturating_add(millis(self.tombstone)))
    }
}

/// Headers and body, perhaps sealed by a cipher.
#[derive(Debug)]
pub(crate) struct Content<'a> {
    pub(crate) headers: &'a [u8],
    pub(crate) body: &'a [u8],
    pub(crate) sealed: bool,
}

/// What a claim found.
#[derive(Debug)]
pub enum Claimed {
    /// The key is this attempt's. `took_over`: from a record past its lifetime.
    Won { took_over: bool },
    /// There is a record.
    Held(Record),
    /// Another transaction works on it.
    InFlight,
}

/// What the storing of an answer found.
#[derive(Debug)]
pub enum Completed {
    Stored(Stored),
    /// Another attempt's record was there first.
    Lost,
    /// The transaction that claimed the key is over.
    NotOpen(TransactionState),
}

/// How far a message came that stores and commits, before it failed.
#[derive(Debug)]
pub enum EndFailure {
    /// The answer was not stored. Which transaction the connection was in, nobody asked yet.
    Storing(sqlx::Error),
    /// The claim's transaction was rolled back instead of committed.
    RolledBack(sqlx::Error),
    /// The database did not say what became of it, but this, if anything.
    Open(Option<sqlx::Error>),
}

/// What became of a transaction while the handler had it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransactionState {
    /// It still runs.
    Open,
    /// It is gone, and nothing of it nor after it is durable.
    RolledBack,
    /// It is gone, and something may be durable.
    Ended,
    /// It is gone, and only a row that was written in it can tell whether something is durable.
    Unclear,
}

/// When a stored answer expires, in milliseconds since 1970 by the database's clock.
#[derive(Clone, Copy, Debug)]
pub struct Stored {
    pub(crate) expires_at: Option<i64>,
}

/// A record's state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i16)]
pub enum State {
    /// Claimed. Committed only if a handler ended its own transaction.
    Started = 0,
    /// Answered.
    Completed = 1,
    /// Somebody must look.
    Unknown = 2,
}

impl State {
    pub(super) fn from_sql(state: i16) -> Self {
        match state {
            0 => Self::Started,
            1 => Self::Completed,
            _ => Self::Unknown,
        }
    }
}

/// Where a record stands by the database's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// It answers.
    Live,
    /// Its `ttl` has passed; it is refused until its tombstone goes.
    Tombstone,
    /// It may be replaced.
    Expired,
}

impl Standing {
    pub(super) fn from_sql(standing: i32) -> Self {
        match standing {
            0 => Self::Live,
            1 => Self::Tombstone,
            _ => Self::Expired,
        }
    }
}

/// A record as it was read.
#[derive(Clone, Debug)]
pub struct Record {
    pub(crate) state: State,
    pub(crate) standing: Standing,
    pub(crate) owner: Vec<u8>,
    pub(crate) fingerprint: Fingerprint,
    pub(crate) fingerprint_options: Option<String>,
    pub(crate) status: u16,
    pub(crate) headers: Option<Bytes>,
    pub(crate) body: Option<Bytes>,
    pub(crate) sealed: bool,
    pub(crate) resources: Option<String>,
    /// Milliseconds since 1970.
    pub(crate) expires_at: Option<i64>,
}

impl Record {
    /// An operation that is not ended.
    pub(crate) fn is_in_flight(&self) -> bool {
        self.state == State::Started && self.standing == Standing::Live
    }
}

/// One batch of an erasure.
#[derive(Debug)]
pub struct ErasedBatch {
    pub(crate) erased: u64,
    /// Records of the scope that are `started` or `unknown` and stay.
    pub(crate) kept: u64,
    /// The last record of a full batch. `None`: there were fewer, so that there is no more to look at.
    pub(crate) last: Option<RecordId>,
}

/// How many records of a page stay though their scope is erased.
#[cfg(any(feature = "sqlite", feature = "mysql"))]
pub(super) fn kept<'p>(page: impl Iterator<Item = (&'p [u8], i16)>, scope: &ScopeKey) -> u64 {
    page.filter(|(owner, state)| {
        *owner == scope.as_str().as_bytes() && State::from_sql(*state) != State::Completed
    })
    .count() as u64
}

/// A fingerprint from its two columns.
pub(super) fn fingerprint(version: i16, digest: &[u8]) -> sqlx::Result<Fingerprint> {
    let parts = u8::try_from(version).ok().zip(digest.try_into().ok());
    let (version, digest) = parts
        .ok_or_else(|| sqlx::Error::Decode("a stored fingerprint is not 32 bytes long".into()))?;
    Ok(Fingerprint::from_stored(version, digest))
}

/// Whole milliseconds, saturating.
pub(crate) fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX / 4)
}
