//! The key that a provider is given.

use std::fmt;

use uuid::Uuid;

use crate::digest;

/// The idempotency key of one external step: a UUID (version 8) that is a function of scope, client key, operation, the
/// step's name and its ordinal, and of nothing else. Every attempt sends the same, after every crash and on every machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DownstreamKey(Uuid);

impl DownstreamKey {
    /// `operation_id` stands for scope, client key and operation. `ordinal` counts the steps of one name, from 0.
    pub(crate) fn derive(operation_id: Uuid, step: &str, ordinal: u32) -> Self {
        let digest = digest::tagged(
            "idem/downstream-key/1",
            [
                operation_id.as_bytes().as_slice(),
                step.as_bytes(),
                ordinal.to_be_bytes().as_slice(),
            ],
        );
        let bytes = std::array::from_fn(|index| digest[index]);
        Self(uuid::Builder::from_custom_bytes(bytes).into_uuid())
    }

    pub(crate) fn stored(key: Uuid) -> Self {
        Self(key)
    }

    /// As a UUID.
    #[must_use]
    pub fn as_uuid(&self) -> Uuid {
        self.0
    }
}

/// Lower-case and hyphenated, as it goes into an `Idempotency-Key` field.
impl fmt::Display for DownstreamKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0.as_hyphenated(), f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_depends_on_operation_step_and_ordinal_alone() {
        let operation = Uuid::from_u128(7);
        let key = DownstreamKey::derive(operation, "charge", 0);
        assert_eq!(key, DownstreamKey::derive(operation, "charge", 0));
        assert_ne!(key, DownstreamKey::derive(operation, "charge", 1));
        assert_ne!(key, DownstreamKey::derive(operation, "refund", 0));
        assert_ne!(key, DownstreamKey::derive(Uuid::from_u128(8), "charge", 0));
    }

    /// A new version of the library must not charge again under another key.
    #[test]
    fn it_never_changes() {
        let key = DownstreamKey::derive(Uuid::from_u128(7), "charge", 0);
        assert_eq!(key.as_uuid().get_version_num(), 8);
        assert_eq!(key.to_string(), "25d33556-774b-8cc6-94a0-0268eea1118d");
    }
}
