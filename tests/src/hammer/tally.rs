//! What has come of a run so far.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;

use super::End;
use super::latency::Latencies;
use super::sender::Got;
use crate::http::Answer;

/// So many faults are shown; all are counted.
const SHOWN: usize = 20;

/// Something that no answer should have been.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Fault {
    /// Which key, from 0.
    pub number: u64,
    /// The key.
    pub key: String,
    /// What is wrong.
    pub what: String,
}

/// Requests that were sent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Requests {
    /// All of them.
    pub sent: u64,
    /// Those with a changed body.
    pub changed: u64,
    /// Those whose client left before it had an answer.
    pub left: u64,
    /// Those that failed otherwise, by what happened.
    pub failed: BTreeMap<&'static str, u64>,
    /// Answers, by status.
    pub statuses: BTreeMap<u16, u64>,
    /// Answers that are problems (RFC 9457), by `code`, or by `type` where there is none.
    pub problems: BTreeMap<String, u64>,
    /// Answers that say that they are replays.
    pub replays: u64,
}

#[derive(Debug, Default)]
pub(super) struct Tally {
    pub(super) requests: Requests,
    /// By the key's number.
    ends: Vec<End>,
    /// Answers with success that are no replays.
    pub(super) executions: Latencies,
    pub(super) replays: Latencies,
    pub(super) others: Latencies,
    pub(super) faults: Vec<Fault>,
    pub(super) fault_count: u64,
    /// Keys of which every answer was a replay.
    pub(super) used_before: u64,
    /// Keys that ended when the traffic was over.
    pub(super) late: u64,
}

impl Tally {
    pub(super) fn begun(&mut self, number: u64) {
        self.set_end(number, End::Pending);
    }

    pub(super) fn set_end(&mut self, number: u64, end: End) {
        let index = usize::try_from(number).expect("keys are fewer than memory has bytes");
        if self.ends.len() <= index {
            self.ends.resize(index + 1, End::Pending);
        }
        self.ends[index] = end;
    }

    /// How each key ended, by its number.
    pub(super) fn ends(&self) -> &[End] {
        &self.ends
    }

    pub(super) fn ended(&self, end: End) -> impl Iterator<Item = u64> {
        let numbers = (0_u64..).zip(&self.ends);
        numbers.filter(move |(_, of)| **of == end).map(|(n, _)| n)
    }

    pub(super) fn got(&mut self, got: &Got) {
        self.requests.sent += 1;
        match got {
            Got::Left => self.requests.left += 1,
            Got::Failed(why) => *self.requests.failed.entry(why).or_default() += 1,
            Got::Answered(answer, taken) => self.answered(answer, *taken),
        }
    }

    fn answered(&mut self, answer: &Answer, taken: Duration) {
        *self.requests.statuses.entry(answer.status).or_default() += 1;
        if let Some(problem) = problem(answer) {
            *self.requests.problems.entry(problem).or_default() += 1;
        }
        if answer.is_replay() {
            self.requests.replays += 1;
            self.replays.add(taken);
        } else if (200..300).contains(&answer.status) {
            self.executions.add(taken);
        } else {
            self.others.add(taken);
        }
    }

    pub(super) fn fault(&mut self, number: u64, key: &str, what: String) {
        self.fault_count += 1;
        if self.faults.len() < SHOWN {
            self.faults.push(Fault {
                number,
                key: key.to_owned(),
                what,
            });
        }
    }

    /// What an answer that is carried out takes in the median.
    pub(super) fn median(&self) -> Option<Duration> {
        self.executions.at(0.5)
    }
}

/// A problem's code, or its type.
fn problem(answer: &Answer) -> Option<String> {
    if let Some(code) = answer.code() {
        return Some(code);
    }
    let media_type = answer.header("content-type")?;
    if !media_type.starts_with("application/problem+json") {
        return None;
    }
    let kind = answer.json()["type"].as_str().map(str::to_owned);
    Some(kind.unwrap_or_else(|| "about:blank".to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_are_counted_beyond_those_that_are_shown() {
        let mut tally = Tally::default();
        for number in 0..100 {
            tally.fault(number, "key", "wrong".to_owned());
        }
        assert_eq!((tally.fault_count, tally.faults.len()), (100, SHOWN));
    }

    #[test]
    fn a_key_that_was_begun_is_pending_until_it_ends() {
        let mut tally = Tally::default();
        tally.begun(2);
        tally.set_end(2, End::Open);
        tally.begun(3);
        let numbers = |end| tally.ended(end).collect::<Vec<_>>();
        assert_eq!(numbers(End::Open), [2]);
        assert_eq!(numbers(End::Pending), [0, 1, 3]);
    }
}
