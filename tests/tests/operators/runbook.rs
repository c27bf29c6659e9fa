//! The commands of docs/operating-effects.md, one by one, each block on an operation in the situation that its section is about.

use std::process::Stdio;
use std::time::Duration;

use idem_runtime::operations::{Decision, OperationState};
use idem_runtime::steps::Recovered;
use idem_tests::process::executable;
use idem_tests::servers::Backend;
use idem_tests::wait::{PATIENCE, until};
use serde_json::json;
use tokio::process::Command;

use crate::handler::{Answer, End, Plan, Policy, Reserve, Tested, Version};
use crate::on_each_database;
use crate::setup::{Said, World};

const PAGE: &str = include_str!("../../../docs/operating-effects.md");
/// A step's input was read back before it was stored: only another program could make it unreadable.
const UNREACHED: &str = "the input that step `…` was begun with can't be read now";

on_each_database! {
    every_command_of_the_runbook_does_what_it_says,
}

/// A section of the page.
#[derive(Debug, Default)]
struct Section {
    title: &'static str,
    /// The reasons that it is about, with `…` for what differs.
    reasons: Vec<&'static str>,
    /// Its blocks of commands.
    blocks: Vec<Vec<String>>,
}

fn sections() -> Vec<Section> {
    let mut sections = vec![Section::default()];
    let mut lines = PAGE.lines();
    while let Some(line) = lines.next() {
        if let Some(title) = line.strip_prefix("## ") {
            sections.push(Section {
                title,
                ..Section::default()
            });
        }
        let section = sections.last_mut().unwrap();
        let Some(language) = line.strip_prefix("```") else {
            continue;
        };
        let block: Vec<_> = lines.by_ref().take_while(|line| *line != "```").collect();
        match language {
            "text" => section.reasons.extend(block),
            "sh" => section.blocks.push(commands(&block)),
            _ => {}
        }
    }
    sections
}

/// A command may be continued on the next line.
fn commands(lines: &[&str]) -> Vec<String> {
    let joined = lines.join("\n").replace("\\\n", " ");
    let lines = joined.lines().map(str::trim);
    lines
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .map(str::to_owned)
        .collect()
}

fn matches(pattern: &str, reason: &str) -> bool {
    let mut parts = pattern.split('…');
    let Some(mut rest) = reason.strip_prefix(parts.next().unwrap_or_default()) else {
        return false;
    };
    let mut last = "";
    for part in parts {
        let Some(at) = rest.find(part) else {
            return false;
        };
        rest = &rest[at + part.len()..];
        last = part;
    }
    rest.is_empty() || (last.is_empty() && pattern.ends_with('…'))
}

/// How an operation came to be unknown.
#[derive(Clone, Copy, Debug)]
enum Situation {
    LostAnswer,
    ForgottenKey,
    CannotTell,
    OtherStep,
    FewerSteps,
    StepGoesThrough,
    OtherInput,
    OtherDefinition,
    BrokenArguments,
    OtherArguments,
    BrokenSteps,
    WrongByHand,
    Unstorable,
    UnstorableRefusal,
    EndedTransaction,
    OwnConnection,
    TooManyAttempts,
    DeadAttempts,
    LateEffect,
}

