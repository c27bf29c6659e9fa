//! A load generator that counts effects rather than answers. The program `hammer` is its command line.
//!
//! A seed decides keys, what is sent with each and when. Every key is tried as `docs/clients.md` tells a client to, until it
//! ends; then the effects that there are more than before are compared with the keys that ended in success.

pub mod arguments;
pub mod count;
mod jobs;
mod journey;
mod latency;
pub mod plan;
pub mod report;
pub mod request;
pub mod retry;
mod sender;
mod tally;
mod template;

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

use axum::http::{HeaderName, HeaderValue};

use self::plan::Plan;
use self::request::Request;
use self::retry::Patience;
use self::sender::{Limits, Sender};
use self::tally::Tally;

/// What can't be run, and why. Nothing was sent to the operation.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Unusable(pub String);

/// Everything that is decided before the first request.
#[derive(Clone, Debug)]
pub struct Settings {
    /// What is sent.
    pub request: Request,
    /// What is sent with each key.
    pub plan: Plan,
    /// Field lines of which the first attempt with some keys has one: [`Plan::sometimes`] numbers them.
    pub sometimes: Vec<(HeaderName, HeaderValue)>,
    /// No more keys than this.
    pub keys: u64,
    /// After so long no new key is begun.
    pub duration: Duration,
    /// How many keys are under way at a time.
    pub concurrency: usize,
    /// How many keys begin in a second, if that is less than could.
    pub rate: Option<f64>,
    /// How long a key is tried.
    pub patience: Patience,
    /// How long a request may take.
    pub timeout: Duration,
    /// How long, in bytes, an answer's content may be.
    pub max_answer: usize,
    /// Disconnects come within so long; `None`: within twice what an answer takes in the median.
    pub disconnect_within: Option<Duration>,
    /// The status that a changed body is answered with.
    pub mismatch_status: u16,
    /// Whether other hosts than this one may be sent to.
    pub allow_remote: bool,
}

/// How a key ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum End {
    /// It was not begun, or is under way.
    #[default]
    Pending,
    /// Answered with success.
    Succeeded,
    /// Answered with what no retry changes, and means that nothing was done.
    Refused,
    /// Answered with what no retry changes, and leaves open whether anything was done.
    Unknown,
    /// Given up: every answer asked to try again, or none came.
    Open,
}

/// A run: its settings, and what has come of it so far.
pub struct Hammer {
    settings: Settings,
    sender: Sender,
    next: AtomicU64,
    stopped: AtomicBool,
    tally: Mutex<Tally>,
    start: Instant,
}

impl fmt::Debug for Hammer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Hammer")
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}

impl Hammer {
    /// Prepares a run.
    ///
    /// # Errors
    ///
    /// When the requests can't be made, or would go to another host without leave.
    pub async fn new(settings: Settings) -> Result<Hammer, Unusable> {
        let first = settings.request.fill(&settings.plan.key(0))?;
        let sender = Sender::new(
            &first.urls,
            &Limits {
                timeout: settings.timeout,
                max_answer: settings.max_answer,
                idle: settings.concurrency,
                allow_remote: settings.allow_remote,
            },
        )
        .await?;
        Ok(Hammer {
            settings,
            sender,
            next: AtomicU64::new(0),
            stopped: AtomicBool::new(false),
            tally: Mutex::default(),
            start: Instant::now(),
        })
    }

    /// What was decided.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Begins no more keys. Those under way go on to their end.
    pub fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
    }

    /// The number of the next key, if one may begin.
    fn begin(&self, start: Instant) -> Option<u64> {
        if self.stopped.load(Ordering::Relaxed) || start.elapsed() >= self.settings.duration {
            return None;
        }
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        (number < self.settings.keys).then_some(number)
    }

    fn tally(&self) -> MutexGuard<'_, Tally> {
        self.tally.lock().expect("no holder panics")
    }
}
