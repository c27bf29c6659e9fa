//! Which lanes are this relay's, by its own clock.

use std::sync::{Mutex, PoisonError};

use tokio::time::Instant;

use crate::outbox::Lanes;

/// Shared with what is being published: nothing more is once the lease is over, or the lane another relay's.
#[derive(Debug)]
pub(super) struct Lease(Mutex<Held>);

#[derive(Clone, Copy, Debug)]
struct Held {
    lanes: Lanes,
    until: Instant,
    /// The relay ends: what is begun is ended, and nothing more begun.
    closing: bool,
}

impl Lease {
    pub(super) fn new() -> Self {
        Self(Mutex::new(Held {
            lanes: Lanes::default(),
            until: Instant::now(),
            closing: false,
        }))
    }

    fn held(&self) -> std::sync::MutexGuard<'_, Held> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The database says that these lanes are the relay's, at least until then by this process's clock.
    pub(super) fn renew(&self, lanes: Lanes, until: Instant) {
        let mut held = self.held();
        held.lanes = lanes;
        held.until = until;
    }

    pub(super) fn close(&self) {
        self.held().closing = true;
    }

    /// The lanes that are the relay's now.
    pub(super) fn lanes(&self) -> Lanes {
        self.lanes_at(Instant::now())
    }

    fn lanes_at(&self, now: Instant) -> Lanes {
        let held = self.held();
        if now < held.until {
            held.lanes
        } else {
            Lanes::default()
        }
    }

    /// Whether a message of this lane may be published now.
    pub(super) fn allows(&self, lane: u8) -> bool {
        !self.held().closing && self.lanes().contains(lane)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn nothing_is_published_after_the_lease() {
        let lease = Lease::new();
        assert!(!lease.allows(7));
        let until = Instant::now() + Duration::from_secs(10);
        lease.renew(Lanes::ALL, until);
        assert!(lease.allows(7));
        assert_eq!(lease.lanes_at(until), Lanes::default());
        lease.renew(Lanes::ALL, Instant::now());
        assert!(!lease.allows(7));
    }

    #[test]
    fn nothing_of_a_lane_that_is_another_relays_is_published() {
        let lease = Lease::new();
        let until = Instant::now() + Duration::from_secs(10);
        lease.renew([7].into_iter().collect(), until);
        assert!(lease.allows(7));
        assert!(!lease.allows(8));
    }

    #[test]
    fn a_relay_that_ends_begins_nothing() {
        let lease = Lease::new();
        lease.renew(Lanes::ALL, Instant::now() + Duration::from_secs(10));
        lease.close();
        assert!(!lease.allows(7));
    }
}
