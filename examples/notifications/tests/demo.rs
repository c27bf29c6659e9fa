//! The program itself.
#![cfg(feature = "sqlite")]
#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::Path;
use std::process::Command;

fn program() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_notifications"));
    command.env_remove("NATS_URL").env_remove("DATABASE_URL");
    command
}

#[test]
fn whatever_is_killed_each_order_is_entered_once_and_in_order() {
    let output = program().arg("--demo").output().unwrap();
    let story = String::from_utf8(output.stdout).unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{story}\n{errors}");
    for told in [
        "with the same key: 201 Idempotent-Replayed {",
        "Messages in the stream: 4, for 3 orders: one is there twice, with one id.",
        "Orders: 3, entries in the ledger: 3, webhooks counted: 3.",
        "Messages in the stream: 7, deliveries of them: ",
        "Orders: 6, entries in the ledger: 6, webhooks counted: 6.",
        "Three more orders are made without it, and answered. Events that wait in the outbox: ",
        "Orders: 11, entries in the ledger: 11, webhooks counted: 11.",
        "Orders: 13, entries in the ledger: 13, webhooks counted: 13.",
        "  alice  order 8   4500  total  24000\n",
        "  bob    order 5   4500  total  16500\n",
        "Orders: 13. Entries in the ledger: 13, each order once, in the order of its account.",
        " deliveries of 13 ids, 13 counted.\n",
    ] {
        assert!(story.contains(told), "`{told}` is not in\n{story}");
    }
}

#[cfg(unix)]
#[test]
fn a_demo_that_is_told_to_stop_stops_what_it_has_started() {
    use std::io::{BufRead, BufReader};
    use std::process::Stdio;
    use std::thread;
    use std::time::{Duration, Instant};

    let directory = tempfile::tempdir().unwrap();
    let mut demo = program()
        .arg("--demo")
        .env("TMPDIR", directory.path())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut story = BufReader::new(demo.stdout.take().unwrap());
    let mut line = String::new();
    story.read_line(&mut line).unwrap();
    assert!(line.starts_with("1. "), "{line}");
    // The demo, nats-server and three parts, of which it may just have killed one.
    #[cfg(target_os = "linux")]
    assert!(started_with(directory.path()).len() >= 4, "all run");
    let left = || fs::read_dir(directory.path()).unwrap().count();
    assert_ne!(left(), 0, "files of the broker and of the databases");

    let told = Command::new("kill")
        .args(["-INT", &demo.id().to_string()])
        .status();
    assert!(told.unwrap().success());
    while story.read_line(&mut line).unwrap() > 0 {}
    assert_eq!(demo.wait().unwrap().code(), Some(1));
    assert_eq!(left(), 0);
    let patience = Instant::now() + Duration::from_secs(10);
    while !started_with(directory.path()).is_empty() {
        let started = started_with(directory.path());
        assert!(Instant::now() < patience, "still there: {started:?}");
        thread::sleep(Duration::from_millis(20));
    }
}

/// The processes that have this folder in their environment. Linux tells.
#[cfg(unix)]
fn started_with(folder: &Path) -> Vec<String> {
    let folder = folder.to_str().unwrap();
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    processes
        .filter(|process| {
            let environment = fs::read(process.path().join("environ")).unwrap_or_default();
            String::from_utf8_lossy(&environment).contains(folder)
        })
        .map(|process| {
            let command = fs::read(process.path().join("cmdline")).unwrap_or_default();
            String::from_utf8_lossy(&command).replace('\0', " ")
        })
        .collect()
}

#[test]
fn without_a_broker_it_says_how_to_install_one() {
    let output = program()
        .arg("--demo")
        .env("NATS_SERVER", "no-such-program")
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(errors.contains("apt-get install nats-server"), "{errors}");
}

#[test]
fn an_argument_that_is_unknown_prints_what_there_is() {
    let output = program().arg("--dmo").output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("notifications --demo"));
}

#[test]
fn an_address_of_another_database_says_what_to_run() {
    let output = program()
        .env("DATABASE_URL", "postgres://localhost/notifications")
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(
        errors.contains("--no-default-features --features postgres"),
        "{errors}"
    );
}

/// What a reader copies from the page is what runs here.
#[test]
fn the_code_of_the_page_about_notifications_is_this_code() {
    let page = include_str!("../../../docs/notifications.md");
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let files = [
        "orders.rs",
        "relay.rs",
        "ledger.rs",
        "receiver.rs",
        "worst_moment.rs",
    ];
    let code = files.map(|file| fs::read_to_string(sources.join(file)).unwrap());
    let code = code.concat();
    let lines: Vec<&str> = code.lines().map(str::trim).collect();
    let blocks: Vec<&str> = page.split("```rust\n").skip(1).collect();
    assert!(!blocks.is_empty());
    for block in blocks {
        let block = block.split("```").next().unwrap();
        let wanted: Vec<&str> = block.lines().map(str::trim).collect();
        assert!(
            lines.windows(wanted.len()).any(|window| window == wanted),
            "this is not in the example:\n{block}"
        );
    }
}
