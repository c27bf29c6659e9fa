//! What a worker does: claim, take over, and the handler's three steps (reserve, charge, answer).

use crate::guard::Guard;
use crate::protocol::{MAX_CLAIMS, Protocol};
use crate::state::{Event, External, Outcome, Phase, Record, Request, State, Status, Worker};

impl Protocol {
    pub(crate) fn claim(&self, state: &mut State, worker: usize) -> Option<()> {
        if state.claims == MAX_CLAIMS {
            return None;
        }
        if state.claims > 0 {
            state.event = Event::ClaimedAgain;
        }
        state.claims += 1;
        state.record = Some(Record {
            claim: state.claims,
            attempt: 1,
            take_overs_left: self.max_attempts - 1,
            resumed: false,
            reserved: false,
            external: External::Untouched,
            status: Status::Started,
        });
        state.workers[worker] = Worker::Running {
            claim: state.claims,
            attempt: 1,
            phase: Phase::Reserve,
        };
        Some(())
    }

    pub(crate) fn take_over(&self, state: &mut State, worker: usize) -> Option<()> {
        if state.owner_is_alive() {
            state.event = Event::TakenOverAlive;
        }
        let record = state.record.as_mut()?;
        record.take_overs_left = record.take_overs_left.checked_sub(1)?;
        record.attempt += 1;
        let phase = match record.external {
            _ if !record.reserved => Phase::Reserve,
            External::Untouched => Phase::Intend,
            External::Unfinished { .. } => Phase::Resume,
            External::Done { .. } => Phase::Finish(Outcome::Done),
            External::Refused { .. } => Phase::Finish(Outcome::Refused),
        };
        state.workers[worker] = Worker::Running {
            claim: record.claim,
            attempt: record.attempt,
            phase,
        };
        Some(())
    }

    /// The worker forgets its attempt; its request goes on without it.
    pub(crate) fn abandon(&self, state: &mut State, worker: usize) {
        let left = std::mem::replace(&mut state.workers[worker], Worker::Idle);
        if let Worker::Running {
            attempt,
            phase:
                Phase::Await {
                    age,
                    under_way: true,
                },
            ..
        } = left
        {
            state.strays.push(Request {
                key: self.key(attempt),
                age,
            });
        }
    }

    /// Which downstream key an attempt sends. Three are enough to tell attempts apart.
    pub(crate) fn key(&self, attempt: u8) -> u8 {
        if self.keeps(Guard::KeyWithoutAttempt) {
            0
        } else {
            (attempt - 1).min(2)
        }
    }

    /// The worker's attempt and what it does next.
    pub(crate) fn running(&self, state: &State, worker: usize) -> Option<(u8, u8, Phase)> {
        match state.workers[worker] {
            Worker::Idle => None,
            Worker::Running {
                claim,
                attempt,
                phase,
            } => Some((claim, attempt, phase)),
        }
    }

    /// The record, if the worker's write to it passes the fence. Otherwise the attempt ends, which is a step too.
    pub(crate) fn fenced<'s>(&self, state: &'s mut State, worker: usize) -> Option<&'s mut Record> {
        let (claim, attempt, _) = self.running(state, worker)?;
        let mine = state.record.as_ref().is_some_and(|record| {
            !self.keeps(Guard::Fence)
                || (record.attempt == attempt
                    && (record.claim == claim || !self.keeps(Guard::FenceOutlivesRelease)))
        });
        if mine {
            return state.record.as_mut();
        }
        state.workers[worker] = Worker::Idle;
        state.event = Event::FencedOut;
        None
    }

    pub(crate) fn go_on(state: &mut State, worker: usize, next: Phase) {
        if let Worker::Running { phase, .. } = &mut state.workers[worker] {
            *phase = next;
        }
    }

    /// What the phase says, in one commit with its fence.
    pub(crate) fn commit(&self, state: &mut State, worker: usize) -> Option<()> {
        let (_, _, phase) = self.running(state, worker)?;
        if phase == Phase::Intend && !self.keeps(Guard::IntentBeforeCall) {
            Self::go_on(state, worker, Phase::Send { age: 0 });
            return Some(());
        }
        if phase == Phase::StoreRefused
            && self.keeps(Guard::RefusalOfItsOwnCall)
            && Self::is_undetermined(state)
        {
            self.abandon(state, worker);
            return Some(());
        }
        let Some(record) = self.fenced(state, worker) else {
            return Some(());
        };
        let next = match phase {
            Phase::Reserve => {
                record.reserved = self.keeps(Guard::ResultWithStep);
                let next = if record.reserved {
                    Phase::Intend
                } else {
                    Phase::StoreResult
                };
                state.reservations = (state.reservations + 1).min(2);
                next
            }
            Phase::StoreResult => {
                record.reserved = true;
                Phase::Intend
            }
            Phase::Intend => {
                Self::write_intent(record, false);
                Phase::Send { age: 0 }
            }
            Phase::StoreDone => {
                record.external = External::Done {
                    last: last_call(record),
                };
                Phase::Finish(Outcome::Done)
            }
            Phase::StoreRefused => {
                record.external = External::Refused {
                    last: last_call(record),
                };
                Phase::Finish(Outcome::Refused)
            }
            Phase::Finish(outcome) => {
                record.status = Status::Completed(outcome);
                state.workers[worker] = Worker::Idle;
                return Some(());
            }
            Phase::Resume | Phase::ActOnAbsent | Phase::Send { .. } | Phase::Await { .. } => {
                return None;
            }
        };
        Self::go_on(state, worker, next);
        Some(())
    }

    /// The handler's `Err`: it releases the key only while nothing has been committed.
    pub(crate) fn fail(&self, state: &mut State, worker: usize) -> Option<()> {
        let (_, _, phase) = self.running(state, worker)?;
        let release = phase == Phase::Reserve || !self.keeps(Guard::ReleaseOnlyUntouched);
        let Some(record) = self.fenced(state, worker) else {
            return Some(());
        };
        if release {
            state.record = None;
        } else {
            record.status = Status::Completed(Outcome::Failed);
        }
        state.workers[worker] = Worker::Idle;
        Some(())
    }

    /// The attempt can't tell: nothing permits a call and the provider can't be asked or can't say, or the handler's steps
    /// no longer match the recorded ones.
    pub(crate) fn park_attempt(&self, state: &mut State, worker: usize) -> Option<()> {
        if !self.may_park(state) {
            return None;
        }
        let Some(record) = self.fenced(state, worker) else {
            return Some(());
        };
        self.park(record);
        state.workers[worker] = Worker::Idle;
        Some(())
    }
}

/// Only a call before its intent has none.
fn last_call(record: &Record) -> u8 {
    Protocol::since_last_call(record.external).unwrap_or(0)
}
