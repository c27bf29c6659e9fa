//! Judges what a broker was given.

use std::collections::{BTreeMap, HashSet};

/// What a broker was given: the `n`th letter of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Received {
    pub(crate) key: String,
    pub(crate) n: u64,
    pub(crate) id: String,
}

/// What is wrong with what a broker was given, if the letters `0..each` of so many keys were staged in their order: the first
/// deliveries of a key come in that order, all of them come, and a repetition has the id of the first.
pub(crate) fn disorder(received: &[Received], keys: usize, each: u64) -> Option<String> {
    let mut seen: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for Received { key, n, id } in received {
        let firsts = seen.entry(key).or_default();
        match firsts.get(usize::try_from(*n).unwrap_or(usize::MAX)) {
            Some(first) if first == id => {}
            Some(first) => return Some(format!("{key}: {n} is {first} and {id}")),
            None if firsts.len() as u64 == *n => firsts.push(id),
            None => return Some(format!("{key}: {n} came first after {}", firsts.len())),
        }
    }
    if seen.len() != keys {
        return Some(format!("{} keys of {keys}", seen.len()));
    }
    let short = seen.iter().find(|(_, firsts)| firsts.len() as u64 != each);
    if let Some((key, firsts)) = short {
        return Some(format!("{key}: {} of {each}", firsts.len()));
    }
    let ids: HashSet<_> = seen.values().flatten().collect();
    (ids.len() as u64 != keys as u64 * each).then(|| "two messages have one id".to_owned())
}

#[test]
fn disorder_is_found() {
    let check = |received: &[(u64, &str)]| {
        let of = |(n, id): &(u64, &str)| Received {
            key: "a".to_owned(),
            n: *n,
            id: (*id).to_owned(),
        };
        let received: Vec<_> = received.iter().map(of).collect();
        disorder(&received, 1, 2)
    };
    assert_eq!(check(&[(0, "x"), (1, "y")]), None);
    assert_eq!(check(&[(0, "x"), (1, "y"), (0, "x")]), None, "a repetition");
    assert!(check(&[(1, "y"), (0, "x")]).is_some(), "the wrong order");
    assert!(check(&[(0, "x")]).is_some(), "one is lost");
    assert!(
        check(&[(0, "x"), (1, "y"), (0, "z")]).is_some(),
        "another id"
    );
    assert!(check(&[(0, "x"), (1, "x")]).is_some(), "one id for two");
}
