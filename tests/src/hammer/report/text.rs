//! A report for a person to read.

use std::collections::BTreeMap;
use std::fmt;

use super::{Keys, Report, Verdict};
use crate::hammer::latency::Percentiles;
use crate::hammer::tally::{Fault, Requests};

impl fmt::Display for Report {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Keys {
            begun,
            succeeded,
            refused,
            unknown,
            given_up,
            late,
            used_before,
        } = self.keys;
        let Requests {
            sent,
            changed,
            left,
            failed,
            statuses,
            problems,
            replays,
        } = &self.requests;
        let effects = &self.effects;
        writeln!(
            formatter,
            "seed       {} ({:.1} s)",
            self.seed, self.seconds
        )?;
        writeln!(
            formatter,
            "keys       {begun}: {succeeded} succeeded, {refused} refused, {unknown} unknown, {given_up} given up \
             ({late} ended after the traffic)"
        )?;
        let expected = match effects.at_least == effects.at_most {
            true => format!("{}", effects.at_least),
            false => format!("{} to {}", effects.at_least, effects.at_most),
        };
        writeln!(
            formatter,
            "effects    {}, of {expected}: {} lost, {} doubled",
            effects.gained, effects.lost, effects.doubled
        )?;
        writeln!(
            formatter,
            "requests   {sent}: {replays} replays, {changed} with a changed body, {left} left by the client"
        )?;
        listed(formatter, "answers", statuses)?;
        listed(formatter, "problems", problems)?;
        listed(formatter, "failed", failed)?;
        for (name, times) in [
            ("executions", self.executions),
            ("replays", self.replays),
            ("others", self.others),
        ] {
            if times.answers == 0 {
                continue;
            }
            let Percentiles {
                answers,
                p50_ms,
                p90_ms,
                p99_ms,
                max_ms,
            } = times;
            writeln!(
                formatter,
                "{name:<10} {answers}: p50 {p50_ms} ms, p90 {p90_ms} ms, p99 {p99_ms} ms, max {max_ms} ms"
            )?;
        }
        for (name, keys) in [
            ("lost", &effects.lost_keys),
            ("doubled", &effects.doubled_keys),
            ("given up", &self.given_up_keys),
            ("unknown", &self.unknown_keys),
        ] {
            for key in keys {
                writeln!(formatter, "{name:<10} {key}")?;
            }
        }
        for Fault { number, key, what } in &self.faults {
            writeln!(formatter, "fault      key {number}, {key}: {what}")?;
        }
        if self.fault_count > 0 {
            writeln!(formatter, "faults     {}", self.fault_count)?;
        }
        if used_before > 0 {
            writeln!(
                formatter,
                "warning    {used_before} keys were used before: a run with this seed was here; take another, or an empty database"
            )?;
        }
        write!(formatter, "{}", self.conclusion())
    }
}

impl Report {
    fn conclusion(&self) -> &'static str {
        match self.verdict {
            Verdict::Right => "RIGHT: one effect for each key that ended in success, and no other",
            Verdict::Wrong => "WRONG: effects are lost or doubled, or answers are wrong",
            Verdict::Open if self.keys.used_before > 0 => "OPEN: keys had been used before",
            Verdict::Open if self.keys.succeeded == 0 => "OPEN: no key ended in success",
            Verdict::Open => "OPEN: nothing is wrong, but keys did not end",
        }
    }
}

fn listed<K: fmt::Display>(
    formatter: &mut fmt::Formatter<'_>,
    name: &str,
    counts: &BTreeMap<K, u64>,
) -> fmt::Result {
    if counts.is_empty() {
        return Ok(());
    }
    let counts = counts
        .iter()
        .map(|(what, count)| format!("{what}: {count}"));
    let counts: Vec<String> = counts.collect();
    writeln!(formatter, "{name:<10} {}", counts.join(", "))
}
