//! Crash points, and planted faults for the project's own tests. Without the features `testing` and `__faults` all of it
//! compiles to nothing.

#[cfg(feature = "testing")]
mod plan;

/// A fault that a test plants, to see that some test turns red.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(not(feature = "__faults"), allow(dead_code))]
pub(crate) enum Plant {
    /// The handler runs without a claim, and another attempt's record does not stop its commit.
    NoClaim,
    /// Any request with the key is a replay.
    NoFingerprint,
    /// The path does not count.
    NoPath,
    /// All callers share one key space.
    NoScope,
    /// The answer is stored before the effect commits, in a transaction of its own. SQLite has one
    /// writer: there nothing can be stored then.
    AnswerBefore,
    /// The answer is stored after the effect commits, in a transaction of its own.
    AnswerAfter,
    /// A failed commit is answered as if it had not failed.
    CommitSwallowed,
    /// `ttl` is ignored: stored answers never expire.
    NoTtl,
    /// An expired record is looked at first and replaced later, whatever it is by then.
    ExpiredNotAtomic,
    /// A begin that its time limit cut off leaves its connection in the pool. On SQLite that is harmless:
    /// sqlx itself rolls back a begin that nobody waits for.
    BeginCancelled,
    /// An attempt ends with the connection of its client.
    DroppedWithClient,
    /// Fifty bytes are kept for each key.
    KeysKept,
    /// A stored answer is replayed before the caller is authenticated.
    ReplayUnauthenticated,
    /// That an external step was begun is not committed before its call.
    IntentLater,
    /// Each attempt gives the other service a key of its own.
    KeyOfAttempt,
    /// A lost answer is followed by another call, whatever the step declares.
    LostIsNothing,
    /// The service's word that there was no call is believed at once.
    AbsentBelieved,
}

#[cfg(feature = "__faults")]
mod active {
    use std::collections::HashMap;
    use std::io::Write;
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::sync::{LazyLock, Mutex, PoisonError};

    use axum::response::Response;
    use http::HeaderMap;

    use super::Plant;
    use crate::key::IdempotencyKey;
    use crate::response::{CapturedResponse, mark_replayed};
    use crate::scope::RecordId;

    /// What [`Plant::ReplayUnauthenticated`] replays, by the digest of the key alone.
    static ANSWERS: LazyLock<Mutex<HashMap<String, CapturedResponse>>> =
        LazyLock::new(Mutex::default);

    static PLANTED: LazyLock<Option<String>> = LazyLock::new(|| std::env::var("IDEM_PLANT").ok());
    static CRASH_AT: LazyLock<Option<At>> = LazyLock::new(|| At::variable("IDEM_CRASH_AT"));
    static STOP_AT: LazyLock<Option<At>> = LazyLock::new(|| At::variable("IDEM_STOP_AT"));
    static CRASH_COUNT: LazyLock<Option<String>> =
        LazyLock::new(|| std::env::var("IDEM_CRASH_COUNT").ok());
    static PASSED: AtomicU64 = AtomicU64::new(0);

    /// Where something is to happen.
    enum At {
        /// At the point of this number.
        Number(u64),
        /// At a point of this name, when it is passed for so many times: `commit.after#2`.
        Name { name: String, left: AtomicU64 },
    }

    impl At {
        fn variable(name: &str) -> Option<Self> {
            let value = std::env::var(name).ok()?;
            match value.split_once('#') {
                Some((name, number)) => Some(Self::Name {
                    name: name.to_owned(),
                    left: AtomicU64::new(number.parse().ok()?),
                }),
                None => Some(Self::Number(value.parse().ok()?)),
            }
        }

        fn is(&self, passed: u64, point: &str) -> bool {
            match self {
                Self::Number(number) => *number == passed,
                Self::Name { name, left } => {
                    name == point && left.fetch_sub(1, Ordering::SeqCst) == 1
                }
            }
        }
    }

    pub(crate) fn planted(plant: Plant) -> bool {
        PLANTED
            .as_deref()
            .is_some_and(|name| name == format!("{plant:?}"))
    }

