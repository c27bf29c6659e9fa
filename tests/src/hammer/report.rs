//! What a run came to.

mod text;

use serde::Serialize;

use super::count::ByKey;
use super::latency::Percentiles;
use super::tally::{Fault, Requests, Tally};
use super::{End, Hammer};

/// So many keys of a kind are listed; all are counted.
const LISTED: usize = 50;

/// Whether every effect is there, once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// As many as keys that ended in success, and no fault.
    Right,
    /// Lost, doubled, or answers that are wrong.
    Wrong,
    /// Nothing is wrong, and something was not seen: keys without an end, or no success at all.
    Open,
}

/// Effects before and after, as the source counts them.
#[derive(Clone, Debug)]
pub enum Counted {
    /// All that there are.
    Number {
        /// Before the first request.
        before: i64,
        /// When all was over.
        after: i64,
        /// How many a key has that ended in success.
        per_key: i64,
    },
    /// Those of each key.
    ByKey {
        /// When all was over.
        after: ByKey,
        /// How many a key has that ended in success.
        per_key: u64,
    },
}

/// Keys by how they ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Keys {
    /// All.
    pub begun: u64,
    /// Answered with success.
    pub succeeded: u64,
    /// Answered with what no retry changes, and nothing done.
    pub refused: u64,
    /// Answered that the service does not know.
    pub unknown: u64,
    /// Never ended, even after the traffic.
    pub given_up: u64,
    /// Of the others, those that ended only when they were tried again after the traffic.
    pub late: u64,
    /// Of those that succeeded, those that were replays from the start: a run with this seed was there before.
    pub used_before: u64,
}

/// What became of the effects.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Effects {
    /// There are so many more than before.
    pub gained: i64,
    /// From what the keys' ends say: no fewer than this.
    pub at_least: i64,
    /// And no more than this: unknown keys and those that were given up may have theirs.
    pub at_most: i64,
    /// Missing.
    pub lost: i64,
    /// Too many.
    pub doubled: i64,
    /// Keys with effects that are missing, where effects name their keys.
    pub lost_keys: Vec<String>,
    /// Keys with too many, where effects name their keys.
    pub doubled_keys: Vec<String>,
}

/// What a run came to.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Whether every effect is there, once.
    pub verdict: Verdict,
    /// What it decided can be had again.
    pub seed: u64,
    /// From the first request to the last answer, in seconds.
    pub seconds: f64,
    /// How keys ended.
    pub keys: Keys,
    /// What became of effects.
    pub effects: Effects,
    /// What was sent and answered.
    pub requests: Requests,
    /// Answers with success that are no replays.
    pub executions: Percentiles,
    /// Replays.
    pub replays: Percentiles,
    /// Other answers.
    pub others: Percentiles,
    /// How many answers are wrong.
    pub fault_count: u64,
    /// Some of them.
    pub faults: Vec<Fault>,
    /// Some of the keys that never ended.
    pub given_up_keys: Vec<String>,
    /// Some of the keys of which the service does not know.
    pub unknown_keys: Vec<String>,
}

impl Report {
    /// What `hammer` came to, when its traffic is over; `seconds` is how long that took.
    pub fn new(hammer: &Hammer, counted: &Counted, seconds: f64) -> Report {
        let tally = hammer.tally();
        let keys = Keys {
            begun: hammer.begun(),
            succeeded: number_of(&tally, End::Succeeded),
            refused: number_of(&tally, End::Refused),
            unknown: number_of(&tally, End::Unknown),
            given_up: number_of(&tally, End::Open) + number_of(&tally, End::Pending),
            late: tally.late,
            used_before: tally.used_before,
        };
        let name = |number| hammer.settings().plan.key(number).key;
        let effects = match counted {
            Counted::Number {
                before,
                after,
                per_key,
            } => Effects::of_number(keys, after - before, *per_key),
            Counted::ByKey { after, per_key } => {
                Effects::of_keys(tally.ends(), after, *per_key, &name)
            }
        };
        let listed = |end| tally.ended(end).take(LISTED).map(name).collect();
        Report {
            verdict: verdict(keys, &effects, tally.fault_count, counted),
            seed: hammer.settings().plan.seed,
            seconds,
            keys,
            effects,
            requests: tally.requests.clone(),
            executions: tally.executions.percentiles(),
            replays: tally.replays.percentiles(),
            others: tally.others.percentiles(),
            fault_count: tally.fault_count,
            faults: tally.faults.clone(),
            given_up_keys: listed(End::Open),
            unknown_keys: listed(End::Unknown),
        }
    }
}

fn number_of(tally: &Tally, end: End) -> u64 {
    tally.ended(end).count() as u64
}

