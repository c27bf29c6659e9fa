//! What is sent with each key, as a seed decides.

use std::str::FromStr;

use fastrand::Rng;
use uuid::Builder;

/// How a key is used. Whatever it is, the key is tried until it ends.
#[derive(Clone, Debug, PartialEq)]
pub enum Course {
    /// One request.
    Once,
    /// After a success the same request so many times more, in sequence.
    Replays(u8),
    /// So many requests at once.
    Together(u8),
    /// The answer arrives, and the client does not read it; so many times, one after the other.
    LostAnswers(u8),
    /// The connection is closed at these moments, one request after the other. A moment is a part, from 0 to 1, of the time
    /// in which disconnects come.
    Disconnects(Vec<f64>),
    /// After a success another body, which must be refused, and the first again.
    ChangedBody,
}

/// The names of the courses on the command line, and how often each is taken unless that says otherwise.
const KINDS: [(&str, u32); 6] = [
    ("once", 2),
    ("replays", 2),
    ("together", 2),
    ("lost", 1),
    ("disconnects", 2),
    ("changed", 1),
];

/// How often each course is taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mix([u32; KINDS.len()]);

impl Default for Mix {
    fn default() -> Mix {
        Mix(KINDS.map(|(_, weight)| weight))
    }
}

impl Mix {
    fn draw(&self, rng: &mut Rng) -> Course {
        let mut ticket = rng.u32(0..self.0.iter().sum());
        let drawn = self.0.iter().position(|weight| {
            let is_it = ticket < *weight;
            ticket = ticket.saturating_sub(*weight);
            is_it
        });
        match drawn.map_or("once", |kind| KINDS[kind].0) {
            "replays" => Course::Replays(rng.u8(1..=3)),
            "together" => Course::Together(rng.u8(2..=5)),
            "lost" => Course::LostAnswers(rng.u8(1..=2)),
            "disconnects" => {
                let times = rng.usize(1..=3);
                Course::Disconnects((0..times).map(|_| rng.f64()).collect())
            }
            "changed" => Course::ChangedBody,
            _ => Course::Once,
        }
    }
}

impl FromStr for Mix {
    type Err = String;

    /// `together=3,changed=1`: what is not named is not done.
    fn from_str(text: &str) -> Result<Mix, String> {
        let mut mix = Mix([0; KINDS.len()]);
        for part in text.split(',') {
            let (name, weight) = part.split_once('=').unwrap_or((part, "1"));
            let Some(kind) = KINDS.iter().position(|kind| kind.0 == name.trim()) else {
                let names = KINDS.map(|kind| kind.0).join(", ");
                return Err(format!("no course is called {name:?}; there are {names}"));
            };
            let weight = weight.trim().parse::<u16>();
            mix.0[kind] = weight
                .map_err(|_| format!("{part:?}: how often is a number up to 65535"))?
                .into();
        }
        if mix == Mix([0; KINDS.len()]) {
            return Err("some course must be taken".to_owned());
        }
        Ok(mix)
    }
}

/// What decides all keys.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Two runs with one seed have the same keys.
    pub seed: u64,
    /// How often each course is taken.
    pub mix: Mix,
    /// How many field lines there are of which the first attempt with some keys has one.
    pub sometimes: usize,
}

/// Of how many keys one has such a line.
const SOMETIMES: usize = 5;

/// What is sent with one key.
#[derive(Clone, Debug)]
pub struct KeyPlan {
    /// Which key this is, from 0.
    pub number: u64,
    /// The key itself, a version 4 UUID.
    pub key: String,
    /// How it is used.
    pub course: Course,
    /// Which of the field lines its first attempt has.
    pub sometimes: Option<usize>,
    /// Another key, which is never sent as one: what a changed body has in place of the key.
    pub other_key: String,
    /// What is random while it is tried.
    pub(super) chance: Rng,
}

