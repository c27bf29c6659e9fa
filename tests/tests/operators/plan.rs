//! What a handler and its provider do, as a test plans it.

use std::sync::{Arc, Mutex};
use std::time::Duration;

/// What the handler and its provider do from now on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    /// The name of the first step.
    pub(crate) first: &'static str,
    pub(crate) reserve: Reserve,
    pub(crate) policy: Policy,
    pub(crate) answer: Answer,
    /// Added to what the handler was asked to charge.
    pub(crate) more: i64,
    /// Of each call; a request may arrive for twice as long.
    pub(crate) timeout: Duration,
    pub(crate) end: End,
}

impl Default for Plan {
    fn default() -> Self {
        Self {
            first: "reserve",
            reserve: Reserve::Works,
            policy: Policy::AtMostOnce,
            answer: Answer::Charged,
            more: 0,
            timeout: Duration::from_secs(30),
            end: End::Answers,
        }
    }
}

/// The first step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reserve {
    Works,
    /// Its error is swallowed by the handler.
    Fails,
    EndsItsTransaction,
}

/// What follows a lost answer.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Policy {
    AtMostOnce,
    /// The provider honours keys for so long.
    Honoured(Duration),
    /// It can be asked, and can't tell.
    Asked,
}

/// What the provider does.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Answer {
    Charged,
    Lost,
    /// It charges, and answers what can't be stored.
    Unstorable,
    /// It declines, in words that can't be stored.
    UnstorableRefusal,
    /// It charges, and meanwhile somebody else takes the operation over.
    TakenOver,
    /// It charges, and its client takes a connection of the pool.
    BesideThePool,
}

/// What the handler does after the charge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Answers,
    Panics,
    /// It answers before it charges.
    Early,
}

/// A plan that a test changes.
#[derive(Clone)]
pub(crate) struct Plans(Arc<Mutex<Plan>>);

impl Plans {
    pub(crate) fn new(plan: Plan) -> Self {
        Self(Arc::new(Mutex::new(plan)))
    }

    pub(crate) fn now(&self) -> Plan {
        *self.0.lock().unwrap()
    }

    pub(crate) fn change(&self, plan: Plan) {
        *self.0.lock().unwrap() = plan;
    }
}
