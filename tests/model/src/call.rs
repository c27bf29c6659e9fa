//! The external step's calls: when one may be made, again, and what is known of earlier ones.

use crate::guard::Guard;
use crate::protocol::{IN_FLIGHT_LIMIT, KEY_LIFETIME, Protocol};
use crate::state::{Event, External, Phase, Record, State};

impl Protocol {
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

    pub(crate) fn write_intent(record: &mut Record, undetermined: bool) {
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

    pub(crate) fn is_undetermined(state: &State) -> bool {
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
}
