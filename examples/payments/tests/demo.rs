//! The program itself.
#![cfg(feature = "sqlite")]
#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::Path;
use std::process::Command;

#[test]
fn each_story_of_the_demo_ends_with_one_payment() {
    let output = Command::new(env!("CARGO_BIN_EXE_payments"))
        .arg("--demo")
        .output()
        .unwrap();
    let story = String::from_utf8(output.stdout).unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{story}\n{errors}");
    for told in [
        "requests for a charge: 2, payments: 1",
        "requests for a debit: 1, payments: 1",
        "409 Link: </operations/",
        "What it sees there: 200 {\"state\":\"unknown\"}",
        "  idem --database-url sqlite:",
        "requests for a redemption: 1, payments: 1",
    ] {
        assert!(story.contains(told), "`{told}` is not in\n{story}");
    }
    let ending = "Four stories, and one payment in each.\n";
    assert!(story.ends_with(ending), "{story}");
}

#[test]
fn an_argument_that_is_unknown_prints_what_there_is() {
    let output = Command::new(env!("CARGO_BIN_EXE_payments"))
        .arg("--dmo")
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("payments --demo"));
}

#[test]
fn an_address_of_another_database_says_what_to_run() {
    let output = Command::new(env!("CARGO_BIN_EXE_payments"))
        .env("DATABASE_URL", "postgres://localhost/payments")
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
fn the_code_of_the_page_about_effects_is_this_code() {
    let page = include_str!("../../../docs/effects.md");
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let code: String = ["lib.rs", "payments.rs", "gateway.rs"]
        .map(|file| fs::read_to_string(sources.join(file)).unwrap())
        .concat();
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
