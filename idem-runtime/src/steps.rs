//! Effects outside the database: handlers with recovery points.
//!
//! A transaction can't be held open across a call of unknown length, and can't roll back a charge of a card. A handler that
//! takes `&mut Steps<DB, E>` is a state machine instead, whose recovery points are rows: each step is recorded when it is
//! taken, and a handler that runs again, after a crash or on another machine, is given what its steps left and goes on
//! where nothing is recorded.
//!
//! * [`Steps::atomic`] runs a part in a transaction; its writes and its result commit together.
//! * [`Steps::external`] calls another service. That it was begun is committed before the call, with the key that the service
//!   is given and the input that every call sends. What follows a lost answer is declared: the service honours the key for
//!   so long ([`key_lifetime`](ExternalStep::key_lifetime)), it can be asked ([`reconcile`](ExternalStep::reconcile)), or
//!   neither ([`at_most_once`](ExternalStep::at_most_once)), and the operation is then kept as *unknown*.
//!
//! # The handler runs again
//!
//! From its beginning, with the arguments that it had, whenever an attempt ends without an answer. So it must take the same
//! steps in the same order, and what lies between them must have no effect and depend on nothing but the arguments and the
//! steps' results: no random numbers, no clock, no reading of tables outside a step. Steps that don't match what is
//! recorded are never guessed at: the operation is kept as *unknown*, with the reason.
//!
//! # What is committed when
//!
//! | moment | commit |
//! |---|---|
//! | the key is claimed, with the arguments | 1 |
//! | an atomic step ends | with what comes next: the next step's beginning, or the answer |
//! | an external step begins | 1, with the atomic step before it |
//! | an external step ends | with what comes next where the service honours the key, else 1 |
//! | the handler returns | 1, with the atomic step before it |

mod again;
mod attempt;
mod core;
mod downstream;
mod external;
mod inputs;
mod journal;
mod outcome;
mod quotable;
mod recovery;
mod request;
#[cfg(feature = "reqwest")]
mod reqwest;
mod stop;

use std::fmt;
use std::marker::PhantomData;
use std::ops::AsyncFnOnce;

use uuid::Uuid;

pub use self::again::RunsAgain;
pub(crate) use self::attempt::journal as journal_of;
pub(crate) use self::core::{Core, Entered, seal, unseal};
pub use self::downstream::DownstreamKey;
pub use self::external::{ExternalStep, Policy, Retry};
pub use self::inputs::{Arguments, Inputs, Keep, Revive};
pub(crate) use self::journal::{Entry, Journal, Kind, StepState};
pub use self::outcome::{CallFailure, Classify, Never, Reconciled, StepData, Unclassified};
use self::quotable::quotable;
pub use self::recovery::{Recovered, Recovery, RecoveryError, RecoveryHandle};
#[cfg(feature = "reqwest")]
pub use self::reqwest::NotSent;
pub(crate) use self::stop::Interrupt;
use crate::backend::{Backend, TransactionState};
use crate::problem::Code;
use crate::tx::Tx;

/// A handler's recovery points. `E` is the handler's error, so that `?` in a step needs no annotation.
///
/// See the [module](self).
pub struct Steps<DB: Backend, E> {
    core: Core<DB>,
    error: PhantomData<fn() -> E>,
}

impl<DB: Backend, E> Steps<DB, E> {
    pub(crate) fn new(core: Core<DB>) -> Self {
        Self {
            core,
            error: PhantomData,
        }
    }

    pub(crate) fn into_core(self) -> Core<DB> {
        self.core
    }

    /// The same UUID (version 8) for every attempt of this scope, operation and key, for a `UNIQUE` column of your own table.
    #[must_use]
    pub fn operation_id(&self) -> Uuid {
        self.core.operation_id
    }

