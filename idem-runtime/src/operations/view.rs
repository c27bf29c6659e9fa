//! What operators see. Times are milliseconds since 1970, by the database's clock.

use std::fmt;
use std::str::FromStr;

use serde::Serialize;
use serde_json::Value;
use uuid::Uuid;

use crate::backend::operations::{AuditRow, OperationRow, Unresolved as Counted};
use crate::idempotency::StoreError;
use crate::scope::RecordId;
use crate::steps::{Entry, Journal};

/// Names an operation: the digest of its scope and key, in hexadecimal.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct OperationId(RecordId);

impl OperationId {
    pub(crate) fn of(id: RecordId) -> Self {
        Self(id)
    }

    pub(crate) fn record(self) -> RecordId {
        self.0
    }
}

impl fmt::Display for OperationId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&crate::digest::hex(self.0.as_bytes()))
    }
}

impl fmt::Debug for OperationId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "OperationId({self})")
    }
}

impl Serialize for OperationId {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// An operation as it was when somebody looked at it: a decision holds for that, and for nothing later. Its text is the
/// operation's id and what tells its attempts apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Seen {
    id: OperationId,
    attempt: i32,
    /// The first bytes of the attempt's owner.
    owner: u32,
}

impl Seen {
    pub(super) fn of(row: &OperationRow) -> Self {
        let [a, b, c, d, ..] = row.owner;
        Self {
            id: OperationId::of(row.id),
            attempt: row.attempt,
            owner: u32::from_be_bytes([a, b, c, d]),
        }
    }

    /// Whose state it is.
    #[must_use]
    pub fn id(&self) -> OperationId {
        self.id
    }
}

impl fmt::Display for Seen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}-{:08x}", self.id, self.attempt, self.owner)
    }
}

impl Serialize for Seen {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Not what [`Seen`] is written as.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("copy what `show` prints as `seen`: an operation's id, `@`, and which attempt it was at")]
pub struct NotSeen;

impl FromStr for Seen {
    type Err = NotSeen;

    fn from_str(text: &str) -> Result<Self, NotSeen> {
        let parts = || {
            let (id, version) = text.split_once('@')?;
            let (attempt, owner) = version.split_once('-')?;
            Some(Self {
                id: id.parse().ok()?,
                attempt: attempt.parse().ok()?,
                owner: u32::from_str_radix(owner, 16).ok()?,
            })
        };
        parts().ok_or(NotSeen)
    }
}

/// Not 64 hexadecimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("an operation's id is 64 hexadecimal digits, as they are listed")]
pub struct NotAnOperationId;

impl FromStr for OperationId {
    type Err = NotAnOperationId;

    fn from_str(text: &str) -> Result<Self, NotAnOperationId> {
        if text.len() != 64 || !text.is_ascii() {
            return Err(NotAnOperationId);
        }
        let bytes: Option<Vec<u8>> = (0..32)
            .map(|index| u8::from_str_radix(&text[index * 2..index * 2 + 2], 16).ok())
            .collect();
        bytes
            .filter(|_| !text.contains('+'))
            .and_then(|bytes| RecordId::from_slice(&bytes))
            .map(Self)
            .ok_or(NotAnOperationId)
    }
}

/// What an operation is that is not completed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum OperationState {
    /// An attempt has it, or the recovery worker will.
    Started,
    /// Nothing happens until an operator resolves it.
    Unknown,
}

/// One of a list.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct OperationSummary {
    /// Its id.
    pub id: OperationId,
    /// What a decision is made about.
    pub seen: Seen,
    /// Its name.
    pub operation: String,
    /// Whose it is, in the form in which scopes are stored.
    pub scope: String,
    /// What it is.
    pub state: OperationState,
    /// Why it is unknown.
    pub reason: Option<String>,
    /// Grows with each attempt and with each decision.
    pub attempt: i32,
    /// The attempts that did not end in order.
    pub tries: i32,
    /// When it began.
    pub created_at: i64,
    /// When a step was last recorded.
    pub recorded_at: i64,
    /// When the lease ends, or the next try is due.
    pub due_at: Option<i64>,
    /// Since when it is unknown.
    pub parked_at: Option<i64>,
    /// The moment at which this was read.
    pub now: i64,
}

impl OperationSummary {
    pub(super) fn of(row: &OperationRow) -> Self {
        Self {
            id: OperationId::of(row.id),
            seen: Seen::of(row),
            operation: row.operation.clone(),
            scope: row.scope.clone(),
            state: if row.parked_at.is_some() {
                OperationState::Unknown
            } else {
                OperationState::Started
            },
            reason: row.reason.clone(),
            attempt: row.attempt,
            tries: row.tries,
            created_at: row.created_at,
            recorded_at: row.recorded_at,
            due_at: row.due_at,
            parked_at: row.parked_at,
            now: row.now,
        }
    }
}

