//! Parking, operators, and the sweeper.

use crate::guard::Guard;
use crate::protocol::{IN_FLIGHT_LIMIT, Operator, Protocol};
use crate::state::{Event, External, Look, Outcome, Record, State, Status};

impl Protocol {
    /// Whether no call can take effect any more, so that what is parked stays as it is found.
    pub(crate) fn may_park(&self, state: &State) -> bool {
        !self.keeps(Guard::ParkAfterLimit) || Self::is_quiet(state)
    }

    /// Whether the limit has passed since the last call.
    fn is_quiet(state: &State) -> bool {
        let last = state
            .record
            .as_ref()
            .and_then(|record| Self::since_last_call(record.external));
        last.is_none_or(|last| last > IN_FLIGHT_LIMIT)
    }

    pub(crate) fn park(&self, record: &mut Record) {
        record.status = Status::Unknown;
        if self.keeps(Guard::ParkingFences) {
            record.attempt += 1;
        }
    }

    pub(crate) fn park_exhausted(&self, state: &mut State) -> Option<()> {
        let may_park = self.may_park(state);
        let record = state.record.as_mut()?;
        if record.take_overs_left > 0 || !may_park || !self.keeps(Guard::ExhaustedIsParked) {
            return None;
        }
        self.park(record);
        Some(())
    }

    pub(crate) fn look(&self, state: &mut State) -> Option<()> {
        if self.operator == Operator::AfterLimit && !Self::is_quiet(state) {
            return None;
        }
        let record = state.record.as_ref()?;
        let look = Look {
            claim: record.claim,
            attempt: record.attempt,
            found: state.ledger.total() > 0,
        };
        (state.look.replace(look) != Some(look)).then_some(())
    }

    /// The operator believes what the provider's books showed.
    pub(crate) fn resolve(&self, state: &mut State) -> Option<()> {
        let look = state.look.take()?;
        let record = state.record.as_mut()?;
        if self.keeps(Guard::ResolutionNamesAttempt)
            && (look.claim, look.attempt) != (record.claim, record.attempt)
        {
            return None;
        }
        let outcome = if look.found {
            Outcome::Done
        } else {
            Outcome::Refused
        };
        record.status = Status::Completed(outcome);
        state.event = Event::Resolved;
        Some(())
    }

    /// One more attempt, once: `take_overs_left` is spent again by the take-over.
    pub(crate) fn resume(&self, state: &mut State) -> Option<()> {
        let record = state.record.as_mut()?;
        if record.resumed {
            return None;
        }
        record.resumed = true;
        record.take_overs_left = 1;
        record.status = Status::Started;
        state.event = Event::Resumed;
        Some(())
    }

    pub(crate) fn sweep(&self, state: &mut State) -> Option<()> {
        let record = state.record.as_mut()?;
        match record.status {
            Status::Completed(_) if self.keeps(Guard::ExpiredKeyRefused) => {
                record.status = Status::Tombstone;
                record.external = External::Untouched;
            }
            Status::Completed(_) => state.record = None,
            Status::Started if !self.keeps(Guard::SweepOnlyCompleted) => state.record = None,
            _ => return None,
        }
        Some(())
    }
}
