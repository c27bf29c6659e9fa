//! Data for standard output, as text or as JSON.

use std::io::{self, Write};

use serde::Serialize;

use crate::Failure;
use crate::redacted::redacted;

pub(crate) struct Output {
    json: bool,
    text: String,
}

impl Output {
    pub(crate) fn new(json: bool) -> Self {
        Self {
            json,
            text: String::new(),
        }
    }

    /// Adds data: as JSON, or as people read it.
    pub(crate) fn data(&mut self, value: &impl Serialize, people: impl FnOnce() -> String) {
        if self.json {
            self.text = serde_json::to_string_pretty(value)
                .expect("what is shown has text for keys, and can be serialized");
            self.text.push('\n');
        } else {
            self.text = people();
        }
    }

    /// Tells people, beside the data.
    pub(crate) fn message(&self, text: &str) {
        eprintln!("{}", redacted(text));
    }

    /// Writes the data.
    pub(crate) fn write(&self) -> Result<(), Failure> {
        let mut stdout = io::stdout().lock();
        let written = stdout
            .write_all(self.text.as_bytes())
            .and_then(|()| stdout.flush());
        match written {
            // Whoever reads has read enough.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            Err(error) => Err(Failure::Failed(format!("standard output: {error}"))),
            Ok(()) => Ok(()),
        }
    }
}