    /// Puts a reference on the key's record: `steps.resource("order", order.id)`. Operators see it, and `replay_with` is
    /// given it. It is stored in clear text, as JSON: all of a key's references together may be 65,535 bytes long.
    pub fn resource(&mut self, kind: impl Into<String>, id: impl fmt::Display) {
        let resource = (kind.into(), id.to_string());
        // A handler that runs again says the same again.
        if !self.core.journal.resources.contains(&resource) {
            self.core.journal.resources.push(resource);
            self.core.dirty = true;
        }
    }

    /// Runs a part of the handler in a transaction. Its writes and its result commit together, or not at all; once they
    /// have, the part is not run again for this key.
    ///
    /// The commit may come with the next step's, or with the answer. Where the database then asks for another run, the
    /// handler starts again from what is recorded.
    ///
    /// # Errors
    ///
    /// What the part returns; its writes are undone. It is not recorded: when the handler runs again, so does the part.
    ///
    /// # Cancel safety
    ///
    /// Not cancel safe: when the future is dropped half way, the writes are undone, and the next step stops the handler, which
    /// is then run again later.
    pub async fn atomic<T, F>(&mut self, name: &'static str, part: F) -> Result<T, E>
    where
        F: AsyncFnOnce(&mut Tx<DB>) -> Result<T, E> + RunsAgain,
        T: StepData,
    {
        let core = &mut self.core;
        let failed_before = match core.enter(name, Kind::Atomic).await {
            Entered::Recorded(StepState::Done) => {
                let value = core.recorded(name).await;
                core.leave();
                return Ok(value);
            }
            Entered::Recorded(_) => core.journal.steps.len() > core.taken + 1,
            Entered::New => false,
        };
        core.flush_for_step().await;
        let mut tx = core.begin().await;
        let outcome = part(&mut tx).await;
        match core.check(&mut tx, outcome.is_ok()).await {
            TransactionState::Open => {}
            TransactionState::Ended | TransactionState::Unclear => {
                core.roll_back(tx).await;
                let reason = format!("step `{name}` ended its transaction itself");
                return core.halt(Interrupt::Unknown(reason)).await;
            }
            TransactionState::RolledBack => {
                core.roll_back(tx).await;
                // A part that failed may well have been stopped by an error that aborted its transaction.
                if outcome.is_ok() {
                    let reason = format!("the transaction of step `{name}` was rolled back");
                    let fault = Interrupt::Fault(Code::TransactionAborted, reason);
                    return core.halt(fault).await;
                }
                core.note(name, StepState::Failed, None);
                core.leave();
                return outcome;
            }
        }
        match outcome {
            Err(error) => {
                core.roll_back(tx).await;
                core.note(name, StepState::Failed, None);
                core.leave();
                Err(error)
            }
            Ok(_) if failed_before => {
                core.roll_back(tx).await;
                let reason = format!(
                    "step `{name}` failed before, other steps followed, and it went through now"
                );
                core.halt(Interrupt::Unknown(reason)).await
            }
            Ok(value) => match journal::through_storage(&value) {
                Ok((stored, value)) => {
                    for (kind, id) in tx.resources() {
                        let resource = (kind.clone(), id.clone());
                        if !core.journal.resources.contains(&resource) {
                            core.journal.resources.push(resource);
                        }
                    }
                    core.note(name, StepState::Done, Some(stored));
                    core.open = Some(tx);
                    core.leave();
                    Ok(value)
                }
                Err(error) => {
                    core.roll_back(tx).await;
                    let error = quotable(&core.idempotency, error);
                    let reason = format!("the result of step `{name}` can't be stored: {error}");
                    let fault = Interrupt::Fault(Code::StepNotStorable, reason);
                    core.halt(fault).await
                }
            },
        }
    }
}

impl<DB: Backend, E> fmt::Debug for Steps<DB, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Steps")
            .field("operation_id", &self.core.operation_id)
            .field("taken", &self.core.taken)
            .finish_non_exhaustive()
    }
}
