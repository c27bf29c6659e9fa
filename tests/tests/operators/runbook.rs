//! The commands of docs/operating-effects.md, one by one, each block on an operation in the situation that its section is about.

mod page;
mod situation;

use std::process::Stdio;

use idem_runtime::operations::OperationState;
use idem_runtime::steps::Recovered;
use idem_tests::process::executable;
use idem_tests::servers::Backend;
use idem_tests::wait::{PATIENCE, until};
use tokio::process::Command;

use self::page::{Section, matches, sections};
use self::situation::Situation;
use crate::handler::{Tested, Version};
use crate::on_each_database;
use crate::setup::{Said, World};

/// A step's input was read back before it was stored: only another program could make it unreadable.
const UNREACHED: &str = "the input that step `…` was begun with can't be read now";

on_each_database! {
    every_command_of_the_runbook_does_what_it_says,
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
    let mut files = vec![steps.with_extension("rs")];
    let mut folders = vec![steps];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                files.push(path);
            }
        }
    }
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