impl Situation {
    fn of(title: &str) -> &'static [Self] {
        match title {
            "A lost answer that nobody can be asked about" => &[Self::LostAnswer],
            "A key that its service may have forgotten" => &[Self::ForgottenKey],
            "The service can't tell" => &[Self::CannotTell],
            "The handler takes other steps than it did" => {
                &[Self::OtherStep, Self::FewerSteps, Self::StepGoesThrough]
            }
            "Another input, or another version" => &[Self::OtherInput, Self::OtherDefinition],
            "What is stored can't be read" => &[
                Self::BrokenArguments,
                Self::OtherArguments,
                Self::BrokenSteps,
            ],
            "A result that was given by hand" => &[Self::WrongByHand],
            "Its result can't be stored" => &[Self::Unstorable, Self::UnstorableRefusal],
            "A step ended its transaction" => &[Self::EndedTransaction],
            "A connection of its own" => &[Self::OwnConnection],
            "Too many attempts" => &[Self::TooManyAttempts, Self::DeadAttempts],
            "A late effect" => &[Self::LateEffect],
            other => panic!("no situation for the section {other}"),
        }
    }

    fn plan(self) -> Plan {
        let plan = Plan {
            timeout: Duration::from_secs(1),
            ..Plan::default()
        };
        let answering = |answer| Plan { answer, ..plan };
        match self {
            Self::LostAnswer | Self::WrongByHand => answering(Answer::Lost),
            Self::ForgottenKey => Plan {
                policy: Policy::Honoured(Duration::from_millis(1)),
                ..answering(Answer::Lost)
            },
            Self::CannotTell => Plan {
                policy: Policy::Asked,
                ..answering(Answer::Lost)
            },
            Self::Unstorable => answering(Answer::Unstorable),
            Self::UnstorableRefusal => answering(Answer::UnstorableRefusal),
            Self::LateEffect => answering(Answer::TakenOver),
            Self::OwnConnection => answering(Answer::BesideThePool),
            Self::EndedTransaction => Plan {
                reserve: Reserve::EndsItsTransaction,
                ..plan
            },
            Self::StepGoesThrough => Plan {
                reserve: Reserve::Fails,
                end: End::Panics,
                ..plan
            },
            // Recorded, and not ended.
            _ => Plan {
                end: End::Panics,
                ..plan
            },
        }
    }

    /// Makes it.
    async fn make<DB: Tested>(self) -> World<DB> {
        let world = World::<DB>::new(self.plan()).await;
        world.charge("alice").await;
        let recovers = match self {
            Self::OtherStep => {
                world.plan(|plan| plan.first = "book");
                Some(Version::First)
            }
            Self::FewerSteps => {
                world.plan(|plan| plan.end = End::Early);
                Some(Version::First)
            }
            Self::StepGoesThrough => {
                world.plan(|plan| plan.reserve = Reserve::Works);
                Some(Version::First)
            }
            Self::OtherInput => {
                world.plan(|plan| plan.more = 1);
                Some(Version::First)
            }
            Self::OtherDefinition => Some(Version::Second),
            Self::OtherArguments => Some(Version::OtherArguments),
            Self::TooManyAttempts => Some(Version::First),
            Self::BrokenArguments => {
                self.damage(&world, "inputs").await;
                Some(Version::First)
            }
            Self::BrokenSteps => {
                self.damage(&world, "journal").await;
                Some(Version::First)
            }
            Self::DeadAttempts => {
                let died = "UPDATE idem_operations SET tries = 2";
                world.database.execute(died).await.unwrap();
                Some(Version::First)
            }
            Self::WrongByHand => {
                let seen = world.only().await.seen;
                let operations = world.app.idempotency.operations();
                let wrong = Decision::Done(json!("ch_17"));
                operations
                    .resolve(seen, wrong, "bob", "a slip")
                    .await
                    .unwrap();
                Some(Version::First)
            }
            _ => None,
        };
        if let Some(version) = recovers {
            assert_eq!(world.recover(version).await, Recovered::Unknown, "{self:?}");
        }
        world
    }

    /// What is stored, damaged; its backup is a table.
    async fn damage<DB: Tested>(self, world: &World<DB>, column: &str) {
        let broken = DB::bytes("7b");
        for sql in [
            "CREATE TABLE backup AS SELECT inputs, journal FROM idem_operations".to_owned(),
            format!("UPDATE idem_operations SET {column} = {broken}"),
        ] {
            world.database.execute(&sql).await.unwrap();
        }
    }

    /// What the section tells to do before the decision.
    async fn correct<DB: Tested>(self, world: &World<DB>) {
        match self {
            Self::BrokenArguments | Self::BrokenSteps => {
                let restore = "UPDATE idem_operations SET inputs = (SELECT inputs FROM backup), \
                               journal = (SELECT journal FROM backup)";
                world.database.execute(restore).await.unwrap();
            }
            Self::EndedTransaction => {
                world.database.execute("DELETE FROM effects").await.unwrap();
            }
            _ => {}
        }
        world.plan(|plan| {
            plan.first = "reserve";
            plan.more = 0;
            plan.end = End::Answers;
            plan.answer = Answer::Charged;
            if !matches!(self, Self::StepGoesThrough) {
                plan.reserve = Reserve::Works;
            } else {
                plan.reserve = Reserve::Fails;
            }
            if matches!(self, Self::CannotTell) {
                plan.policy = Policy::Honoured(Duration::from_secs(3600));
            }
        });
    }
}

/// Runs one command as a shell does.
async fn run<DB: Tested>(world: &World<DB>, command: &str, id: &str, seen: &str) -> Said {
    let program = executable("idem");
    let mut path = std::ffi::OsString::from(program.parent().unwrap());
    path.push(":/usr/bin:/bin");
    let output = Command::new("/bin/sh")
        .args(["-euc", command])
        .env("PATH", path)
        .env("DATABASE_URL", world.database.url())
        .envs([("ID", id), ("SEEN", seen)])
        .stdin(Stdio::null())
        .output();
    Said::of(output.await.unwrap())
}