fn verdict(keys: Keys, effects: &Effects, faults: u64, counted: &Counted) -> Verdict {
    let counts_are_wrong = effects.lost + effects.doubled > 0;
    // Whoever used the keys before had the effects before, which a mere number does not tell from lost ones.
    let stale = keys.used_before > 0 && matches!(counted, Counted::Number { .. });
    if faults > 0 || (counts_are_wrong && !stale) {
        Verdict::Wrong
    } else if stale || keys.succeeded == 0 || keys.unknown + keys.given_up > 0 {
        Verdict::Open
    } else {
        Verdict::Right
    }
}

impl Effects {
    fn of_number(keys: Keys, gained: i64, per_key: i64) -> Effects {
        let signed = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
        let at_least = per_key * signed(keys.succeeded);
        let at_most = at_least + per_key * signed(keys.unknown + keys.given_up);
        Effects {
            gained,
            at_least,
            at_most,
            lost: (at_least - gained).max(0),
            doubled: (gained - at_most).max(0),
            lost_keys: Vec::new(),
            doubled_keys: Vec::new(),
        }
    }

    fn of_keys(ends: &[End], after: &ByKey, per_key: u64, name: &dyn Fn(u64) -> String) -> Effects {
        let mut effects = Effects::default();
        let signed = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
        for (number, end) in (0..).zip(ends) {
            let has = after.get(&number).copied().unwrap_or(0);
            let (least, most) = match end {
                End::Succeeded => (per_key, per_key),
                End::Refused => (0, 0),
                End::Unknown | End::Open | End::Pending => (0, per_key),
            };
            effects.gained += signed(has);
            effects.at_least += signed(least);
            effects.at_most += signed(most);
            for (wrong, total, keys) in [
                (
                    least.saturating_sub(has),
                    &mut effects.lost,
                    &mut effects.lost_keys,
                ),
                (
                    has.saturating_sub(most),
                    &mut effects.doubled,
                    &mut effects.doubled_keys,
                ),
            ] {
                *total += signed(wrong);
                if wrong > 0 && keys.len() < LISTED {
                    keys.push(name(number));
                }
            }
        }
        effects
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(succeeded: u64, given_up: u64) -> Keys {
        Keys {
            begun: succeeded + given_up,
            succeeded,
            given_up,
            ..Keys::default()
        }
    }

    fn judge(keys: Keys, gained: i64) -> (Verdict, i64, i64) {
        let effects = Effects::of_number(keys, gained, 1);
        let counted = Counted::Number {
            before: 0,
            after: gained,
            per_key: 1,
        };
        let verdict = verdict(keys, &effects, 0, &counted);
        (verdict, effects.lost, effects.doubled)
    }

    #[test]
    fn as_many_effects_as_successes_are_right() {
        assert_eq!(judge(keys(10, 0), 10), (Verdict::Right, 0, 0));
        assert_eq!(judge(keys(10, 0), 9), (Verdict::Wrong, 1, 0));
        assert_eq!(judge(keys(10, 0), 12), (Verdict::Wrong, 0, 2));
    }

    #[test]
    fn keys_that_were_given_up_may_have_effects_or_not() {
        for gained in 10..=12 {
            assert_eq!(judge(keys(10, 2), gained), (Verdict::Open, 0, 0));
        }
        assert_eq!(judge(keys(10, 2), 13), (Verdict::Wrong, 0, 1));
        assert_eq!(judge(keys(10, 2), 9), (Verdict::Wrong, 1, 0));
    }

    #[test]
    fn nothing_is_proven_by_nothing_or_by_keys_of_another_run() {
        assert_eq!(judge(keys(0, 0), 0).0, Verdict::Open);
        let stale = Keys {
            used_before: 10,
            ..keys(10, 0)
        };
        assert_eq!(judge(stale, 0).0, Verdict::Open);
    }

    #[test]
    fn one_lost_and_one_doubled_do_not_make_up_for_each_other_by_key() {
        let ends = [
            End::Succeeded,
            End::Succeeded,
            End::Refused,
            End::Open,
            End::Succeeded,
        ];
        let after = ByKey::from([(0, 2), (2, 1), (3, 1), (4, 1)]);
        let effects = Effects::of_keys(&ends, &after, 1, &|number| number.to_string());
        assert_eq!(
            (effects.gained, effects.at_least, effects.at_most),
            (5, 3, 4)
        );
        assert_eq!((effects.lost, effects.doubled), (1, 2));
        assert_eq!(effects.lost_keys, ["1"]);
        assert_eq!(effects.doubled_keys, ["0", "2"]);
    }
}
