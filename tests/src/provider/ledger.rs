//! The provider's memory: a file of JSON lines, one for each event, read again at the start.

use std::collections::HashSet;
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, Write};
use std::path::PathBuf;
use std::sync::Mutex;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// Money that was taken.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Charge {
    pub(crate) id: String,
    pub(crate) key: String,
    pub(crate) body_digest: String,
}

/// One request for a charge, whatever became of it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Attempt {
    pub(crate) key: String,
    pub(crate) body_digest: String,
    pub(crate) outcome: Outcome,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Outcome {
    /// This attempt took the money.
    Charged,
    /// An earlier one with this key had.
    Repeated,
    /// The key is another body's.
    Mismatch,
    Refused,
    Dropped,
}

#[derive(Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
enum Event {
    Charge(Charge),
    Attempt(Attempt),
    HonourKeys { on: bool },
}

/// What `GET /charges` shows.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Snapshot {
    pub(crate) charges: Vec<Charge>,
    pub(crate) attempts: Vec<Attempt>,
    pub(crate) honours_keys: bool,
    /// Every key that came, those whose attempts have not ended among them.
    arrived: HashSet<String>,
}

pub(crate) struct Ledger {
    state: Mutex<(File, Snapshot)>,
}

/// A key came with another body than before.
pub(crate) struct KeyReused;

impl Ledger {
    pub(crate) fn open(path: PathBuf) -> io::Result<Ledger> {
        let mut snapshot = Snapshot {
            charges: Vec::new(),
            attempts: Vec::new(),
            honours_keys: true,
            arrived: HashSet::new(),
        };
        if path.exists() {
            for line in BufReader::new(File::open(&path)?).lines() {
                // A last line cut off by a crash is no event.
                if let Ok(event) = serde_json::from_str(&line?) {
                    apply(&mut snapshot, event);
                }
            }
        }
        let file = OpenOptions::new().create(true).append(true).open(path)?;
        Ok(Ledger {
            state: Mutex::new((file, snapshot)),
        })
    }

    /// A key comes; whether it never did before.
    pub(crate) fn arrives(&self, key: &str) -> bool {
        let mut state = self.state.lock().expect("no holder panics");
        state.1.arrived.insert(key.to_owned())
    }

    /// Notes an attempt that charged nothing.
    pub(crate) fn attempt(&self, key: &str, body: &[u8], outcome: Outcome) {
        self.record(|_| (attempt(key, body, outcome), ()));
    }

    /// Charges once for a key, or each time while keys are not honoured.
    pub(crate) fn charge(&self, key: &str, body: &[u8]) -> Result<Charge, KeyReused> {
        self.record(|now| {
            let earlier = now.charges.iter().find(|charge| charge.key == key);
            if let Some(charge) = earlier.filter(|_| now.honours_keys) {
                if charge.body_digest != digest(body) {
                    return (attempt(key, body, Outcome::Mismatch), Err(KeyReused));
                }
                let again = charge.clone();
                return (attempt(key, body, Outcome::Repeated), Ok(again));
            }
            let charge = Charge {
                id: format!("ch_{}", now.charges.len() + 1),
                key: key.to_owned(),
                body_digest: digest(body),
            };
            let mut events = attempt(key, body, Outcome::Charged);
            events.insert(0, Event::Charge(charge.clone()));
            (events, Ok(charge))
        })
    }

    pub(crate) fn charges_of(&self, key: &str) -> Vec<Charge> {
        let mut charges = self.snapshot().charges;
        charges.retain(|charge| charge.key == key);
        charges
    }

    pub(crate) fn honour_keys(&self, on: bool) {
        self.record(|_| (vec![Event::HonourKeys { on }], ()));
    }

    pub(crate) fn snapshot(&self) -> Snapshot {
        self.record(|now| (Vec::new(), now.clone()))
    }

    /// Decides on what is known, writes the events down, and only then knows them.
    fn record<T>(&self, decide: impl FnOnce(&Snapshot) -> (Vec<Event>, T)) -> T {
        let mut state = self.state.lock().expect("no holder panics");
        let (file, snapshot) = &mut *state;
        let (events, answer) = decide(snapshot);
        for event in events {
            let mut line = serde_json::to_vec(&event).expect("an event is plain data");
            line.push(b'\n');
            file.write_all(&line)
                .expect("the ledger's file can be written");
            apply(snapshot, event);
        }
        answer
    }
}

fn attempt(key: &str, body: &[u8], outcome: Outcome) -> Vec<Event> {
    vec![Event::Attempt(Attempt {
        key: key.to_owned(),
        body_digest: digest(body),
        outcome,
    })]
}

fn apply(snapshot: &mut Snapshot, event: Event) {
    match event {
        Event::Charge(charge) => snapshot.charges.push(charge),
        Event::Attempt(attempt) => {
            snapshot.arrived.insert(attempt.key.clone());
            snapshot.attempts.push(attempt);
        }
        Event::HonourKeys { on } => snapshot.honours_keys = on,
    }
}

fn digest(body: &[u8]) -> String {
    Sha256::digest(body)
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}