impl Plan {
    /// The plan of one key. The key itself depends on nothing but the seed and the number.
    pub fn key(&self, number: u64) -> KeyPlan {
        let mut rng = Rng::with_seed(scatter(self.seed ^ scatter(number)));
        let (key, other_key) = (uuid(&mut rng), uuid(&mut rng));
        let course = self.mix.draw(&mut rng);
        let drawn = rng.usize(0..SOMETIMES * self.sometimes.max(1));
        KeyPlan {
            number,
            key,
            course,
            sometimes: (drawn < self.sometimes).then_some(drawn),
            other_key,
            chance: rng,
        }
    }
}

fn uuid(rng: &mut Rng) -> String {
    let mut bytes = [0; 16];
    rng.fill(&mut bytes);
    Builder::from_random_bytes(bytes).into_uuid().to_string()
}

/// A bijection that leaves no two neighbours close: SplitMix64's (Steele, Lea and Flood, "Fast splittable pseudorandom number
/// generators", 2014).
fn scatter(number: u64) -> u64 {
    let mut mixed = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    fn plan(seed: u64) -> Plan {
        Plan {
            seed,
            mix: Mix::default(),
            sometimes: 2,
        }
    }

    #[test]
    fn the_same_seed_is_the_same_plan() {
        for number in 0..200 {
            let (one, other) = (plan(7).key(number), plan(7).key(number));
            assert_eq!(format!("{one:?}"), format!("{other:?}"));
        }
    }

    #[test]
    fn a_key_is_what_it_was_in_an_earlier_version() {
        assert_eq!(plan(7).key(0).key, "e706bbfc-e32e-47a5-9260-9e28ecf51b5a");
    }

    #[test]
    fn keys_do_not_depend_on_what_is_sent_with_them() {
        let other = Plan {
            mix: "changed".parse().expect("a mix"),
            sometimes: 0,
            ..plan(7)
        };
        for number in 0..200 {
            assert_eq!(plan(7).key(number).key, other.key(number).key);
        }
    }

    #[test]
    fn no_key_comes_twice_in_one_run_or_in_two_seeds() {
        let keys = |seed| (0..5000).map(move |number| plan(seed).key(number));
        let all: HashSet<String> = keys(1)
            .chain(keys(2))
            .flat_map(|plan| [plan.key, plan.other_key])
            .collect();
        assert_eq!(all.len(), 20_000);
    }

    #[test]
    fn every_course_is_taken_as_often_as_it_is_weighed() {
        let weighed = Plan {
            mix: "once=1,together=3,disconnects=0".parse().expect("a mix"),
            ..plan(3)
        };
        let mut taken = [0; 2];
        for number in 0..4000 {
            match weighed.key(number).course {
                Course::Once => taken[0] += 1,
                Course::Together(copies) => {
                    assert!((2..=5).contains(&copies));
                    taken[1] += 1;
                }
                other => panic!("{other:?} has no weight"),
            }
        }
        assert!((900..1100).contains(&taken[0]), "{taken:?}");
        let kinds: HashSet<String> = (0..500)
            .map(|number| format!("{:?}", plan(3).key(number).course))
            .map(|name| name.split('(').next().unwrap_or_default().to_owned())
            .collect();
        assert_eq!(kinds.len(), KINDS.len(), "{kinds:?}");
    }

    #[test]
    fn one_key_in_five_has_one_of_the_lines() {
        let lines: Vec<usize> = (0..5000)
            .filter_map(|number| plan(9).key(number).sometimes)
            .collect();
        assert!((850..1150).contains(&lines.len()), "{}", lines.len());
        assert!(lines.contains(&0) && lines.contains(&1));
        let none = Plan {
            sometimes: 0,
            ..plan(9)
        };
        assert!((0..500).all(|number| none.key(number).sometimes.is_none()));
    }

    #[test]
    fn a_mix_that_says_nothing_or_the_unknown_is_refused() {
        for wrong in ["", "once=0", "twice", "once=-1", "once=many"] {
            assert!(wrong.parse::<Mix>().is_err(), "{wrong:?}");
        }
    }
}
