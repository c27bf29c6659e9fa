//! What does not compile, with the messages that a user reads, and what must. `TRYBUILD=overwrite` writes the
//! messages anew: read each as a newcomer would before you commit it.

use std::{fs, path::Path};

#[test]
fn diagnostics() {
    let cases = trybuild::TestCases::new();
    cases.pass("ui/pass/*.rs");
    cases.compile_fail("ui/fail/*.rs");
    cases.compile_fail("ui/leaks/*.rs");
}

/// The words of a message that a user never wrote and can't look up: the module that generated code names, the hidden
/// type of a handler (`CreateOrderOperation`) and its trait, and the variables of generated functions (`argument1`).
fn generated_names(message: &str) -> Vec<&str> {
    let words = message.split(|letter: char| !(letter.is_alphanumeric() || letter == '_'));
    let numbered = |word: &str| {
        word.strip_prefix("argument").is_some_and(|number| {
            !number.is_empty() && number.chars().all(|digit| digit.is_ascii_digit())
        })
    };
    words
        .filter(|word| {
            *word == "__private"
                || word.trim_end_matches('_').ends_with("Operation")
                || numbered(word)
        })
        .collect()
}

#[test]
fn no_message_names_what_only_generated_code_names() {
    let mut messages = 0;
    let mut found = Vec::new();
    for directory in ["ui/fail", "ui/leaks"] {
        let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join(directory);
        for entry in fs::read_dir(&directory).expect("the cases are there") {
            let path = entry.expect("the directory is readable").path();
            if path
                .extension()
                .is_none_or(|extension| extension != "stderr")
            {
                continue;
            }
            messages += 1;
            let text = fs::read_to_string(&path).expect("a message is text");
            for name in generated_names(&text) {
                found.push(format!("{}: {name}", path.display()));
            }
        }
    }
    assert!(
        messages > 40,
        "only {messages} files of messages were found"
    );
    assert!(found.is_empty(), "{}", found.join("\n"));
}

/// Where the checkout is, and whether the standard library's source is there, must not decide over a message.
#[test]
fn no_message_depends_on_the_machine() {
    for directory in ["ui/fail", "ui/leaks"] {
        let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join(directory);
        for entry in fs::read_dir(&directory).expect("the cases are there") {
            let path = entry.expect("the directory is readable").path();
            if path
                .extension()
                .is_some_and(|extension| extension == "stderr")
            {
                let text = fs::read_to_string(&path).expect("a message is text");
                for unstable in ["$RUST", "within `{"] {
                    assert!(!text.contains(unstable), "{}: {unstable}", path.display());
                }
            }
        }
    }
}

#[test]
fn a_generated_name_in_a_message_is_found() {
    let message = "required by a bound in `idem_runtime::__private::declared`: `argument1` of `CreateOrderOperation` \
                   or `PayOperation_`, not `operation`, `argument` or `Operations`";
    assert_eq!(
        generated_names(message),
        [
            "__private",
            "argument1",
            "CreateOrderOperation",
            "PayOperation_"
        ]
    );
}
