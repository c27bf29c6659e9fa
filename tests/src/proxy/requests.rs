//! What one connection asks of its server, read off the wire.

use std::collections::HashMap;

use crate::servers::Backend;

/// A request that waits for an answer of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// One statement, or several in one message.
    Statement(String),
    /// A statement is prepared, for this execution and later ones.
    Preparation(String),
    /// Whether the server is there.
    Ping,
}

impl Request {
    /// Whether it begins a transaction.
    pub fn begins(&self) -> bool {
        let text = self.text();
        matches!(self, Request::Statement(_))
            // On MariaDB the session is set in the same message.
            && (text.starts_with("BEGIN") || text.contains("START TRANSACTION"))
    }

    /// The statement's text, on one line.
    pub fn text(&self) -> String {
        let text = match self {
            Request::Statement(text) | Request::Preparation(text) => text,
            Request::Ping => "ping",
        };
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    }
}

/// Reads a client's messages.
#[derive(Debug)]
pub(super) struct Reader {
    backend: Backend,
    /// PostgreSQL's by name, MySQL's by number.
    prepared: HashMap<Vec<u8>, String>,
    /// A text whose number MySQL has not told yet.
    numberless: Option<String>,
    /// What was sent since the last request was complete.
    pending: Option<Request>,
}

impl Reader {
    pub(super) fn new(backend: Backend) -> Reader {
        Reader {
            backend,
            prepared: HashMap::new(),
            numberless: None,
            pending: None,
        }
    }

    /// The request that this message completes.
    pub(super) fn read(&mut self, message: &[u8]) -> Option<Request> {
        match self.backend {
            Backend::MySql => self.read_mysql(message),
            _ => self.read_postgres(message),
        }
    }

    fn read_postgres(&mut self, message: &[u8]) -> Option<Request> {
        let (kind, payload) = (message.first()?, message.get(5..)?);
        let mut strings = payload.split(|byte| *byte == 0);
        match kind {
            b'Q' => return Some(Request::Statement(text(strings.next()?))),
            b'P' => {
                let (name, statement) = (strings.next()?, text(strings.next()?));
                self.pending = Some(Request::Preparation(statement.clone()));
                self.prepared.insert(name.to_vec(), statement);
            }
            b'B' => {
                let _portal = strings.next()?;
                let statement = self.prepared.get(strings.next()?)?;
                self.pending = Some(Request::Statement(statement.clone()));
            }
            b'S' => return Some(self.pending.take().unwrap_or(Request::Ping)),
            _ => {}
        }
        None
    }

    /// Reads a message of the server's.
    pub(super) fn answered(&mut self, message: &[u8]) {
        if self.backend == Backend::MySql
            && let [_, _, _, 1, 0, number @ ..] = message
            && let (Some(number), Some(statement)) = (number.get(..4), self.numberless.take())
        {
            self.prepared.insert(number.to_vec(), statement);
        }
    }

    /// A command's first message has the number 0, and none of the login's has.
    fn read_mysql(&mut self, message: &[u8]) -> Option<Request> {
        let [_, _, _, 0, command, payload @ ..] = message else {
            return None;
        };
        match command {
            0x03 => Some(Request::Statement(text(payload))),
            0x0e => Some(Request::Ping),
            0x16 => {
                self.numberless = Some(text(payload));
                Some(Request::Preparation(text(payload)))
            }
            0x17 => {
                let statement = self.prepared.get(payload.get(..4)?)?;
                Some(Request::Statement(statement.clone()))
            }
            _ => None,
        }
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
