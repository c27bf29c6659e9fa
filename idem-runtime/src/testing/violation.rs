//! The promises, and how each may be broken.

use std::fmt;
use std::time::Duration;

use http::StatusCode;

use super::answer::Answer;

/// A part of the test; each has keys of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Phase {
    /// The request, and the same again.
    Sequence,
    /// The same request many times at once, over all instances.
    Concurrent,
    /// The key again with another request.
    Changed,
    /// The answer is lost at several moments, and the request sent again.
    LostAnswer,
    /// Sent as it is, to learn what it passes. Of [`Crashes`](super::Crashes), as the next.
    Undisturbed,
    /// The attempt is lost at a point, and the request sent again.
    Crash {
        /// The point, counted from 1 in the order in which an attempt passes them.
        number: usize,
        /// What it is called.
        point: &'static str,
    },
    /// A last count after all phases, for effects that came late.
    Aftermath,
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Phase::Sequence => "sent twice in sequence",
            Phase::Concurrent => "sent many times at once",
            Phase::Changed => "key sent again with a changed request",
            Phase::LostAnswer => "answer lost, then sent again",
            Phase::Undisturbed => "sent without a crash",
            Phase::Crash { number, point } => {
                return write!(f, "crash at point {number}, `{point}`");
            }
            Phase::Aftermath => "last count",
        })
    }
}

/// The promise that a handler broke.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Violation {
    /// The test lacks what it needs. Not the handler's fault.
    #[error("the test needs {0}")]
    Incomplete(&'static str),
    /// The effects, or the calls, could not be counted. Not the handler's fault.
    #[error("[{phase}] the effects could not be counted: {error}")]
    NotCounted {
        /// When.
        phase: Phase,
        /// What the counter said.
        error: String,
    },
    /// A key's request did not have one effect.
    #[error(
        "[{phase}] {requests} requests had {effects} effects instead of {expected} (counted {before} before, {after} \
         after)"
    )]
    Effects {
        /// When.
        phase: Phase,
        /// How many requests were sent.
        requests: u64,
        /// The effects they should have had.
        expected: u64,
        /// The effects they had; negative when some vanished.
        effects: i128,
        /// The count before.
        before: u64,
        /// The count after.
        after: u64,
    },
    /// Another service was called too often, or not at all.
    #[error(
        "[{phase}] the other service counts {calls} calls instead of {expected} (counted {before} before, {after} after)"
    )]
    Calls {
        /// When.
        phase: Phase,
        /// How many a request without a crash makes.
        expected: u64,
        /// How many there were; negative when some vanished.
        calls: i128,
        /// The count before.
        before: u64,
        /// The count after.
        after: u64,
    },
    /// A crash left an operation whose outcome is unknown until an operator resolves it.
    #[error(
        "[{phase}] the operation's outcome is unknown now; if its handler has a step that says `at_most_once`, call          `.unknown_allowed()`: {answer}"
    )]
    Unknown {
        /// When.
        phase: Phase,
        /// What its client is told.
        answer: Box<Answer>,
    },
    /// After a crash a retry had another status than the request has without one.
    #[error("[{phase}] the retry must be answered {expected}, and was {answer}")]
    Retried {
        /// When.
        phase: Phase,
        /// The status of the request without a crash.
        expected: StatusCode,
        /// The answer.
        answer: Box<Answer>,
    },
    /// A retry got no answer, and recovery failed. Perhaps not the handler's fault.
    #[error("[{phase}] {no_answer}; recovery failed with: {error}")]
    NotRecovered {
        /// When.
        phase: Phase,
        /// What the retry ended with.
        no_answer: Box<Violation>,
        /// What recovery said last.
        error: String,
    },
    /// A first use was not answered with success, so that nothing could be proved.
    #[error("[{phase}] a first use of a key must succeed, and was answered {answer}")]
    FirstUse {
        /// When.
        phase: Phase,
        /// The answer.
        answer: Box<Answer>,
    },
    /// A first use was marked as a replay.
    #[error("[{phase}] the first answer to a new key says `Idempotent-Replayed`, and was {answer}")]
    ReplayedAtOnce {
        /// When.
        phase: Phase,
        /// The answer.
        answer: Box<Answer>,
    },
    /// A repeated request's answer is not marked as a replay.
    #[error("[{phase}] a repeated request's answer lacks `Idempotent-Replayed: true`: {answer}")]
    NotMarked {
        /// When.
        phase: Phase,
        /// The answer.
        answer: Box<Answer>,
    },
    /// A repeated request had another answer.
    #[error("[{phase}] a repeated request has another {what}\n  first: {first}\n  later: {later}")]
    Differs {
        /// When.
        phase: Phase,
        /// What differs: the status, the header fields or the body.
        what: &'static str,
        /// The answer that was first.
        first: Box<Answer>,
        /// The one that should be the same.
        later: Box<Answer>,
    },
    /// A duplicate was put off without being told for how long.
    #[error("[{phase}] a duplicate was put off without `Retry-After`: {answer}")]
    NoRetryAfter {
        /// When.
        phase: Phase,
        /// The answer, 409 or 503.
        answer: Box<Answer>,
    },
    /// A changed request with a used key was not refused.
    #[error("[{phase}] a used key with a changed request must be answered 422, and was {answer}")]
    NotRefused {
        /// When.
        phase: Phase,
        /// The answer.
        answer: Box<Answer>,
    },
    /// A request was not answered in time, retries included.
    #[error("[{phase}] no answer within {patience:?}; the last was {last}")]
    NoAnswer {
        /// When.
        phase: Phase,
        /// How long was waited.
        patience: Duration,
        /// The last answer that asked for a retry, or "none".
        last: String,
    },
    /// The router panicked or its answer's body broke off: a client would see its connection closed.
    #[error("[{phase}] a request had no whole answer: {message}")]
    Broken {
        /// When.
        phase: Phase,
        /// What happened.
        message: String,
    },
}
