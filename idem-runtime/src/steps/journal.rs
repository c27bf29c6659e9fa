//! What is recorded of an operation's steps.

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;
use sha2::{Digest, Sha256};
use uuid::Uuid;

use super::outcome::StepData;
use crate::digest;

/// The steps in the order in which they were taken. JSON, in one column: a step is one statement that also is the fence.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Journal {
    pub(crate) steps: Vec<Entry>,
    /// References for operators and for `replay_with`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) resources: Vec<(String, String)>,
}

/// One step.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Entry {
    pub(crate) name: String,
    pub(crate) kind: Kind,
    pub(crate) state: StepState,
    /// The result of what is done, the refusal of what is refused.
    #[serde(
        default,
        deserialize_with = "present",
        skip_serializing_if = "Option::is_none"
    )]
    pub(crate) value: Option<Box<RawValue>>,
    /// Of an external step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) call: Option<Call>,
    /// An operator said how it ended, and may correct that as long as nothing followed it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) decided: bool,
}

/// What a step is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Kind {
    Atomic,
    External,
}

impl Kind {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Atomic => "atomic",
            Self::External => "external",
        }
    }
}

/// How a step ended, if it did.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum StepState {
    /// An external step that was begun: it may have happened.
    Begun,
    Done,
    /// The provider says that it did not happen.
    Refused,
    /// An external step that did not happen, and is called again later.
    NotYet,
    /// An atomic step that returned an error: its writes are undone.
    Failed,
}

impl StepState {
    /// Whether a later run of the handler finds its end.
    fn has_ended(self) -> bool {
        !matches!(self, Self::Begun | Self::NotYet)
    }

    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Begun => "begun",
            Self::Done => "done",
            Self::Refused => "refused",
            Self::NotYet => "not_yet",
            Self::Failed => "failed",
        }
    }
}

/// What is known of an external step's calls.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Call {
    pub(crate) key: Uuid,
    /// What every call sends; `None` once the step has ended.
    #[serde(
        default,
        deserialize_with = "present",
        skip_serializing_if = "Option::is_none"
    )]
    pub(crate) input: Option<Box<RawValue>>,
    /// Of the input, in hexadecimal.
    pub(crate) digest: String,
    /// How long after a call was intended it may still arrive, in milliseconds.
    pub(crate) limit: i64,
    /// When the first call was intended, and the last, by the database's clock.
    pub(crate) first_at: i64,
    pub(crate) last_at: i64,
    /// How often the provider said that it did not happen, and may later.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub(crate) refusals: u32,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "as serde calls it")]
fn is_zero(number: &u32) -> bool {
    *number == 0
}

/// A value that is there, even if it is `null`: the result of a step that returns nothing.
fn present<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Box<RawValue>>, D::Error> {
    Box::<RawValue>::deserialize(from).map(Some)
}

impl Journal {
    pub(crate) fn encode(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("strings, numbers and JSON always serialize")
    }

    pub(crate) fn decode(bytes: &[u8]) -> serde_json::Result<Self> {
        serde_json::from_slice(bytes)
    }

    /// How many steps of this name precede a position.
    pub(crate) fn ordinal(&self, name: &str, position: usize) -> u32 {
        let same = self.steps.iter().take(position);
        let count = same.filter(|entry| entry.name == name).count();
        u32::try_from(count).unwrap_or(u32::MAX)
    }

    /// The step of which an operator may say how it ended, if there is one: the last.
    pub(crate) fn open(&mut self) -> Option<&mut Entry> {
        self.steps
            .last_mut()
            .filter(|entry| !entry.state.has_ended() || entry.decided)
    }
}

impl Entry {
    pub(crate) fn atomic(name: &str, state: StepState, value: Option<Box<RawValue>>) -> Self {
        Self {
            name: name.to_owned(),
            kind: Kind::Atomic,
            state,
            value,
            call: None,
            decided: false,
        }
    }

    /// The step has ended: the input is of no use any more.
    pub(crate) fn end(&mut self, state: StepState, value: Box<RawValue>) {
        self.state = state;
        self.value = Some(value);
        if let Some(call) = &mut self.call {
            call.input = None;
        }
    }
}

/// A value as it is stored, and as it will be read: a later run of the handler sees what this one does.
pub(crate) type Stored<T> = (Box<RawValue>, T);

pub(crate) fn through_storage<T: StepData>(value: &T) -> serde_json::Result<Stored<T>> {
    let stored = serde_json::value::to_raw_value(value)?;
    let read = read(&stored)?;
    Ok((stored, read))
}

