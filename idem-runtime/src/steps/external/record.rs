//! What is recorded of an external step, and when it may be called.

use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use tokio::time::Instant;

use crate::backend::{self, Backend};
use crate::faults::{self, Plant};
use crate::problem::Code;
use crate::steps::journal::{self, Call, Entry, Format, Kind, StepState};
use crate::steps::quotable::quotable;
use crate::steps::stop::Interrupt;
use crate::steps::{Core, DownstreamKey, Entered, StepData};

/// What holds for one step.
pub(super) struct Rules {
    pub(super) name: &'static str,
    pub(super) lifetime: Option<Duration>,
    pub(super) timeout: Duration,
    pub(super) limit: Duration,
}

impl Rules {
    /// Whether the service still honours the key when a call that begins now arrives.
    pub(super) fn honours_key<DB: Backend>(&self, core: &mut Core<DB>) -> bool {
        if faults::planted(Plant::LostIsNothing) {
            return true;
        }
        let Some(lifetime) = self.lifetime else {
            return false;
        };
        let age = age(core, |call| call.first_at);
        age < backend::millis(lifetime.saturating_sub(self.limit))
    }

    /// How long the last request may still arrive.
    pub(super) fn still_in_flight<DB: Backend>(&self, core: &mut Core<DB>) -> Option<Duration> {
        if faults::planted(Plant::AbsentBelieved) {
            return None;
        }
        let left = backend::millis(self.limit) - age(core, |call| call.last_at);
        // A millisecond more than the clock's own: a limit that is over for this process must be over for all.
        u64::try_from(left)
            .ok()
            .map(|left| Duration::from_millis(left.saturating_add(1)))
    }

    pub(super) fn lost<DB: Backend>(&self, core: &mut Core<DB>) -> String {
        let seconds = age(core, |call| call.first_at) / 1000;
        match self.lifetime {
            Some(_) => format!(
                "the outcome of step `{}` is unknown, and its key may be forgotten: it was first sent {seconds} s ago",
                self.name
            ),
            None => format!(
                "the outcome of step `{}` is unknown, and it says `at_most_once`",
                self.name
            ),
        }
    }
}

/// How long ago something was, in milliseconds.
fn age<DB: Backend>(core: &mut Core<DB>, of: impl FnOnce(&Call) -> i64) -> i64 {
    let now = core.clock.now();
    let at = core.entry().and_then(|entry| entry.call.as_ref()).map(of);
    now - at.unwrap_or(now)
}

pub(super) enum Begun<I> {
    Done,
    Refused,
    Call {
        key: DownstreamKey,
        input: I,
        /// It was begun by an earlier attempt, or an earlier run.
        resumed: bool,
        /// How often the service put it off.
        refused: u32,
    },
}

/// Comes to the step, and records that it is begun if it is not.
pub(super) async fn begin<DB: Backend, I>(
    core: &mut Core<DB>,
    rules: &Rules,
    input: &I,
    format: &Format<I>,
) -> Begun<I> {
    let entered = core.enter(rules.name, Kind::External).await;
    let stored = (format.through_storage)(input)
        .and_then(|(stored, input)| Ok((journal::digest_of(&stored)?, stored, input)));
    let (digest, stored, input) = match stored {
        Ok(stored) => stored,
        Err(error) => {
            let error = quotable(&core.idempotency, error);
            let reason = format!(
                "the input of step `{}` can't be stored: {error}",
                rules.name
            );
            return core
                .halt(Interrupt::Fault(Code::StepNotStorable, reason))
                .await;
        }
    };
    if let Entered::Recorded(state) = entered {
        let call = core.entry().and_then(|entry| entry.call.clone());
        let Some(call) = call.filter(|call| call.digest == digest) else {
            let reason = format!(
                "step `{}` has another input than when it was begun",
                rules.name
            );
            return core.halt(Interrupt::Unknown(reason)).await;
        };
        return match state {
            StepState::Done => Begun::Done,
            StepState::Refused => Begun::Refused,
            StepState::Begun | StepState::NotYet | StepState::Failed => {
                let sent = call.input.as_deref().map(format.read);
                let Some(Ok(input)) = sent else {
                    let reason = format!(
                        "the input that step `{}` was begun with can't be read now",
                        rules.name
                    );
                    return core.halt(Interrupt::Unknown(reason)).await;
                };
                let key = if faults::planted(Plant::KeyOfAttempt) {
                    DownstreamKey::derive(core.operation_id, rules.name, u32::MAX)
                } else {
                    DownstreamKey::stored(call.key)
                };
                let put_off = state == StepState::NotYet;
                if put_off {
                    intend_again(core).await;
                }
                Begun::Call {
                    key,
                    input,
                    resumed: !put_off,
                    refused: call.refusals,
                }
            }
        };
    }
    let ordinal = core.journal.ordinal(rules.name, core.taken);
    let key = DownstreamKey::derive(core.operation_id, rules.name, ordinal);
    let now = core.clock.now();
    core.journal.steps.push(Entry {
        name: rules.name.to_owned(),
        kind: Kind::External,
        state: StepState::Begun,
        value: None,
        call: Some(Call {
            key: key.as_uuid(),
            input: Some(stored),
            limit: backend::millis(rules.limit),
            digest,
            first_at: now,
            last_at: now,
            refusals: 0,
        }),
        decided: false,
    });
    core.dirty = true;
    if !faults::planted(Plant::IntentLater) {
        core.flush().await;
    }
    Begun::Call {
        key,
        input,
        resumed: false,
        refused: 0,
    }
}

