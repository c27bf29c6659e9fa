//! The protocol keeps its promises in every state that it can reach, and none of its guards can be left out.

use std::collections::{BTreeSet, HashMap};

use idem_model::property::{
    ENDS_OR_IS_LISTED, INVARIANTS, NO_CALL_WHILE_UNKNOWN, NO_EFFECT_WHILE_UNKNOWN, ONE_EFFECT,
    ONE_RESERVATION, RECORDED, TRUE_ANSWER,
};
use idem_model::{Guard, Protocol, Provider, State};
use stateright::{Checker, Expectation, HasDiscoveries, Model};

/// Visits every state, and returns the invariants that are refuted.
fn refuted(protocol: Protocol) -> BTreeSet<&'static str> {
    let checker = protocol.checker().spawn_bfs().join();
    println!("{:?}", checker.model());
    println!(
        "{} states, {} transitions, at most {} steps",
        checker.unique_state_count(),
        checker.state_count(),
        checker.max_depth()
    );
    let discoveries = checker.discoveries();
    INVARIANTS
        .into_iter()
        .filter(|name| discoveries.contains_key(name))
        .inspect(|name| println!("refuted: {name}"))
        .collect()
}

/// Checks every property in at least `floor` states: a model in which little can happen proves little.
fn keeps_every_promise(protocol: Protocol, floor: usize) {
    let checker = protocol.checker().spawn_bfs().join();
    let states = checker.unique_state_count();
    println!(
        "{states} states, {} transitions, at most {} steps",
        checker.state_count(),
        checker.max_depth()
    );
    for property in checker.model().properties() {
        match property.expectation {
            Expectation::Always => checker.assert_no_discovery(property.name),
            Expectation::Sometimes => assert!(
                checker.discovery(property.name).is_some(),
                "never happens in the model: {}",
                property.name
            ),
            Expectation::Eventually => {
                panic!("the checker can miss counterexamples of `eventually`")
            }
        }
    }
    assert!(states >= floor, "only {states} states");
}

macro_rules! promises {
    ($($name:ident: $provider:ident, $floor:literal, $full_floor:literal;)*) => {
        $(
            #[test]
            fn $name() {
                keeps_every_promise(Protocol::at(Provider::$provider), $floor);
            }
        )*

        mod three_workers {
            use super::*;
            $(
                #[test]
                #[ignore = "visits millions of states: tests/run --full"]
                fn $name() {
                    keeps_every_promise(Protocol::at(Provider::$provider).at_full_size(), $full_floor);
                }
            )*
        }
    };
}

promises! {
    every_promise_is_kept_at_a_provider_with_keys: Keys, 60_000, 800_000;
    every_promise_is_kept_at_a_provider_that_never_forgets_a_key: LastingKeys, 35_000, 450_000;
    every_promise_is_kept_at_a_provider_with_a_lookup: Lookup, 35_000, 400_000;
    every_promise_is_kept_at_a_provider_with_keys_and_a_lookup: KeysAndLookup, 90_000, 1_200_000;
    every_promise_is_kept_at_a_provider_with_neither: Neither, 15_000, 120_000;
}

/// A mutant, where it is refuted, and the promise that it breaks.
struct Mutant {
    without: Guard,
    at: Provider,
    breaks: &'static str,
}

impl Mutant {
    fn is_refuted(&self) {
        let checker = Protocol::at(self.at)
            .without(self.without)
            .checker()
            .finish_when(HasDiscoveries::AnyOf(BTreeSet::from([self.breaks])))
            .spawn_bfs()
            .join();
        let Some(path) = checker.discovery(self.breaks) else {
            panic!(
                "{:?} can be left out, and still: {}",
                self.without, self.breaks
            );
        };
        println!(
            "without {:?}, at {:?}, refuted: {}",
            self.without, self.at, self.breaks
        );
        for action in path.into_actions() {
            println!("  {action:?}");
        }
    }
}

macro_rules! mutants {
    ($($name:ident: $guard:ident, $provider:ident, $property:ident;)*) => {
        const MUTANTS: &[Mutant] = &[$(
            Mutant { without: Guard::$guard, at: Provider::$provider, breaks: $property },
        )*];

        mod mutant {
            use super::*;
            $(
                #[test]
                fn $name() {
                    Mutant { without: Guard::$guard, at: Provider::$provider, breaks: $property }.is_refuted();
                }
            )*
        }
    };
}