pub(crate) fn read<T: StepData>(stored: &RawValue) -> serde_json::Result<T> {
    serde_json::from_str(stored.get())
}

/// How a value is stored and read, for who does not know that it is data: each bound of an async function is told three times by
/// the compiler where it is not met.
#[derive(Debug)]
pub(crate) struct Format<T> {
    pub(crate) through_storage: fn(&T) -> serde_json::Result<Stored<T>>,
    pub(crate) read: fn(&RawValue) -> serde_json::Result<T>,
}

impl<T: StepData> Format<T> {
    pub(crate) const JSON: Self = Self {
        through_storage: through_storage::<T>,
        read: read::<T>,
    };
}

/// A digest of JSON that does not depend on the order of members: maps have none.
pub(crate) fn digest_of(input: &RawValue) -> serde_json::Result<String> {
    let mut hash = Sha256::new();
    absorb(&mut hash, &serde_json::from_str(input.get())?);
    Ok(digest::hex(&hash.finalize()))
}

fn absorb(hash: &mut Sha256, value: &Value) {
    let length = |hash: &mut Sha256, tag: u8, length: usize| {
        hash.update([tag]);
        hash.update((length as u64).to_be_bytes());
    };
    match value {
        Value::Object(members) => {
            length(hash, b'{', members.len());
            let mut members: Vec<_> = members.iter().collect();
            members.sort_unstable_by_key(|(name, _)| *name);
            for (name, value) in members {
                length(hash, b'"', name.len());
                hash.update(name);
                absorb(hash, value);
            }
        }
        Value::Array(items) => {
            length(hash, b'[', items.len());
            for item in items {
                absorb(hash, item);
            }
        }
        Value::String(text) => {
            length(hash, b'"', text.len());
            hash.update(text);
        }
        other => {
            let text = other.to_string();
            length(hash, b'0', text.len());
            hash.update(text);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(text: &str) -> Box<RawValue> {
        RawValue::from_string(text.to_owned()).expect("JSON")
    }

    #[test]
    fn a_digest_does_not_depend_on_the_order_of_members() {
        let digest = |text| digest_of(&raw(text)).expect("JSON");
        assert_eq!(digest(r#"{"a":1,"b":[2]}"#), digest(r#"{"b":[2],"a":1}"#));
        for other in [r#"{"a":1,"b":[3]}"#, r#"{"a":1}"#, r#"{"a":"1","b":[2]}"#] {
            assert_ne!(digest(r#"{"a":1,"b":[2]}"#), digest(other), "{other}");
        }
    }

    #[test]
    fn a_journal_is_read_as_it_was_written() {
        let mut journal = Journal::default();
        journal.steps.push(Entry::atomic(
            "reserve",
            StepState::Done,
            Some(raw("18446744073709551616")),
        ));
        let read = Journal::decode(&journal.encode()).expect("a journal");
        assert_eq!(
            read.steps[0].value.as_deref().map(RawValue::get),
            Some("18446744073709551616")
        );
        assert_eq!(
            (read.ordinal("reserve", 1), read.ordinal("reserve", 0)),
            (1, 0)
        );
    }

    #[test]
    fn a_step_that_returned_nothing_has_a_result() {
        let (nothing, ()) = through_storage(&()).expect("nothing is JSON");
        let mut journal = Journal::default();
        journal.steps.push(Entry {
            call: Some(Call {
                key: Uuid::nil(),
                input: Some(nothing.clone()),
                digest: String::new(),
                limit: 0,
                first_at: 0,
                last_at: 0,
                refusals: 0,
            }),
            ..Entry::atomic("reserve", StepState::Done, Some(nothing))
        });
        journal
            .steps
            .push(Entry::atomic("other", StepState::Failed, None));
        let read = Journal::decode(&journal.encode()).expect("what was written");
        let text = |value: &Option<Box<RawValue>>| value.as_deref().map(|raw| raw.get().to_owned());
        assert_eq!(text(&read.steps[0].value).as_deref(), Some("null"));
        let input = read.steps[0].call.as_ref().map(|call| text(&call.input));
        assert_eq!(input, Some(Some("null".to_owned())));
        assert_eq!(text(&read.steps[1].value), None);
    }

    #[test]
    fn a_value_that_is_not_read_as_it_was_written_is_found() {
        #[derive(Serialize, Deserialize)]
        struct Lossy {
            #[serde(skip_serializing)]
            id: u8,
        }
        let lossy = through_storage(&Lossy { id: 1 });
        assert!(lossy.is_err(), "{:?}", lossy.map(|(_, lossy)| lossy.id));
        assert_eq!(through_storage(&7_u8).expect("a number").1, 7);
    }
}
