//! What is refused at start: two functions with one operation's name, and time limits that contradict each other.

use std::fmt;
use std::time::Duration;

use super::listed::{Does, Listed};
use crate::backend::Backend;
use crate::idempotency::Idempotency;
use crate::operation::{InFlight, Spec};

/// The time limits of one operation: its attribute's, over those of the state's `Idempotency`.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    pub(super) ttl: Duration,
    wait: Duration,
    waits: bool,
    acquire_timeout: Duration,
}

impl Limits {
    pub(super) fn of<DB: Backend>(idempotency: &Idempotency<DB>, spec: &Spec) -> Self {
        let rules = idempotency.shared.settings.rules(spec);
        Self {
            ttl: rules.ttl,
            wait: rules.wait,
            waits: rules.in_flight == InFlight::Wait,
            acquire_timeout: idempotency.pool().options().get_acquire_timeout(),
        }
    }
}

/// Why a [`Router`](super::Router) is refused at start. It shows every fault, each on a line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct RoutingError {
    faults: Vec<RoutingFault>,
}

impl RoutingError {
    /// All that is wrong, in the order of the report.
    #[must_use]
    pub fn faults(&self) -> &[RoutingFault] {
        &self.faults
    }
}

impl fmt::Display for RoutingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, fault) in self.faults.iter().enumerate() {
            let line = if index == 0 { "" } else { "\n" };
            write!(f, "{line}{fault}")?;
        }
        Ok(())
    }
}

/// One thing that is wrong with a router.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RoutingFault {
    /// Records, metrics and reviews tell operations by their names.
    #[error(
        "two functions are the operation `{operation}`: `{first}` ({first_route}) and `{second}` \
         ({second_route}); give one of them another name, `operation = \"..\"`"
    )]
    DuplicateOperation {
        /// The name that both have.
        operation: String,
        /// One function.
        first: String,
        /// The method and route of the first.
        first_route: String,
        /// The other function.
        second: String,
        /// The method and route of the second.
        second_route: String,
    },
    /// A duplicate that waited would find its answer expired.
    #[error(
        "`{operation}` (`{function}`, {route}) has a `ttl` of {ttl:?}, which is not longer than its `wait` of \
         {wait:?}: a duplicate that waited would find its answer expired; raise `ttl`, or lower `wait`"
    )]
    TtlTooShort {
        /// The operation's name.
        operation: String,
        /// Its function.
        function: String,
        /// Its method and route.
        route: String,
        /// How long its answers are replayed.
        ttl: Duration,
        /// How long a duplicate waits.
        wait: Duration,
    },
    /// A duplicate would wait longer than a request for a connection does.
    #[error(
        "`{operation}` (`{function}`, {route}) has a `wait` of {wait:?}, longer than the pool's acquire time-out of \
         {acquire_timeout:?}; lower `wait`, or raise `PoolOptions::acquire_timeout`"
    )]
    WaitTooLong {
        /// The operation's name.
        operation: String,
        /// Its function.
        function: String,
        /// Its method and route.
        route: String,
        /// How long a duplicate waits.
        wait: Duration,
        /// The pool's.
        acquire_timeout: Duration,
    },
}

/// Everything that is wrong, at once. `listed` is in the report's order.
pub(super) fn check<S>(listed: &[Listed<S>]) -> Result<(), RoutingError> {
    let mut faults = Vec::new();
    let mut known: Vec<(&str, &Listed<S>)> = Vec::new();
    for entry in listed {
        let Some(operation) = entry.function.operation() else {
            continue;
        };
        let of_that_name = || known.iter().filter(|(name, _)| *name == operation);
        if of_that_name().any(|(_, other)| other.function.is_the_same_as(&entry.function)) {
            continue; // one function on several routes
        }
        if let Some((_, first)) = of_that_name().next() {
            faults.push(RoutingFault::DuplicateOperation {
                operation: operation.to_owned(),
                first: first.function.path.to_owned(),
                first_route: place(first),
                second: entry.function.path.to_owned(),
                second_route: place(entry),
            });
        }
        faults.extend(limits(entry));
        known.push((operation, entry));
    }
    if faults.is_empty() {
        Ok(())
    } else {
        Err(RoutingError { faults })
    }
}

fn limits<S>(entry: &Listed<S>) -> Vec<RoutingFault> {
    let mut faults = Vec::new();
    let (Some(limits), Does::Idempotent(spec)) = (&entry.limits, &entry.function.does) else {
        return faults;
    };
    let Limits {
        ttl,
        wait,
        waits,
        acquire_timeout,
    } = *limits;
    if !waits {
        return faults;
    }
    let names = || {
        (
            spec.name.to_owned(),
            entry.function.path.to_owned(),
            place(entry),
        )
    };
    if ttl <= wait {
        let (operation, function, route) = names();
        faults.push(RoutingFault::TtlTooShort {
            operation,
            function,
            route,
            ttl,
            wait,
        });
    }
    if wait > acquire_timeout {
        let (operation, function, route) = names();
        faults.push(RoutingFault::WaitTooLong {
            operation,
            function,
            route,
            wait,
            acquire_timeout,
        });
    }
    faults
}

fn place<S>(entry: &Listed<S>) -> String {
    format!("{} {}", entry.method, entry.route)
}