/// Records that the service will be called, once more or anew.
pub(super) async fn intend_again<DB: Backend>(core: &mut Core<DB>) {
    let now = core.clock.now();
    if let Some(entry) = core.entry() {
        entry.state = StepState::Begun;
        if let Some(call) = &mut entry.call {
            call.last_at = now;
        }
    }
    core.dirty = true;
    core.flush().await;
}

/// Records that the step did not happen, and will be called again.
pub(super) async fn put_off<DB: Backend>(core: &mut Core<DB>, refusals: u32) {
    if let Some(entry) = core.entry() {
        entry.state = StepState::NotYet;
        if let Some(call) = &mut entry.call {
            call.refusals = refusals;
        }
    }
    core.dirty = true;
    core.flush().await;
}

/// How it is known that a step took place.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Source {
    /// This attempt's call was answered: nobody else may learn it.
    Answer,
    /// The service was asked, and would say the same again.
    Question,
}

pub(super) async fn done<DB: Backend, T: StepData, R>(
    core: &mut Core<DB>,
    rules: &Rules,
    value: T,
    source: Source,
) -> Result<T, R> {
    let (stored, value) = match journal::through_storage(&value) {
        Ok(stored) => stored,
        Err(error) => {
            let error = quotable(&core.idempotency, error);
            let reason = format!(
                "step `{}` took place, and its result can't be stored: {error}",
                rules.name
            );
            return core.halt(Interrupt::Unknown(reason)).await;
        }
    };
    end(core, rules, StepState::Done, stored, source).await;
    Ok(value)
}

pub(super) async fn refuse<DB: Backend, T, R: StepData>(
    core: &mut Core<DB>,
    rules: &Rules,
    refusal: R,
) -> Result<T, R> {
    let (stored, refusal) = match journal::through_storage(&refusal) {
        Ok(stored) => stored,
        Err(error) => {
            let error = quotable(&core.idempotency, error);
            let reason = format!(
                "step `{}` was refused, and the refusal can't be stored: {error}",
                rules.name
            );
            return core.halt(Interrupt::Unknown(reason)).await;
        }
    };
    end(core, rules, StepState::Refused, stored, Source::Answer).await;
    Err(refusal)
}

async fn end<DB: Backend>(
    core: &mut Core<DB>,
    rules: &Rules,
    state: StepState,
    value: Box<serde_json::value::RawValue>,
    source: Source,
) {
    if let Some(entry) = core.entry() {
        entry.end(state, value);
    }
    core.dirty = true;
    // Where the service honours the key, a call that is not recorded is called again and changes nothing.
    if state == StepState::Done && rules.honours_key(core) {
        core.deferred = true;
    } else {
        core.late = (state == StepState::Done && source == Source::Answer).then_some(rules.name);
        core.flush().await;
        core.late = None;
    }
    core.leave();
}

/// Runs a call for so long. When the time is over it is not polled again: a process that was stopped meanwhile must not
/// send what it had not sent yet. `None`: the time is over.
pub(super) async fn guarded<T>(time: Duration, call: impl Future<Output = T>) -> Option<T> {
    let begun = Instant::now();
    let mut call = pin!(call);
    let mut sleep = pin!(tokio::time::sleep(time));
    poll_fn(|context| {
        if begun.elapsed() >= time || sleep.as_mut().poll(context).is_ready() {
            return Poll::Ready(None);
        }
        call.as_mut().poll(context).map(Some)
    })
    .await
}
