//! The program itself.
#![cfg(feature = "sqlite")]
#![allow(clippy::unwrap_used)]

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
        "409 Link: </operations>; rel=\"status\"",
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
