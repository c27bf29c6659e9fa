//! Time, in ticks. Ages stop growing where no rule looks any further.

use crate::guard::Guard;
use crate::protocol::{Arrival, IN_FLIGHT_LIMIT, KEY_LIFETIME, Protocol, Provider};
use crate::state::{External, Phase, State, Worker};

const PAST_LIMIT: u8 = IN_FLIGHT_LIMIT + 1;
const PAST_LIFETIME: u8 = KEY_LIFETIME + 1;

impl Protocol {
    pub(crate) fn tick(&self, state: &mut State, last: &State) -> Option<()> {
        // What is under way at its limit arrives or is lost first.
        if self.arrival == Arrival::InTime && Self::oldest_request(state) >= Some(IN_FLIGHT_LIMIT) {
            return None;
        }
        match state.record.as_mut().map(|record| &mut record.external) {
            Some(External::Unfinished { first, last, .. }) => {
                *first = (*first + 1).min(PAST_LIFETIME);
                *last = (*last + 1).min(PAST_LIMIT);
            }
            Some(External::Done { last } | External::Refused { last }) => {
                *last = (*last + 1).min(PAST_LIMIT)
            }
            Some(External::Untouched) | None => {}
        }
        for worker in &mut state.workers {
            if let Worker::Running {
                phase: Phase::Send { age } | Phase::Await { age, .. },
                ..
            } = worker
            {
                *age = (*age + 1).min(PAST_LIMIT);
            }
        }
        for request in &mut state.strays {
            request.age = (request.age + 1).min(PAST_LIMIT);
        }
        if self.provider != Provider::LastingKeys {
            for remembered in &mut state.ledger.remembered {
                *remembered = remembered
                    .map(|age| age + 1)
                    .filter(|age| *age <= KEY_LIFETIME);
            }
        }
        let same = (&state.record, &state.workers, &state.strays, &state.ledger)
            == (&last.record, &last.workers, &last.strays, &last.ledger);
        (!same).then_some(())
    }

    /// Whether a request must not leave any more.
    pub(crate) fn is_too_late(&self, age: u8) -> bool {
        self.keeps(Guard::SendWithinLimit)
            && self.arrival == Arrival::InTime
            && age > IN_FLIGHT_LIMIT
    }

    fn oldest_request(state: &State) -> Option<u8> {
        let awaited = state.workers.iter().filter_map(|worker| match worker {
            Worker::Running {
                phase:
                    Phase::Await {
                        age,
                        under_way: true,
                    },
                ..
            } => Some(*age),
            _ => None,
        });
        state
            .strays
            .iter()
            .map(|request| request.age)
            .chain(awaited)
            .max()
    }
}
