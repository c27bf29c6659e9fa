//! What a database does for the outbox: messages that commit with an effect, the lanes that relays share among them, and what
//! became of each message.
//!
//! A message is a row of `idem_outbox`. Its state says which index finds it, so that each kind of row costs the others
//! nothing: pending rows are read in the order of their positions, delayed and failed ones when their time comes, delivered
//! and dead ones by their age. All times are the database's own.

use std::future::Future;
use std::time::Duration;

use bytes::Bytes;
use sqlx::{Database, Pool};

use super::operations::Audit;
use crate::outbox::{Lanes, MessageId, MessageState, OutboxMessage};

#[cfg(any(feature = "postgres", feature = "sqlite", feature = "mysql"))]
pub(in crate::backend) mod rows;

/// A message that is staged.
#[derive(Debug)]
pub struct Staged<'a> {
    pub(crate) id: MessageId,
    pub(crate) topic: &'a str,
    pub(crate) ordering_key: Option<&'a str>,
    pub(crate) lane: u8,
    pub(crate) content_type: &'a str,
    /// As JSON; `None` for none.
    pub(crate) headers: Option<&'a str>,
    pub(crate) payload: &'a [u8],
    /// From the staging.
    pub(crate) delay: Option<Duration>,
}

impl Outcome {
    pub(crate) fn is_empty(&self) -> bool {
        self.delivered.is_empty() && self.failed.is_empty()
    }

    /// It is written down.
    pub(crate) fn clear(&mut self) {
        self.delivered.clear();
        self.failed.clear();
        self.unblocks = false;
    }
}

impl Staged<'_> {
    pub(in crate::backend) fn state(&self) -> MessageState {
        match self.delay {
            None => MessageState::Pending,
            Some(_) => MessageState::Delayed,
        }
    }
}

/// Topics that are left alone for a while: those that begin so, but for those that begin with one of the exceptions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Paused {
    pub(crate) prefix: String,
    pub(crate) except: Vec<String>,
}

/// Which messages a relay asks for.
#[derive(Debug)]
pub struct Ask<'a> {
    pub(crate) lanes: Lanes,
    /// Pending messages up to this position are not looked at.
    pub(crate) floor: i64,
    /// Nor those beyond this one.
    pub(crate) ceiling: i64,
    pub(crate) paused: &'a [Paused],
    /// Messages that are being published.
    pub(crate) busy: &'a [i64],
    /// Keys that are left alone, for one of their messages has been published for long.
    pub(crate) busy_keys: &'a [String],
    /// How many pending ones.
    pub(crate) pending: u32,
    /// How many of those whose time has come.
    pub(crate) due: u32,
    /// With another number the statement is planned anew, where its plan is kept.
    #[cfg_attr(not(feature = "postgres"), allow(dead_code))]
    pub(crate) plan: u32,
}

/// A message to be published.
#[derive(Debug)]
pub(crate) struct Fetched {
    pub(crate) position: i64,
    pub(crate) lane: u8,
    pub(crate) state: MessageState,
    pub(crate) message: OutboxMessage,
}

/// What is fetched at one moment.
#[derive(Debug, Default)]
pub struct Batch {
    pub(crate) rows: Vec<Fetched>,
    /// Where the database's transactions stood, if it tells.
    pub(crate) horizon: Option<Horizon>,
}

/// Where transactions stood when something was read: all before `oldest` had ended, none from `next` on had begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Horizon {
    pub(crate) oldest: i64,
    pub(crate) next: i64,
    /// A message with an ordering key waits for another attempt.
    pub(crate) blocked: bool,
}

/// A message whose publisher failed.
#[derive(Debug)]
pub(crate) struct FailedAttempt {
    #[cfg_attr(not(any(feature = "sqlite", feature = "mysql")), allow(dead_code))]
    pub(crate) position: i64,
    #[cfg_attr(not(feature = "postgres"), allow(dead_code))]
    pub(crate) id: MessageId,
    /// How many attempts it had before this one: another relay's word is not overwritten.
    pub(crate) attempts: u32,
    /// Until the next; `None`: it is dead.
    pub(crate) delay: Option<Duration>,
    pub(crate) reason: String,
}

/// What became of a batch.
#[derive(Debug, Default)]
pub struct Outcome {
    pub(crate) delivered: Vec<(i64, MessageId)>,
    /// Delivered messages stay, for a while.
    pub(crate) keep: bool,
    pub(crate) failed: Vec<FailedAttempt>,
    /// Among what is delivered is what its key waited for.
    #[cfg_attr(not(feature = "postgres"), allow(dead_code))]
    pub(crate) unblocks: bool,
}

/// Which messages an operator asks for.
#[derive(Clone, Debug, Default)]
pub struct MessageFilter<'a> {
    pub(crate) state: Option<MessageState>,
    pub(crate) topic: Option<&'a str>,
    pub(crate) ordering_key: Option<&'a str>,
    /// Those that follow this position.
    pub(crate) after: Option<i64>,
    pub(crate) limit: u32,
}

/// A message as an operator sees it. Times are milliseconds since 1970.
#[derive(Clone, Debug)]
pub struct MessageRow {
    pub(crate) position: i64,
    pub(crate) id: MessageId,
    pub(crate) topic: String,
    pub(crate) ordering_key: Option<String>,
    pub(crate) content_type: String,
    pub(crate) headers: Vec<(String, String)>,
    /// `None` in a list.
    pub(crate) payload: Option<Bytes>,
    /// In bytes.
    pub(crate) size: i64,
    pub(crate) staged_at: i64,
    pub(crate) state: MessageState,
    /// Until when it waits, or since when it is delivered or dead.
    pub(crate) state_at: i64,
    pub(crate) attempts: u32,
    pub(crate) reason: Option<String>,
    /// The moment at which the row was read.
    pub(crate) now: i64,
}