    /// Keeps an answer for [`recall`], when that fault is planted.
    pub(crate) fn remember(key_digest: &str, answer: &CapturedResponse) {
        if planted(Plant::ReplayUnauthenticated) {
            let mut answers = ANSWERS.lock().unwrap_or_else(PoisonError::into_inner);
            answers.insert(key_digest.to_owned(), answer.clone());
        }
    }

    /// Keeps a key for ever, when that fault is planted.
    pub(crate) fn keep(id: &RecordId) {
        static KEPT: Mutex<Vec<[u8; 50]>> = Mutex::new(Vec::new());
        if planted(Plant::KeysKept) {
            let mut key = [0; 50];
            key[..32].copy_from_slice(id.as_bytes());
            KEPT.lock()
                .unwrap_or_else(PoisonError::into_inner)
                .push(key);
        }
    }

    /// The answer that the key had, whoever asks.
    pub(crate) fn recall(headers: &HeaderMap) -> Option<Response> {
        let key = IdempotencyKey::from_headers(headers, true).ok()??;
        let answers = ANSWERS.lock().unwrap_or_else(PoisonError::into_inner);
        let mut response = answers.get(&key.digest())?.clone().into_response(None);
        mark_replayed(&mut response, None);
        Some(response)
    }

    /// The process dies here, by SIGKILL, when this is the point that `IDEM_CRASH_AT` says, and stands still, by SIGSTOP, when it
    /// is the one that `IDEM_STOP_AT` says.
    pub(super) fn point(name: &str) {
        let passed = PASSED.fetch_add(1, Ordering::SeqCst) + 1;
        if let Some(path) = CRASH_COUNT.as_deref() {
            let opened = std::fs::OpenOptions::new()
                .create(true)
                .append(true)
                .open(path);
            if let Ok(mut file) = opened {
                let _ = writeln!(file, "{name}");
            }
        }
        if CRASH_AT.as_ref().is_some_and(|at| at.is(passed, name)) {
            signal("-KILL");
            std::process::abort();
        }
        if STOP_AT.as_ref().is_some_and(|at| at.is(passed, name)) {
            signal("-STOP");
            // The signal is sent, and the process stands still a moment later: not past this point.
            std::thread::sleep(std::time::Duration::from_millis(100));
        }
    }

    fn signal(name: &str) {
        let _ = std::process::Command::new("kill")
            .args([name, &std::process::id().to_string()])
            .status();
    }
}

#[cfg(feature = "__faults")]
pub(crate) use active::{keep, planted, recall, remember};
#[cfg(feature = "testing")]
pub(crate) use plan::{Plan, carried, let_through};

/// A moment at which a process may die. One precedes everything that is written, and one follows it.
#[cfg(any(feature = "testing", feature = "__faults"))]
pub(crate) fn point(name: &'static str) {
    #[cfg(feature = "__faults")]
    active::point(name);
    #[cfg(feature = "testing")]
    plan::point(name);
}

#[cfg(not(any(feature = "testing", feature = "__faults")))]
#[inline(always)]
pub(crate) const fn point(_: &'static str) {}

#[cfg(not(feature = "testing"))]
#[inline(always)]
pub(crate) fn let_through(_: crate::detach::Panic) {}

#[cfg(not(feature = "testing"))]
#[inline(always)]
pub(crate) fn carried<F>(future: F) -> F {
    future
}

#[cfg(not(feature = "__faults"))]
#[inline(always)]
pub(crate) const fn planted(_: Plant) -> bool {
    false
}

#[cfg(not(feature = "__faults"))]
#[inline(always)]
pub(crate) const fn keep(_: &crate::scope::RecordId) {}

#[cfg(not(feature = "__faults"))]
#[inline(always)]
pub(crate) const fn remember(_: &str, _: &crate::response::CapturedResponse) {}

#[cfg(not(feature = "__faults"))]
#[inline(always)]
pub(crate) const fn recall(_: &http::HeaderMap) -> Option<axum::response::Response> {
    None
}
