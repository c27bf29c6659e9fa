//! The program `idem`.

use std::collections::BTreeSet;
use std::time::Duration;

use idem_runtime::steps::Recovered;
use idem_tests::wait::{PATIENCE, until};
use serde_json::{Value, json};

use crate::handler::{Tested, Version};
use crate::on_each_database;
use crate::plan::{Answer, End, Plan};
use crate::setup::{World, idem};

on_each_database! {
    an_unknown_operation_is_listed_shown_and_resolved,
    a_refusal_is_refused_until_the_request_cannot_arrive_any_more,
    an_operation_is_resumed,
    what_was_seen_before_decides_nothing,
    of_two_programs_one_decides,
    a_list_is_as_long_as_it_was_asked_to_be,
    an_owners_records_are_erased_but_what_is_not_resolved,
    a_round_of_sweeping_says_what_it_did,
    the_schema_is_printed_without_a_connection,
    json_has_the_documented_fields,
}

const CHARGED: &str = "{\"id\": \"ch_42\"}";
const SIGNED: [&str; 4] = ["--by", "alice", "--why", "ticket 1"];

fn with<'a>(command: &[&'a str]) -> Vec<&'a str> {
    [command, &SIGNED].concat()
}

async fn an_unknown_operation_is_listed_shown_and_resolved<DB: Tested>() {
    let (world, operation) = World::<DB>::with_lost_answer(Duration::from_secs(30)).await;
    let (id, seen) = (operation.id.to_string(), operation.seen.to_string());
    let listed = world.idem(&["list", "--state", "unknown"]).await;
    let lines: Vec<_> = listed.done().lines().collect();
    assert_eq!(lines.len(), 2, "{listed:?}");
    assert!(
        lines[0].starts_with("ID ") && lines[1].starts_with(&id),
        "{listed:?}"
    );
    for part in [
        "charges.create",
        "s5:alice",
        "unknown",
        "s ago)",
        "it says `at_most_once`",
    ] {
        assert!(lines[1].contains(part), "{part}: {listed:?}");
    }
    let shown = world.idem(&["show", &id]).await;
    for part in [
        &seen,
        "step 2: charge (external) begun",
        "{\"cents\":1250}",
        "order 7",
        "may arrive",
    ] {
        assert!(shown.done().contains(part), "{part}: {shown:?}");
    }
    assert!(
        shown
            .messages
            .contains(&format!("idem resolve {seen} --done JSON")),
        "{shown:?}"
    );

    let decided = world
        .idem(&with(&["resolve", &seen, "--done", CHARGED]))
        .await;
    assert_eq!(decided.done(), "");
    assert!(decided.messages.contains("recovery worker"), "{decided:?}");
    assert_eq!(world.recover(Version::First).await, Recovered::Completed);
    assert_eq!(world.charge("alice").await, 201);
    let nothing = world.idem(&["list"]).await;
    assert_eq!(nothing.done(), "");
    assert!(
        nothing.messages.contains("no operation is unresolved"),
        "{nothing:?}"
    );
    let left = world.idem(&["show", &id, "--json"]).await.json();
    assert_eq!(left["state"], "ended");
    assert_eq!(left["audit"][0]["reason"], "ticket 1");
}

async fn a_refusal_is_refused_until_the_request_cannot_arrive_any_more<DB: Tested>() {
    let (world, operation) = World::<DB>::with_lost_answer(Duration::from_secs(2)).await;
    let seen = operation.seen.to_string();
    let command = with(&["resolve", &seen, "--refused", "{\"code\": \"lost\"}"]);
    let early = world.idem(&command).await;
    assert!(
        early.refused(1).contains("may still arrive: look again in"),
        "{early:?}"
    );
    until("it can't arrive any more", PATIENCE, async || {
        world.idem(&command).await.code == Some(0)
    })
    .await;
    assert_eq!(world.recover(Version::First).await, Recovered::Completed);
    assert_eq!(world.charge("alice").await, 402);
}

async fn an_operation_is_resumed<DB: Tested>() {
    let world = World::<DB>::new(Plan {
        answer: Answer::Unstorable,
        ..Plan::default()
    })
    .await;
    assert_eq!(world.charge("alice").await, 409);
    let seen = world.only().await.seen.to_string();
    let resumed = world.idem(&with(&["resume", &seen, "--json"])).await.json();
    assert_eq!(resumed["action"], "resume");
    assert_eq!(world.recover(Version::First).await, Recovered::Unknown);
}

