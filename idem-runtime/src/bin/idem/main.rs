//! `idem`, the operators' program: what is not resolved in a database, why, and decisions about it.
//!
//! It runs no handler. A decision makes an operation due, and the application's recovery worker goes on with it.

mod arguments;
mod commands;
mod database;
mod output;
mod redacted;
mod table;
mod time;

use std::io::{self, Write};
use std::process::ExitCode;

use clap::Parser;
use clap::error::ErrorKind;

use self::arguments::Arguments;
use self::output::Output;
use self::redacted::redacted;

/// Why a command ended without doing what it was asked for.
#[derive(Debug)]
enum Failure {
    /// It was asked for wrongly.
    Usage(String),
    /// It was asked for rightly, and could not be done.
    Failed(String),
}

fn main() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => return refused(&error),
    };
    let mut output = Output::new(arguments.json);
    let done = database::run(arguments, &mut output);
    let done = done.and_then(|()| output.write());
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failure::Usage(message)) => {
            eprintln!("error: {}", redacted(&message));
            ExitCode::from(2)
        }
        Err(Failure::Failed(message)) => {
            eprintln!("error: {}", redacted(&message));
            ExitCode::FAILURE
        }
    }
}

/// What the command line's parser says: help and version are no mistakes.
fn refused(error: &clap::Error) -> ExitCode {
    let text = redacted(&error.render().to_string());
    if matches!(
        error.kind(),
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion
    ) {
        // Whoever reads may have read enough.
        let _ = io::stdout().write_all(text.as_bytes());
        return ExitCode::SUCCESS;
    }
    eprint!("{text}");
    ExitCode::from(2)
}