/// One operation with its steps.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct OperationDetail {
    /// As in a list.
    #[serde(flatten)]
    pub summary: OperationSummary,
    /// What the handler calls its operation id.
    pub operation_id: Uuid,
    /// The version of the handler that began it.
    pub definition: i32,
    /// What the handler noted with `resource`.
    pub resources: Vec<(String, String)>,
    /// The steps, in the order in which they were taken.
    pub steps: Vec<StepView>,
    /// Why neither resources nor steps are shown, where they can't be read: no cipher is set, or not theirs.
    pub unreadable: Option<String>,
    /// What operators decided.
    pub audit: Vec<AuditEntry>,
}

impl OperationDetail {
    pub(super) fn of(
        row: &OperationRow,
        journal: Result<Journal, StoreError>,
        audit: Vec<AuditEntry>,
    ) -> Self {
        let (journal, unreadable) = match journal {
            Ok(journal) => (journal, None),
            Err(error) => (Journal::default(), Some(error.to_string())),
        };
        Self {
            summary: OperationSummary::of(row),
            operation_id: row.operation_id,
            definition: row.definition,
            steps: journal.steps.iter().map(StepView::of).collect(),
            resources: journal.resources,
            unreadable,
            audit,
        }
    }
}

/// A step that was taken.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct StepView {
    /// Its name.
    pub name: String,
    /// `atomic` or `external`.
    pub kind: &'static str,
    /// `begun` (it may have taken place), `done`, `refused`, `not_yet` (it did not take place, and will be called again), or
    /// `failed` (undone).
    pub state: &'static str,
    /// The key that its service was given: what to look for there.
    pub key: Option<Uuid>,
    /// When its first call was intended.
    pub first_at: Option<i64>,
    /// When its last call was intended.
    pub last_at: Option<i64>,
    /// Until when its last request may still arrive: before that, nobody can say that it did not happen.
    pub in_flight_until: Option<i64>,
    /// What its calls send, until it has ended.
    pub input: Option<Value>,
    /// Its result, or its refusal.
    pub value: Option<Value>,
    /// An operator said how it ended.
    pub decided: bool,
}

impl StepView {
    fn of(entry: &Entry) -> Self {
        let json = |raw: &serde_json::value::RawValue| {
            serde_json::from_str(raw.get()).unwrap_or_else(|_| Value::String(raw.get().to_owned()))
        };
        let call = entry.call.as_ref();
        Self {
            name: entry.name.clone(),
            kind: entry.kind.as_str(),
            state: entry.state.as_str(),
            key: call.map(|call| call.key),
            first_at: call.map(|call| call.first_at),
            last_at: call.map(|call| call.last_at),
            in_flight_until: call.map(|call| call.last_at.saturating_add(call.limit)),
            input: call.and_then(|call| call.input.as_deref()).map(json),
            value: entry.value.as_deref().map(json),
            decided: entry.decided,
        }
    }
}

/// A decision.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct AuditEntry {
    /// When.
    pub at: i64,
    /// Who.
    pub actor: String,
    /// `done`, `refused` or `resume`.
    pub action: String,
    /// Why.
    pub reason: String,
    /// The step and the value that was given for it.
    pub detail: Option<Value>,
}

impl AuditEntry {
    pub(crate) fn of(row: AuditRow) -> Self {
        Self {
            at: row.at,
            actor: row.actor,
            action: row.action,
            reason: row.reason,
            detail: row
                .detail
                .map(|text| serde_json::from_str(&text).unwrap_or(Value::String(text))),
        }
    }
}

/// What is not resolved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Unresolved {
    /// Begun and not ended.
    pub started: u64,
    /// Of those, the ones whose lease is over or whose next try is due: more than a few say that no recovery worker runs.
    pub due: u64,
    /// Nothing happens with these until an operator resolves them.
    pub unknown: u64,
    /// The age of the oldest, in milliseconds; 0 if there is none.
    pub oldest: u64,
}

impl Unresolved {
    pub(super) fn of(counted: &Counted) -> Self {
        Self {
            started: counted.started,
            due: counted.due,
            unknown: counted.unknown,
            oldest: u64::try_from(counted.oldest).unwrap_or(0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_read_as_it_is_written() {
        let id = OperationId::of(RecordId::from_slice(&[0xab; 32]).expect("32 bytes"));
        assert_eq!(id.to_string().parse(), Ok(id));
        let seen = Seen {
            id,
            attempt: 3,
            owner: 7,
        };
        assert_eq!(seen.to_string().parse(), Ok(seen));
        assert_eq!(id.to_string().parse::<Seen>(), Err(NotSeen));
        for wrong in [
            "",
            "ab",
            &"+a".repeat(32),
            &"zz".repeat(32),
            &"é".repeat(32),
        ] {
            assert_eq!(
                wrong.parse::<OperationId>(),
                Err(NotAnOperationId),
                "{wrong}"
            );
        }
    }
}
