//! What `clippy.toml` finds in handlers, and only there: a crate as a user has one is checked by clippy.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// The target directory that this test was built in: the fixture shares it.
fn target_directory() -> PathBuf {
    let test = std::env::current_exe().expect("a test is a program");
    let directory = test.ancestors().nth(3).expect("target/debug/deps/test");
    directory.to_owned()
}

/// A file of the fixture, and a line of it.
type Place = (String, u64);

/// The lines of the fixture that clippy refuses, each with what it says.
fn refused(repository: &Path, fixture: &Path) -> Vec<(Place, String)> {
    // No network: the versions are the workspace's.
    std::fs::copy(repository.join("Cargo.lock"), fixture.join("Cargo.lock"))
        .expect("the fixture's directory is writable");
    let clippy = Command::new(env!("CARGO"))
        .args(["clippy", "--offline", "--quiet", "--message-format=json"])
        .current_dir(fixture)
        .env("CLIPPY_CONF_DIR", repository)
        .env("CARGO_TARGET_DIR", target_directory())
        // As the workspace's profile: so the dependencies are those that are built already.
        .env("CARGO_PROFILE_DEV_DEBUG", "line-tables-only")
        .output()
        .expect("clippy is part of the toolchain");
    let output = String::from_utf8(clippy.stdout).expect("messages are UTF-8");
    let found: Vec<_> = output
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok())
        .filter(|line| line["reason"] == "compiler-message")
        .map(|line| line["message"].clone())
        .filter(|message| !message["spans"].as_array().is_none_or(Vec::is_empty))
        .map(|message| {
            assert_eq!(
                message["code"]["code"], "clippy::disallowed_methods",
                "{}",
                message["rendered"]
            );
            let rendered = message["rendered"].as_str().unwrap_or_default();
            let span = &message["spans"][0];
            let file = span["file_name"].as_str().expect("a file").to_owned();
            let line = span["line_start"].as_u64().expect("a line");
            ((file, line), rendered.to_owned())
        })
        .collect();
    assert!(
        !found.is_empty(),
        "{}",
        String::from_utf8_lossy(&clippy.stderr)
    );
    found
}

/// The lines that are marked.
fn marked(fixture: &Path) -> BTreeSet<Place> {
    ["src/lib.rs", "src/held.rs"]
        .iter()
        .flat_map(|file| {
            let source = std::fs::read_to_string(fixture.join(file)).expect("the fixture is there");
            let marked = |line: &str| line.ends_with("// REFUSED");
            let lines: Vec<_> = (1..)
                .zip(source.lines())
                .filter(|(_, line)| marked(line))
                .map(|(number, _)| ((*file).to_owned(), number))
                .collect();
            lines
        })
        .collect()
}

#[test]
fn clippy_refuses_in_handlers_what_only_resolved_names_show() {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR"));
    let repository = tests.parent().expect("the workspace's directory");
    let fixture = tests.join("clippy");
    let expected = marked(&fixture);
    let found = refused(repository, &fixture);
    let places: BTreeSet<Place> = found.iter().map(|(place, _)| place.clone()).collect();
    let messages: Vec<_> = found.iter().map(|(_, message)| message.as_str()).collect();
    assert_eq!(places, expected, "{}", messages.join("\n"));
    for ((file, line), message) in &found {
        assert!(
            message.contains("transaction") || message.contains("rollback"),
            "{file}:{line} gives the reason: {message}"
        );
        assert!(
            message.contains("`tx"),
            "{file}:{line} says what to write instead: {message}"
        );
    }
}
