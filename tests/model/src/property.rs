//! What the protocol promises. The names are what counterexamples are asked for by.

use stateright::{Model, Property};

use crate::action::Action;
use crate::protocol::{Protocol, Provider};
use crate::state::{Event, Outcome, State, Status};

/// At most one effect takes place per client key, at every kind of provider.
pub const ONE_EFFECT: &str = "at most one effect per key";
/// While the outcome is `unknown`, no request leaves a worker: nothing calls the provider until somebody resolves it.
pub const NO_CALL_WHILE_UNKNOWN: &str = "no call after unknown";
/// While the outcome is `unknown`, no effect takes place, so that what an operator finds at the provider stays true.
pub const NO_EFFECT_WHILE_UNKNOWN: &str = "no effect after unknown";
/// A stored answer is true, and stays true: `Done` has its effect, and `Refused` and `Failed` have none.
pub const TRUE_ANSWER: &str = "a stored answer tells what happened";
/// An atomic step's writes are committed once per client key.
pub const ONE_RESERVATION: &str = "an atomic step's writes commit once";
/// Whatever was committed, or is on its way to the provider, has a record that tells of it.
pub const RECORDED: &str = "every effect has a record";
/// A started operation can always go on by itself, without a crash or another's lease expiring. As no run is endless
/// (the state graph has no cycle), it ends completed or listed.
pub const ENDS_OR_IS_LISTED: &str = "every started operation ends or is listed";

/// The invariants, in the order of the above.
pub const INVARIANTS: [&str; 7] = [
    ONE_EFFECT,
    NO_CALL_WHILE_UNKNOWN,
    NO_EFFECT_WHILE_UNKNOWN,
    TRUE_ANSWER,
    ONE_RESERVATION,
    RECORDED,
    ENDS_OR_IS_LISTED,
];

pub(crate) fn all(protocol: &Protocol) -> Vec<Property<Protocol>> {
    let mut properties = vec![
        Property::always(ONE_EFFECT, |_, state: &State| state.ledger.total() <= 1),
        Property::always(NO_CALL_WHILE_UNKNOWN, |_, state: &State| {
            state.event != Event::SentWhileUnknown
        }),
        Property::always(NO_EFFECT_WHILE_UNKNOWN, |_, state: &State| {
            state.event != Event::EffectWhileUnknown
        }),
        Property::always(TRUE_ANSWER, |_, state: &State| answer_is_true(state)),
        Property::always(ONE_RESERVATION, |_, state: &State| state.reservations <= 1),
        Property::always(RECORDED, |_, state: &State| {
            let something =
                state.reservations > 0 || state.ledger.total() > 0 || state.has_request_under_way();
            !something || state.record.is_some()
        }),
        Property::always(ENDS_OR_IS_LISTED, |protocol: &Protocol, state: &State| {
            state.status() != Some(Status::Started) || goes_on(protocol, state)
        }),
        Property::sometimes("a live owner is taken over", |_, state: &State| {
            state.event == Event::TakenOverAlive
        }),
        Property::sometimes("the fence refuses a write", |_, state: &State| {
            state.event == Event::FencedOut
        }),
        Property::sometimes(
            "a request arrives that nobody waits for",
            |_, state: &State| state.event == Event::LateArrival,
        ),
        Property::sometimes(
            "an unknown outcome is resolved as done",
            |_, state: &State| resolved_as(state, Outcome::Done),
        ),
        Property::sometimes(
            "an unknown outcome is resolved as refused",
            |_, state: &State| resolved_as(state, Outcome::Refused),
        ),
        Property::sometimes("an operator resumes", |_, state: &State| {
            state.event == Event::Resumed
        }),
        Property::sometimes("a released key is claimed again", |_, state: &State| {
            state.event == Event::ClaimedAgain
        }),
        Property::sometimes("a refusal is stored", |_, state: &State| {
            state.event != Event::Resolved
                && state.status() == Some(Status::Completed(Outcome::Refused))
        }),
        Property::sometimes("an answer expires", |_, state: &State| {
            state.status() == Some(Status::Tombstone)
        }),
    ];
    if protocol.provider != Provider::Neither {
        properties.push(Property::sometimes(
            "a call is made again",
            |_, state: &State| state.event == Event::CalledAgain,
        ));
    }
    if protocol.provider.can_be_asked() {
        properties.push(Property::sometimes(
            "a lookup finds the effect",
            |_, state: &State| state.event == Event::Found,
        ));
    }
    properties
}

fn resolved_as(state: &State, outcome: Outcome) -> bool {
    state.event == Event::Resolved && state.status() == Some(Status::Completed(outcome))
}

fn answer_is_true(state: &State) -> bool {
    match state.status() {
        Some(Status::Completed(Outcome::Done)) => state.ledger.total() > 0,
        Some(Status::Completed(Outcome::Refused | Outcome::Failed)) => state.ledger.total() == 0,
        _ => true,
    }
}

fn goes_on(protocol: &Protocol, state: &State) -> bool {
    let mut actions = Vec::new();
    protocol.actions(state, &mut actions);
    actions.into_iter().any(|action| {
        let by_itself = match action {
            Action::Crash(_) | Action::Fail(_) => false,
            Action::TakeOver(_) | Action::ParkExhausted => !state.owner_is_alive(),
            _ => true,
        };
        by_itself && protocol.next_state(state, action).is_some()
    })
}