async fn block_is_right<DB: Tested>(section: &Section, situation: Situation, block: &[String]) {
    let world = situation.make::<DB>().await;
    let operation = world.only().await;
    assert_eq!(operation.state, OperationState::Unknown, "{situation:?}");
    let reason = operation.reason.unwrap_or_default();
    let known = section
        .reasons
        .iter()
        .any(|pattern| matches(pattern, &reason));
    assert!(
        known || section.reasons.is_empty(),
        "{}: {reason}",
        section.title
    );

    let decides = block
        .iter()
        .any(|command| command.starts_with("idem resolve") || command.starts_with("idem resume"));
    if decides {
        situation.correct(&world).await;
    }
    if block.iter().any(|command| command.contains("--refused")) {
        until("its request can't arrive any more", PATIENCE, async || {
            let operations = world.app.idempotency.operations();
            let shown = operations.inspect(operation.id).await.unwrap().unwrap();
            let until = shown.steps.last().and_then(|step| step.in_flight_until);
            until.is_some_and(|until| shown.summary.now > until)
        })
        .await;
    }
    let (id, seen) = (operation.id.to_string(), operation.seen.to_string());
    for command in block {
        let said = run(&world, command, &id, &seen).await;
        assert_eq!(said.code, Some(0), "{}: {command}: {said:?}", section.title);
    }
    if decides {
        let ended = world.recover(Version::First).await;
        assert_eq!(
            ended,
            Recovered::Completed,
            "{situation:?}: {block:?}: {:?}",
            world.listed().await
        );
        assert!(world.listed().await.is_empty());
    } else {
        assert_eq!(
            world.only().await.seen,
            operation.seen,
            "looking decides nothing"
        );
    }
}

async fn every_command_of_the_runbook_does_what_it_says<DB: Tested>() {
    for section in sections() {
        let situations = if section.reasons.is_empty() {
            &[Situation::LostAnswer]
        } else {
            Situation::of(section.title)
        };
        for block in &section.blocks {
            for situation in situations {
                // SQLite undoes a transaction that a statement would end.
                if matches!(situation, Situation::EndedTransaction)
                    && DB::BACKEND == Backend::Sqlite
                {
                    continue;
                }
                block_is_right::<DB>(&section, *situation, block).await;
            }
        }
    }
}

/// Every reason of the page is one that was met, so that none of them is made up.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_reason_of_the_runbook_is_one_that_an_operation_has() {
    for section in sections() {
        if section.reasons.is_empty() {
            continue;
        }
        let decides = section.blocks.iter().flatten();
        let decides =
            decides.filter(|line| line.contains("idem resolve") || line.contains("idem resume"));
        assert!(decides.count() > 0, "{} says what to run", section.title);
        let mut reasons = Vec::new();
        for situation in Situation::of(section.title) {
            let world = situation.make::<sqlx::Postgres>().await;
            reasons.push(world.only().await.reason.unwrap_or_default());
        }
        for pattern in &section.reasons {
            let met = reasons.iter().any(|reason| matches(pattern, reason));
            assert!(met || *pattern == UNREACHED, "{pattern}: {reasons:?}");
        }
    }
}

/// A reason that the library gives and the page does not have.
#[test]
fn every_reason_of_the_library_is_in_the_runbook() {
    let steps = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../idem-runtime/src/steps");
    let mut files: Vec<_> = std::fs::read_dir(&steps)
        .unwrap()
        .map(|file| file.unwrap().path())
        .collect();
    files.push(steps.with_extension("rs"));
    let reasons: Vec<_> = sections()
        .into_iter()
        .flat_map(|section| section.reasons)
        .collect();
    let mut found = 0;
    for file in files {
        let text = std::fs::read_to_string(&file).unwrap();
        let code = text.split("#[cfg(test)]").next().unwrap_or_default();
        for (at, _) in code.match_indices("Interrupt::Unknown(") {
            let after = &code[at + "Interrupt::Unknown(".len()..];
            if after.starts_with("reason) =>") {
                continue;
            }
            // The reason is the next literal, or the last one before.
            let text = after.trim_start();
            let literal = if text.starts_with("reason") {
                before(&code[..at])
            } else if text.starts_with('"') || text.starts_with("format!(") {
                text.split('"').nth(1).map(str::to_owned)
            } else {
                None
            };
            let Some(literal) = literal.filter(|literal| literal.contains(' ')) else {
                continue;
            };
            found += 1;
            // What the program puts in is what the page leaves out.
            let mut shown = String::new();
            let mut inside = false;
            for c in literal.chars() {
                match c {
                    '{' => {
                        inside = true;
                        shown.push('…');
                    }
                    '}' => inside = false,
                    c if !inside => shown.push(c),
                    _ => {}
                }
            }
            let known = reasons
                .iter()
                .any(|pattern| matches(pattern, &shown) || matches(&shown, pattern));
            assert!(
                known || shown.starts_with("nothing is recorded of step"),
                "{}: {shown}",
                file.display()
            );
        }
    }
    assert!(found > 12, "the reasons are found: {found}");
}

fn before(code: &str) -> Option<String> {
    let close = code.rfind('"')?;
    let open = code[..close].rfind('"')?;
    Some(code[open + 1..close].to_owned())
}

#[test]
fn a_pattern_matches_whole_reasons() {
    assert!(matches("step `…` ended", "step `a` ended"));
    assert!(matches("can't: …", "can't: why"));
    assert!(matches("… attempts", "10 attempts"));
    assert!(!matches("step `…` ended", "step `a` ended itself"));
    assert!(!matches("step `…` ended", "the step `a` ended"));
}