async fn what_was_seen_before_decides_nothing<DB: Tested>() {
    let (world, operation) = World::<DB>::with_lost_answer(Duration::from_secs(30)).await;
    let seen = operation.seen.to_string();
    world.idem(&with(&["resume", &seen])).await.done();
    let started = world.only().await.seen.to_string();
    let early = world
        .idem(&with(&["resolve", &started, "--done", CHARGED]))
        .await;
    assert!(
        early
            .refused(1)
            .contains("is being worked on, and not unknown"),
        "{early:?}"
    );
    assert_eq!(world.recover(Version::First).await, Recovered::Unknown);
    let stale = world
        .idem(&with(&["resolve", &seen, "--done", CHARGED]))
        .await;
    let advice = format!("look at it again: `idem show {}`", operation.id);
    assert!(stale.refused(1).contains(&advice), "{stale:?}");
    let unknown = format!("{}@1-00000000", "00".repeat(32));
    let none = world.idem(&with(&["resume", &unknown])).await;
    assert!(none.refused(1).contains("`idem list`"), "{none:?}");
    let id = "00".repeat(32);
    let none = world.idem(&["show", &id]).await;
    assert!(none.refused(1).contains("`idem list`"), "{none:?}");
}

async fn of_two_programs_one_decides<DB: Tested>() {
    let (world, operation) = World::<DB>::with_lost_answer(Duration::from_secs(30)).await;
    let seen = operation.seen.to_string();
    let done = with(&["resolve", &seen, "--done", CHARGED]);
    let resume = with(&["resume", &seen]);
    let (one, other) = tokio::join!(world.idem(&done), world.idem(&resume));
    let mut codes = [one.code, other.code];
    codes.sort_unstable();
    assert_eq!(codes, [Some(0), Some(1)], "{one:?} {other:?}");
    let operations = world.app.idempotency.operations();
    assert_eq!(operations.audit(operation.id).await.unwrap().len(), 1);
}

async fn a_list_is_as_long_as_it_was_asked_to_be<DB: Tested>() {
    let (world, _) = World::<DB>::with_lost_answer(Duration::from_secs(30)).await;
    world.plan(|plan| plan.end = End::Panics);
    world.plan(|plan| plan.answer = Answer::Charged);
    world.charge("bob").await;
    let all = world.idem(&["list", "--json"]).await;
    assert_eq!(all.json().as_array().unwrap().len(), 2);
    assert_eq!(all.messages, "");
    let first = world.idem(&["list", "--json", "--limit", "1"]).await;
    assert_eq!(first.json().as_array().unwrap().len(), 1);
    assert!(
        first.messages.contains("more than 1: raise --limit"),
        "{first:?}"
    );
    for (filter, expected) in [
        (["--operation", "charges.create"], 2),
        (["--operation", "charges.other"], 0),
        (["--scope", "s3:bob"], 1),
        (["--state", "started"], 1),
        (["--older-than", "1h"], 0),
        (["--older-than", "0s"], 2),
    ] {
        let listed = world
            .idem(&[&["list", "--json"], &filter[..]].concat())
            .await;
        assert_eq!(
            listed.json().as_array().unwrap().len(),
            expected,
            "{filter:?}"
        );
    }
}

async fn an_owners_records_are_erased_but_what_is_not_resolved<DB: Tested>() {
    let (world, _) = World::<DB>::with_lost_answer(Duration::from_secs(30)).await;
    world.plan(|plan| plan.answer = Answer::Charged);
    assert_eq!(world.charge("bob").await, 201);
    let alice = world.idem(&["erase", "s5:alice"]).await;
    assert_eq!(alice.done(), "0 erased, 1 skipped\n");
    assert!(
        alice.messages.contains("idem list --scope 's5:alice'"),
        "{alice:?}"
    );
    let bob = world.idem(&["erase", "s3:bob", "--json"]).await;
    assert_eq!(bob.json(), json!({ "erased": 1, "skipped": 0 }));
    assert_eq!(world.number("SELECT count(*) FROM idem_keys").await, 1);
    let name = world.idem(&["erase", "alice"]).await;
    assert!(
        name.refused(2).contains("`s5:alice` is the text `alice`"),
        "{name:?}"
    );
}

async fn a_round_of_sweeping_says_what_it_did<DB: Tested>() {
    let world = World::<DB>::new(Plan::default()).await;
    assert_eq!(world.charge("alice").await, 201);
    let swept = world.idem(&["sweep", "--json"]).await.json();
    assert_eq!(swept, json!({ "answers": 0, "records": 0, "messages": 0 }));
    let over = "UPDATE idem_keys SET expires_at = created_at, retain_until = created_at";
    world.database.execute(over).await.unwrap();
    let swept = world.idem(&["sweep"]).await;
    assert_eq!(
        swept.done(),
        "1 records deleted, 0 answers erased whose keys stay refused, 0 processed messages forgotten\n"
    );
}

