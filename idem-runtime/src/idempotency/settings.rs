//! The defaults of all handlers, and what holds for one of them.

use std::sync::Arc;
use std::time::Duration;

use crate::backend::{Isolation, RoundTrips};
use crate::cipher::PayloadCipher;
use crate::faults::{self, Plant};
use crate::operation::{Errors, Expired, InFlight, Spec};
use crate::outbox::TraceHook;
use crate::problem::{ProblemStyle, UriReference};
use crate::region::HomeRegion;
use crate::response::HeaderPolicy;

/// The defaults, and what no attribute can say.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(super) ttl: Duration,
    pub(crate) wait: Duration,
    pub(super) tombstone: Duration,
    pub(crate) timeout: Duration,
    pub(super) errors: Errors,
    pub(super) in_flight: InFlight,
    pub(super) expired: Expired,
    pub(super) max_body: usize,
    pub(super) max_response: usize,
    pub(crate) store_timeout: Duration,
    pub(crate) writer_timeout: Duration,
    pub(crate) bare_keys: bool,
    pub(crate) isolation: Option<Isolation>,
    pub(super) round_trips: RoundTrips,
    /// Whether the database is reached through a pooler of transactions.
    pub(crate) transaction_pooling: bool,
    pub(super) lock_namespace: i32,
    /// Whether statements are sent that nothing right depends on.
    pub(crate) hints: bool,
    pub(crate) problems: ProblemStyle,
    pub(crate) headers: HeaderPolicy,
    pub(crate) cipher: Option<Arc<dyn PayloadCipher>>,
    pub(crate) status_link: Option<UriReference>,
    /// How long an operation with recovery points is its attempt's; renewed while that runs.
    pub(crate) lease: Duration,
    /// How many attempts such an operation has before it is kept as unknown.
    pub(crate) max_attempts: u32,
    /// The pause after the first attempt that did not end it; it doubles.
    pub(crate) retry_pause: Duration,
    pub(super) max_in_flight: usize,
    pub(super) max_waiting: usize,
    /// The largest message, in bytes.
    pub(crate) max_message: usize,
    /// Whether staged messages are told of by the database.
    pub(super) notify: bool,
    pub(crate) trace: Option<TraceHook>,
    /// Where accounts have a home region.
    pub(crate) home: Option<HomeRegion>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            ttl: Duration::from_secs(24 * 60 * 60),
            wait: Duration::from_secs(5),
            tombstone: Duration::from_secs(30 * 24 * 60 * 60),
            timeout: Duration::from_secs(30),
            errors: Errors::Release,
            in_flight: InFlight::Wait,
            expired: Expired::Execute,
            max_body: 2 * 1024 * 1024,
            max_response: 1024 * 1024,
            store_timeout: Duration::from_millis(1500),
            writer_timeout: Duration::from_secs(10),
            bare_keys: true,
            isolation: None,
            round_trips: RoundTrips::default(),
            transaction_pooling: false,
            // "idem" in ASCII.
            lock_namespace: 0x6964_656d,
            hints: true,
            problems: ProblemStyle::default(),
            headers: HeaderPolicy::default(),
            cipher: None,
            status_link: None,
            lease: Duration::from_secs(30),
            max_attempts: 30,
            retry_pause: Duration::from_secs(1),
            max_in_flight: 1024,
            max_waiting: 4096,
            max_message: 1024 * 1024,
            notify: true,
            trace: None,
            home: None,
        }
    }
}

/// What holds for one operation: its attribute over the defaults.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rules {
    pub(crate) ttl: Duration,
    pub(crate) wait: Duration,
    /// Zero unless expired keys are refused.
    pub(crate) tombstone: Duration,
    pub(crate) timeout: Duration,
    pub(crate) errors: Errors,
    pub(crate) in_flight: InFlight,
    pub(crate) max_body: usize,
    pub(crate) max_response: usize,
}

impl Settings {
    /// The first integer of advisory locks; `None`: none are taken.
    pub(crate) fn lock_namespace(&self) -> Option<i32> {
        self.hints.then_some(self.lock_namespace)
    }

    /// Whether staged messages are told of by the database.
    pub(crate) fn notifies(&self) -> bool {
        self.notify && self.hints
    }

    pub(crate) fn rules(&self, spec: &Spec) -> Rules {
        let expired = spec.expired.unwrap_or(self.expired);
        Rules {
            ttl: if faults::planted(Plant::NoTtl) {
                Duration::from_secs(100 * 365 * 24 * 60 * 60)
            } else {
                spec.ttl.unwrap_or(self.ttl)
            },
            wait: spec.wait.unwrap_or(self.wait),
            tombstone: match expired {
                Expired::Execute => Duration::ZERO,
                Expired::Reject => spec.tombstone.unwrap_or(self.tombstone),
            },
            timeout: spec.timeout.unwrap_or(self.timeout),
            errors: spec.errors.unwrap_or(self.errors),
            in_flight: spec.in_flight.unwrap_or(self.in_flight),
            max_body: spec.max_body.unwrap_or(self.max_body),
            max_response: spec.max_response.unwrap_or(self.max_response),
        }
    }
}