mutants! {
    no_fence_makes_two_effects: Fence, Neither, ONE_EFFECT;
    a_fence_by_the_attempt_alone_makes_two_effects: FenceOutlivesRelease, Neither, ONE_EFFECT;
    parking_without_a_new_attempt_lets_its_owner_call: ParkingFences, Neither, NO_CALL_WHILE_UNKNOWN;
    a_lease_as_permission_to_call_makes_two_effects: LeasePermitsNoCall, Neither, ONE_EFFECT;
    the_attempt_in_the_key_makes_two_effects: KeyWithoutAttempt, LastingKeys, ONE_EFFECT;
    absent_before_the_limit_makes_two_effects: AbsentAfterLimit, Lookup, ONE_EFFECT;
    a_limit_from_the_first_call_makes_two_effects: LimitFromLastCall, Lookup, ONE_EFFECT;
    sending_after_the_limit_makes_two_effects: SendWithinLimit, Lookup, ONE_EFFECT;
    asking_before_the_limit_and_acting_after_it_makes_two_effects: LimitBeforeLookup, Lookup, ONE_EFFECT;
    a_key_past_its_lifetime_makes_two_effects: KeyLifetime, Keys, ONE_EFFECT;
    a_lifetime_from_the_last_call_makes_two_effects: LifetimeFromFirstIntent, Keys, ONE_EFFECT;
    a_lifetime_not_shortened_by_the_limit_makes_two_effects: LifetimeLessLimit, Keys, ONE_EFFECT;
    a_call_before_its_intent_makes_two_effects: IntentBeforeCall, Neither, ONE_EFFECT;
    a_refusal_of_a_later_call_hides_an_earlier_effect: RefusalOfItsOwnCall, LastingKeys, TRUE_ANSWER;
    a_release_after_a_step_repeats_the_step: ReleaseOnlyUntouched, Neither, ONE_RESERVATION;
    a_result_apart_from_its_step_repeats_the_step: ResultWithStep, Neither, ONE_RESERVATION;
    a_sweeper_of_started_records_leaves_effects_without_one: SweepOnlyCompleted, Neither, RECORDED;
    an_expired_key_that_executes_makes_two_effects: ExpiredKeyRefused, Neither, ONE_EFFECT;
    parking_before_the_limit_lets_effects_come_after_unknown: ParkAfterLimit, Neither, NO_EFFECT_WHILE_UNKNOWN;
    exhausted_attempts_that_are_not_parked_never_end: ExhaustedIsParked, Neither, ENDS_OR_IS_LISTED;
    a_resolution_of_another_attempt_is_false: ResolutionNamesAttempt, Lookup, TRUE_ANSWER;
}

#[test]
fn every_guard_has_a_mutant_and_every_promise_is_broken_by_one() {
    for guard in Guard::ALL {
        assert!(
            MUTANTS.iter().any(|mutant| mutant.without == guard),
            "no mutant: {guard:?}"
        );
    }
    for invariant in INVARIANTS {
        assert!(
            MUTANTS.iter().any(|mutant| mutant.breaks == invariant),
            "never broken: {invariant}"
        );
    }
}

#[test]
fn a_request_after_the_limit_can_double_where_the_key_is_not_remembered() {
    let answers_and_order =
        BTreeSet::from([NO_CALL_WHILE_UNKNOWN, NO_EFFECT_WHILE_UNKNOWN, TRUE_ANSWER]);
    let also_doubles = BTreeSet::from([
        NO_CALL_WHILE_UNKNOWN,
        NO_EFFECT_WHILE_UNKNOWN,
        TRUE_ANSWER,
        ONE_EFFECT,
    ]);
    for provider in Provider::ALL {
        let expected = match provider {
            Provider::Keys | Provider::Lookup | Provider::KeysAndLookup => &also_doubles,
            // The one remembers the first call for ever, and at the other there is no second one.
            Provider::LastingKeys | Provider::Neither => &answers_and_order,
        };
        assert_eq!(
            &refuted(Protocol::at(provider).with_late_requests()),
            expected,
            "{provider:?}"
        );
    }
}

#[test]
fn parking_at_once_is_safe_if_operators_wait_for_the_limit_before_they_look() {
    for provider in Provider::ALL {
        let protocol = Protocol::at(provider).without(Guard::ParkAfterLimit);
        let hasty = refuted(protocol.clone());
        assert!(hasty.contains(TRUE_ANSWER), "{provider:?}: {hasty:?}");
        assert_eq!(
            refuted(protocol.with_patient_operators()),
            BTreeSet::from([NO_CALL_WHILE_UNKNOWN, NO_EFFECT_WHILE_UNKNOWN]),
            "{provider:?}"
        );
    }
}

#[test]
fn no_run_is_endless() {
    for provider in Provider::ALL {
        if let Some(state) = on_a_cycle(&Protocol::at(provider)) {
            panic!("{provider:?} can come back to {state:#?}");
        }
    }
}

/// A state that can be reached from itself: a depth-first walk finds it among those it is still below.
fn on_a_cycle(protocol: &Protocol) -> Option<State> {
    let mut below = HashMap::new();
    let mut walk: Vec<(State, Vec<State>)> = Vec::new();
    for initial in protocol.init_states() {
        below.insert(initial.clone(), true);
        walk.push((initial.clone(), protocol.next_states(&initial)));
    }
    while let Some((state, rest)) = walk.last_mut() {
        let Some(next) = rest.pop() else {
            below.insert(state.clone(), false);
            walk.pop();
            continue;
        };
        match below.get(&next) {
            Some(true) => return Some(next),
            Some(false) => {}
            None => {
                below.insert(next.clone(), true);
                let after = protocol.next_states(&next);
                walk.push((next, after));
            }
        }
    }
    None
}