async fn the_schema_is_printed_without_a_connection<DB: Tested>() {
    let scheme = match DB::BACKEND {
        idem_tests::servers::Backend::MySql => "mysql",
        idem_tests::servers::Backend::Sqlite => "sqlite",
        _ => "postgres",
    };
    let url = format!("{scheme}://nobody:secret@nowhere.invalid/none");
    let schema = idem(Some(&url), &["schema"]).await;
    assert_eq!(schema.done(), idem_runtime::Idempotency::<DB>::schema());
}

async fn json_has_the_documented_fields<DB: Tested>() {
    let (world, operation) = World::<DB>::with_lost_answer(Duration::from_secs(30)).await;
    let id = operation.id.to_string();
    let listed = world.idem(&["list", "--json"]).await.json();
    let shown = world.idem(&["show", &id, "--json"]).await.json();
    let page = include_str!("../../../docs/operating-effects.md");
    let fields = |title: &str| -> BTreeSet<String> {
        let line = page
            .lines()
            .find(|line| line.starts_with(&format!("| {title} |")))
            .unwrap_or_else(|| panic!("the page lists the fields of {title}"));
        let names = line.split('`').skip(1).step_by(2);
        names.map(str::to_owned).collect()
    };
    let names = |value: &Value| -> BTreeSet<String> {
        value.as_object().unwrap().keys().cloned().collect()
    };
    let summary = fields("an operation");
    assert_eq!(names(&listed[0]), summary);
    let more = fields("`show`, besides");
    let more: BTreeSet<_> = more.into_iter().filter(|name| name != "show").collect();
    assert_eq!(names(&shown), &summary | &more);
    assert_eq!(names(&shown["steps"][1]), fields("a step"));
    let seen = operation.seen.to_string();
    world.idem(&with(&["resume", &seen])).await.done();
    let shown = world.idem(&["show", &id, "--json"]).await.json();
    assert_eq!(names(&shown["audit"][0]), fields("a decision"));
}

#[tokio::test]
async fn what_is_asked_for_wrongly_is_told_with_code_2_and_without_passwords() {
    let seen = format!("{}@1-00000000", "00".repeat(32));
    for (url, arguments, told) in [
        (
            None,
            &["list"][..],
            "give --database-url, or set DATABASE_URL",
        ),
        (
            Some("oracle://idem:secret@host/db"),
            &["list"],
            "none of `postgres:`, `mysql:` and `sqlite:`",
        ),
        (Some("idem:secret@host"), &["schema"], "none of `postgres:`"),
        (
            Some("postgres://idem:secret@host:port/db"),
            &["list"],
            "can't be read",
        ),
        (
            None,
            &["postgres://idem:secret@host/db"],
            "unrecognized subcommand",
        ),
        (
            Some("sqlite::memory:"),
            &["list", "--older-than", "10"],
            "its unit",
        ),
        (
            Some("sqlite::memory:"),
            &["list", "--limit", "0"],
            "--limit",
        ),
        (
            Some("sqlite::memory:"),
            &["show", "12"],
            "64 hexadecimal digits",
        ),
        (
            Some("sqlite::memory:"),
            &["resume", "12", "--by", "a", "--why", "b"],
            "copy what `show` prints",
        ),
        (Some("sqlite::memory:"), &["resume", &seen], "--by"),
    ] {
        let said = idem(url, arguments).await;
        let messages = said.refused(2);
        assert!(messages.contains(told), "{told}: {said:?}");
        assert!(!messages.contains("secret"), "{said:?}");
    }
}

#[tokio::test]
async fn a_database_that_is_not_there_is_told_with_code_1_and_not_made() {
    let place = tempfile::TempDir::new().unwrap();
    let file = place.path().join("none.db");
    let url = format!("sqlite:{}?mode=rwc", file.display());
    let none = idem(Some(&url), &["list"]).await;
    assert!(none.refused(1).contains("can't be reached"), "{none:?}");
    assert!(!file.exists());
    let closed = idem(Some("postgres://idem:secret@127.0.0.1:1/db"), &["list"]).await;
    assert!(closed.refused(1).contains("can't be reached"), "{closed:?}");
    assert!(!closed.messages.contains("secret"));
    std::fs::write(&file, "").unwrap();
    let empty = idem(Some(&url), &["list"]).await;
    assert!(
        empty.refused(1).contains("`idem schema` prints that SQL"),
        "{empty:?}"
    );
}

#[tokio::test]
async fn help_says_how_to_use_it_and_shows_no_environment() {
    let help = idem(Some("postgres://idem:secret@host/db"), &["--help"]).await;
    for part in [
        "list",
        "show",
        "resolve",
        "resume",
        "erase",
        "sweep",
        "schema",
        "--json",
        "Exit codes",
    ] {
        assert!(help.done().contains(part), "{part}: {help:?}");
    }
    assert!(!help.data.contains("secret"), "{help:?}");
}
