//! Which message, for which consumer.

use uuid::Uuid;

use super::errors::IdentityError;
use crate::digest;
use crate::scope::RecordId;

/// The longest name of a consumer or a source, in bytes.
const LONGEST: usize = 255;

/// A message that can be told from others.
#[derive(Clone, Debug)]
pub(crate) struct Identity {
    pub(crate) consumer: String,
    pub(crate) source: String,
    pub(crate) record: RecordId,
    /// The same for every attempt.
    pub(crate) operation_id: Uuid,
}

impl Identity {
    pub(crate) fn new(
        consumer: &str,
        source: &str,
        id: Option<&[u8]>,
    ) -> Result<Self, IdentityError> {
        let named = |name: &str| (1..=LONGEST).contains(&name.len());
        if !named(consumer) {
            return Err(IdentityError::Consumer);
        }
        if !named(source) {
            return Err(IdentityError::Source);
        }
        let id = id.ok_or(IdentityError::MissingId)?;
        if id.trim_ascii().is_empty() {
            return Err(IdentityError::EmptyId);
        }
        let parts = [consumer.as_bytes(), source.as_bytes(), id];
        let digest = digest::tagged("idem/message-operation-id/1", parts);
        let bytes = std::array::from_fn(|index| digest[index]);
        Ok(Self {
            consumer: consumer.to_owned(),
            source: source.to_owned(),
            record: RecordId::of_delivered(consumer, source, id),
            operation_id: uuid::Builder::from_custom_bytes(bytes).into_uuid(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_that_is_missing_or_empty_is_refused() {
        let identity = |id: Option<&[u8]>| Identity::new("ledger", "orders", id).map(drop);
        assert_eq!(identity(None), Err(IdentityError::MissingId));
        assert_eq!(identity(Some(b"")), Err(IdentityError::EmptyId));
        assert_eq!(identity(Some(b" \t")), Err(IdentityError::EmptyId));
        assert_eq!(identity(Some(b"0")), Ok(()));
        let long = "n".repeat(256);
        let unnamed =
            |consumer: &str, source: &str| Identity::new(consumer, source, Some(b"1")).map(drop);
        assert_eq!(unnamed("", "orders"), Err(IdentityError::Consumer));
        assert_eq!(unnamed("ledger", &long), Err(IdentityError::Source));
    }

    #[test]
    fn no_two_messages_are_the_same() {
        let of = |consumer, source, id: &str| {
            let identity = Identity::new(consumer, source, Some(id.as_bytes()));
            let identity = identity.expect("a message with an id");
            (*identity.record.as_bytes(), identity.operation_id)
        };
        let all = [
            of("ab", "c", "d"),
            of("a", "bc", "d"),
            of("a", "b", "cd"),
            of("ab", "c", "d "),
        ];
        for (at, one) in all.iter().enumerate() {
            for other in &all[at + 1..] {
                assert_ne!(one.0, other.0);
                assert_ne!(one.1, other.1);
            }
        }
    }
}
