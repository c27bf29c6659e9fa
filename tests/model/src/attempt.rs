//! What a worker does: claim, take over, and the handler's three steps (reserve, charge, answer).

use crate::guard::Guard;
use crate::protocol::{IN_FLIGHT_LIMIT, KEY_LIFETIME, MAX_CLAIMS, Protocol};
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

    /// Which downstream key an attempt sends.
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

    /// The record, if the worker's next write to it passes the fence. Otherwise the attempt ends.
    fn fenced<'s>(&self, state: &'s mut State, worker: usize) -> Option<&'s mut Record> {
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

    fn go_on(state: &mut State, worker: usize, next: Phase) {
        if let Worker::Running { phase, .. } = &mut state.workers[worker] {
            *phase = next;
        }
    }

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
                    last: Self::since_last_call(record.external).unwrap_or(0),
                };
                Phase::Finish(Outcome::Done)
            }
            Phase::StoreRefused => {
                record.external = External::Refused {
                    last: Self::since_last_call(record.external).unwrap_or(0),
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

    fn is_undetermined(state: &State) -> bool {
        state.record.as_ref().is_some_and(|record| {
            matches!(
                record.external,
                External::Unfinished {
                    undetermined: true,
                    ..
                }
            )
        })
    }

    fn write_intent(record: &mut Record, undetermined: bool) {
        let first = match record.external {
            External::Unfinished { first, .. } => first,
            _ => 0,
        };
        record.external = External::Unfinished {
            first,
            last: 0,
            undetermined,
        };
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

    /// One more call: by the key, within its lifetime, or since the provider said `Absent`.
    pub(crate) fn call_again(&self, state: &mut State, worker: usize) -> Option<()> {
        let (_, _, phase) = self.running(state, worker)?;
        // What an attempt reads is its own, or the fence will find that it isn't.
        let external = Self::external(state);
        let undetermined = match phase {
            Phase::Resume => {
                let permitted = !self.keeps(Guard::LeasePermitsNoCall)
                    || self.provider.honours_keys() && self.is_within_lifetime(external);
                if !permitted {
                    return None;
                }
                true
            }
            Phase::ActOnAbsent => {
                if !self.keeps(Guard::LimitBeforeLookup) && !self.is_past_limit(external) {
                    return None;
                }
                false
            }
            _ => return None,
        };
        let Some(record) = self.fenced(state, worker) else {
            return Some(());
        };
        Self::write_intent(record, undetermined);
        Self::go_on(state, worker, Phase::Send { age: 0 });
        state.event = Event::CalledAgain;
        Some(())
    }

    fn is_within_lifetime(&self, external: External) -> bool {
        let External::Unfinished { first, last, .. } = external else {
            return false;
        };
        let since = if self.keeps(Guard::LifetimeFromFirstIntent) {
            first
        } else {
            last
        };
        let margin = if self.keeps(Guard::LifetimeLessLimit) {
            IN_FLIGHT_LIMIT
        } else {
            0
        };
        !self.keeps(Guard::KeyLifetime) || since <= KEY_LIFETIME - margin
    }

    /// Whether no call can still be under way, so that `Absent` stays true.
    fn is_past_limit(&self, external: External) -> bool {
        let External::Unfinished { first, last, .. } = external else {
            return false;
        };
        let since = if self.keeps(Guard::LimitFromLastCall) {
            last
        } else {
            first
        };
        !self.keeps(Guard::AbsentAfterLimit) || since > IN_FLIGHT_LIMIT
    }

    fn external(state: &State) -> External {
        state
            .record
            .as_ref()
            .map_or(External::Untouched, |record| record.external)
    }

    /// Ticks since the intent of the last call, if there was one.
    pub(crate) fn since_last_call(external: External) -> Option<u8> {
        match external {
            External::Untouched => None,
            External::Unfinished { last, .. }
            | External::Done { last }
            | External::Refused { last } => Some(last),
        }
    }

    pub(crate) fn look_up(&self, state: &mut State, worker: usize) -> Option<()> {
        if !self.provider.can_be_asked() {
            return None;
        }
        let (_, attempt, _) = self.running(state, worker)?;
        if state.ledger.effects[usize::from(self.key(attempt))] > 0 {
            state.event = Event::Found;
            Self::go_on(state, worker, Phase::StoreDone);
            return Some(());
        }
        let permitted =
            self.is_past_limit(Self::external(state)) || !self.keeps(Guard::LimitBeforeLookup);
        permitted.then(|| Self::go_on(state, worker, Phase::ActOnAbsent))
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

    pub(crate) fn send(&self, state: &mut State, worker: usize) -> Option<()> {
        let (_, _, phase) = self.running(state, worker)?;
        let Phase::Send { age } = phase else {
            return None;
        };
        if self.is_too_late(age) {
            return None;
        }
        if state.is_unknown() {
            state.event = Event::SentWhileUnknown;
        }
        Self::go_on(
            state,
            worker,
            Phase::Await {
                age,
                under_way: true,
            },
        );
        Some(())
    }

    /// The attempt ends without an outcome, and recovery decides what follows.
    pub(crate) fn time_out(&self, state: &mut State, worker: usize) -> Option<()> {
        match self.running(state, worker)? {
            (_, _, Phase::Send { age }) if !self.is_too_late(age) => None,
            _ => {
                self.abandon(state, worker);
                Some(())
            }
        }
    }
}
