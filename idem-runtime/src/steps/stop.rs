//! How the framework stops a handler: its failures never come back as an `Err` that a handler could swallow.
//!
//! A step that can't go on says why and never returns. Whoever runs the handler hears it, and drops the handler's future.

use std::future::pending;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;

use crate::idempotency::StoreError;
use crate::problem::Code;

/// Why a handler was stopped.
#[derive(Debug)]
pub(crate) enum Interrupt {
    /// Another attempt, or an operator, has the operation now.
    LostLease,
    /// The database asks for another run, or did not say what became of a commit: what is recorded tells.
    Again,
    /// The store can't be reached.
    Store(StoreError),
    /// What an effect outside became can't be found out: somebody must look.
    Unknown(String),
    /// The worker that runs the attempt is being stopped.
    Shutdown,
    /// It is not known yet: it can be asked, or called again, so much later.
    Later(Duration, String),
    /// The handler's own fault, in a step whose writes are undone.
    Fault(Code, String),
}

/// Where a step leaves its word.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stop(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    why: Mutex<Option<Interrupt>>,
    said: Notify,
}

impl Stop {
    /// Stops the handler. The first reason counts.
    pub(crate) async fn halt<T>(&self, why: Interrupt) -> T {
        self.say(why);
        pending().await
    }

    fn say(&self, why: Interrupt) {
        let mut first = self.0.why.lock().unwrap_or_else(PoisonError::into_inner);
        first.get_or_insert(why);
        self.0.said.notify_one();
    }

    /// Waits for a word. Cancel safe.
    pub(crate) async fn stopped(&self) -> Interrupt {
        loop {
            if let Some(why) = self.taken() {
                return why;
            }
            self.0.said.notified().await;
        }
    }

    /// The word, if there is one.
    pub(crate) fn taken(&self) -> Option<Interrupt> {
        let mut why = self.0.why.lock().unwrap_or_else(PoisonError::into_inner);
        why.take()
    }
}
