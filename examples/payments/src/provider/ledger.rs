//! What came to the provider and what moved: a file with an entry a line, which outlives it.

use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, Write};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};

/// A request for money.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// `charge`, `debit` or `redemption`.
    pub kind: String,
    /// Its key, or its reference.
    pub reference: Option<String>,
    pub source: String,
    pub cents: i64,
    /// The payment that it made, if it made one.
    pub payment: Option<String>,
}

impl Entry {
    pub fn request(kind: &str, reference: Option<&str>, source: &str, cents: i64) -> Self {
        Self {
            kind: kind.to_owned(),
            reference: reference.map(str::to_owned),
            source: source.to_owned(),
            cents,
            payment: None,
        }
    }
}

/// All entries, in the order in which they came.
#[derive(Clone, Debug)]
pub struct Ledger(Arc<Mutex<Book>>);

#[derive(Debug)]
struct Book {
    file: File,
    entries: Vec<Entry>,
}

impl Ledger {
    pub fn open(path: &Path) -> io::Result<Self> {
        let file = OpenOptions::new()
            .read(true)
            .append(true)
            .create(true)
            .open(path)?;
        let mut entries = Vec::new();
        for line in BufReader::new(&file).lines() {
            entries.push(serde_json::from_str(&line?)?);
        }
        Ok(Self(Arc::new(Mutex::new(Book { file, entries }))))
    }

    pub fn entries(&self) -> Vec<Entry> {
        self.book().entries.clone()
    }

    /// The payment with a reference.
    pub fn find(&self, kind: &str, reference: &str) -> Option<String> {
        self.book()
            .entries
            .iter()
            .filter(|entry| entry.kind == kind && entry.reference.as_deref() == Some(reference))
            .find_map(|entry| entry.payment.clone())
    }

    /// Whether the same came before.
    pub fn has(&self, entry: &Entry) -> bool {
        self.book().entries.contains(entry)
    }

    /// Notes a request that moves nothing.
    pub fn note(&self, entry: &Entry) -> io::Result<()> {
        self.book().write(entry)
    }

    /// Moves money.
    pub fn pay(&self, entry: &mut Entry) -> io::Result<String> {
        let mut book = self.book();
        let payment = format!("pay_{}", book.entries.len() + 1);
        entry.payment = Some(payment.clone());
        book.write(entry)?;
        Ok(payment)
    }

    fn book(&self) -> MutexGuard<'_, Book> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Book {
    fn write(&mut self, entry: &Entry) -> io::Result<()> {
        let mut line = serde_json::to_vec(entry)?;
        line.push(b'\n');
        self.file.write_all(&line)?;
        self.file.sync_data()?;
        self.entries.push(entry.clone());
        Ok(())
    }
}