/// How many messages there are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MessageCounts {
    pub(crate) pending: u64,
    pub(crate) delayed: u64,
    pub(crate) failed: u64,
    pub(crate) delivered: u64,
    pub(crate) dead: u64,
    /// The age of the oldest that is pending or failed, in milliseconds; 0 if there is none.
    pub(crate) oldest: i64,
}

impl MessageCounts {
    /// From rows of state, number and age.
    pub(in crate::backend) fn of(rows: impl IntoIterator<Item = (i16, i64, i64)>) -> Self {
        let mut counts = Self::default();
        for (state, number, age) in rows {
            let number = number.unsigned_abs();
            let state = MessageState::from_sql(state);
            match state {
                MessageState::Pending => counts.pending = number,
                MessageState::Delayed => counts.delayed = number,
                MessageState::Failed => counts.failed = number,
                MessageState::Delivered => counts.delivered = number,
                MessageState::Dead => counts.dead = number,
            }
            if matches!(state, MessageState::Pending | MessageState::Failed) {
                counts.oldest = counts.oldest.max(age);
            }
        }
        counts
    }
}

/// What an operator does with a message that is not delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Handling {
    /// It is published again as if it had never failed.
    Requeue,
    /// It is deleted.
    Drop,
}

/// See the module. But for `stage` all of it is run outside any transaction.
pub trait OutboxStore: Database {
    /// Stages a message in the transaction that is open. One statement, which also wakes relays if it is to `notify` them.
    fn stage(
        connection: &mut Self::Connection,
        message: &Staged<'_>,
        notify: bool,
    ) -> impl Future<Output = sqlx::Result<()>> + Send;

    /// Listens, on a connection of its own, and calls `wake` for each commit with staged messages. Returns when it can't any
    /// more, and at once with `false` where the database has nothing to listen to.
    fn listen(
        _pool: &Pool<Self>,
        _wake: impl Fn() + Send,
    ) -> impl Future<Output = sqlx::Result<bool>> + Send {
        std::future::ready(Ok(false))
    }

    /// Says that a relay lives, for as long as a lease. Returns how many do.
    fn enlist(
        connection: &mut Self::Connection,
        relay: &[u8; 16],
        lease: Duration,
    ) -> impl Future<Output = sqlx::Result<u32>> + Send;

    /// Renews the lease of the lanes that are a relay's. Returns them.
    fn renew_lanes(
        connection: &mut Self::Connection,
        relay: &[u8; 16],
        lease: Duration,
    ) -> impl Future<Output = sqlx::Result<Lanes>> + Send;

    /// Takes up to so many lanes that are nobody's, or whose lease is over. Returns all that are the relay's then.
    fn take_lanes(
        connection: &mut Self::Connection,
        relay: &[u8; 16],
        lease: Duration,
        most: u32,
    ) -> impl Future<Output = sqlx::Result<Lanes>> + Send;

    /// Gives lanes back that are a relay's.
    fn give_lanes(
        connection: &mut Self::Connection,
        relay: &[u8; 16],
        lanes: Lanes,
    ) -> impl Future<Output = sqlx::Result<()>> + Send;

    /// Says that a relay ends. Its lanes are given back before.
    fn leave(
        connection: &mut Self::Connection,
        relay: &[u8; 16],
    ) -> impl Future<Output = sqlx::Result<()>> + Send;

    /// Writes down what became of messages, as `settle` does, and reads messages whose turn it is then, in the order of their
    /// positions. One that follows a failed one of its ordering key is not among them.
    fn fetch(
        connection: &mut Self::Connection,
        ask: &Ask<'_>,
        outcome: &Outcome,
    ) -> impl Future<Output = sqlx::Result<Batch>> + Send;

    /// Writes down what became of messages. What was said before of a part of them may be said again.
    fn settle(
        connection: &mut Self::Connection,
        outcome: &Outcome,
    ) -> impl Future<Output = sqlx::Result<()>> + Send;

    /// Deletes delivered messages that were kept for so long. Returns how many.
    fn sweep_delivered(
        connection: &mut Self::Connection,
        keep: Duration,
        batch: u32,
    ) -> impl Future<Output = sqlx::Result<u64>> + Send;

    /// The messages that a filter lets through, without their payloads, in the order of their positions. Changes nothing.
    fn messages(
        connection: &mut Self::Connection,
        filter: &MessageFilter<'_>,
    ) -> impl Future<Output = sqlx::Result<Vec<MessageRow>>> + Send;

    /// One message. Changes nothing.
    fn message(
        connection: &mut Self::Connection,
        id: MessageId,
    ) -> impl Future<Output = sqlx::Result<Option<MessageRow>>> + Send;

    /// Handles a message that is not delivered, and notes it in the audit; false: there is no such message, and nothing is
    /// changed. In a transaction of its own.
    fn handle(
        connection: &mut Self::Connection,
        id: MessageId,
        handling: Handling,
        audit: &Audit<'_>,
    ) -> impl Future<Output = sqlx::Result<bool>> + Send;

    /// Counts the messages.
    fn count_messages(
        connection: &mut Self::Connection,
    ) -> impl Future<Output = sqlx::Result<MessageCounts>> + Send;
}
