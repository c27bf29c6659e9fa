//! Who owns a key. Two callers who send the same key must never meet.
//!
//! A [`Scope`] value is written to a [`ScopeKey`], a text in which every part carries its kind and
//! its length, so that no two different owners share one: `("a:b", "c")` is `(s3:a:bs1:c)`, and
//! `("a", "b:c")` is `(s1:as3:b:c)`.

use std::{borrow::Cow, fmt, fmt::Write as _, num::NonZero, sync::Arc};

use uuid::Uuid;

use crate::{digest, key::IdempotencyKey};

mod stored;

pub use stored::NotAScopeKey;

/// A value that says who owns an idempotency key: an account, a tenant and a user, an API client.
///
/// Name the account, not the credential: with a rotated token, a client must find its own keys.
///
/// Implemented for strings, integers, `Uuid` and tuples of them; derive it for a type of your own,
/// or write it by hand:
///
/// ```
/// use idem_runtime::scope::{Scope, ScopeBuilder, ScopeKey};
///
/// enum Caller {
///     User(u64),
///     Partner { name: String },
/// }
///
/// impl Scope for Caller {
///     fn write_scope(&self, out: &mut ScopeBuilder) {
///         match self {
///             Caller::User(id) => out.tuple(&[&"user", id]),
///             Caller::Partner { name } => out.tuple(&[&"partner", name]),
///         }
///     }
/// }
///
/// assert_eq!(ScopeKey::of(&Caller::User(7)).as_str(), "(s4:useri7)");
/// ```
///
/// `Option` is no scope on purpose: all callers who are `None` would share their keys.
#[diagnostic::on_unimplemented(
    message = "`{Self}` can't own idempotency keys",
    label = "not a scope",
    note = "a scope says whose key it is: a string, an integer, a `Uuid`, a tuple of these, or a type with `#[derive(Scope)]`",
    note = "name a field of the caller that never changes, such as `scope = \"account.id\"`; an `Option` is no scope, because all callers without one would share their keys"
)]
pub trait Scope {
    /// Writes the owner. Different owners must write different parts.
    fn write_scope(&self, out: &mut ScopeBuilder);
}

/// Collects the parts that a [`Scope`] consists of.
#[derive(Default)]
pub struct ScopeBuilder {
    text: String,
    parts: usize,
}

impl ScopeBuilder {
    /// A text.
    pub fn string(&mut self, value: &str) {
        self.part(format_args!("s{}:", value.len()));
        self.text.push_str(value);
    }

    /// An integer. Its width does not count: `7_u8` and `7_i64` are the same owner.
    pub fn signed(&mut self, value: i128) {
        self.part(format_args!("i{value}"));
    }

    /// An integer that may not fit [`ScopeBuilder::signed`]; written in the same way.
    pub fn unsigned(&mut self, value: u128) {
        self.part(format_args!("i{value}"));
    }

    /// A UUID.
    pub fn uuid(&mut self, value: Uuid) {
        self.part(format_args!("u{}", value.hyphenated()));
    }

    /// Several values, of which each is told from its neighbours.
    pub fn tuple(&mut self, values: &[&dyn Scope]) {
        self.parts += 1;
        self.text.push('(');
        for value in values {
            self.text.push_str(&ScopeBuilder::text_of(*value));
        }
        self.text.push(')');
    }

    fn part(&mut self, part: fmt::Arguments<'_>) {
        self.parts += 1;
        self.text
            .write_fmt(part)
            .expect("writing to a string doesn't fail");
    }

    /// What `value` writes, as exactly one part, so that an implementation that writes several (or
    /// none) can't be taken for its neighbours in a tuple.
    fn text_of<T: Scope + ?Sized>(value: &T) -> String {
        let mut builder = ScopeBuilder::default();
        value.write_scope(&mut builder);
        match builder.parts {
            1 => builder.text,
            _ => format!("({})", builder.text),
        }
    }
}

/// The canonical text of an owner. Equal exactly when the owners are.
///
/// `Debug` hides it: an account's name has no place in logs.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct ScopeKey(String);

impl ScopeKey {
    /// How long the text may be, in bytes.
    pub(crate) const MAX: usize = 1024;

    /// Whether every database can store it: PostgreSQL's text holds no NUL, which a path may (`%00`).
    pub(crate) fn is_storable(&self) -> bool {
        self.0.len() <= Self::MAX && !self.0.contains('\0')
    }

    /// Writes `owner` down.
    #[must_use]
    pub fn of<T: Scope + ?Sized>(owner: &T) -> ScopeKey {
        ScopeKey(ScopeBuilder::text_of(owner))
    }

    /// The parts of a tuple, each an owner of its own: of `(tenant, user)` first the tenant. An owner that is no tuple is its
    /// only part.
    #[must_use]
    pub fn parts(&self) -> Vec<ScopeKey> {
        stored::parts(&self.0)
    }

    /// The canonical text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for ScopeKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ScopeKey(..)")
    }
}

/// The unique name of a record: SHA-256 over the length-prefixed owner and key, led by the time of a key that begins with one.
///
/// Thirty-two bytes whatever the key's length, so that no index page overflows and no collation
/// folds two keys into one.
///
/// The first six bytes of the name of a UUIDv7 or a ULID ([`IdempotencyKey::time`]) are the key's own, and 26 bytes of digest
/// follow. Keys of one hour are then neighbours in the primary key's index, of which a random key meets another page each time:
/// with many records that is most of what a request writes to the database's log. It is for order only: nothing reads the time,
/// and a client that sends one of its own choice puts its records elsewhere and no more.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RecordId([u8; 32]);

impl RecordId {
    /// The record of `key`, owned by `scope`; with an `operation`, the key counts for that
    /// operation only.
    #[must_use]
    pub fn new(scope: &ScopeKey, operation: Option<&str>, key: &IdempotencyKey) -> RecordId {
        let leading = key.time();
        let (scope, key) = (scope.0.as_bytes(), key.as_str().as_bytes());
        let mut id = match operation {
            None => digest::tagged("idem/record/1", [scope, key]),
            Some(operation) => digest::tagged(
                "idem/record-of-operation/1",
                [scope, operation.as_bytes(), key],
            ),
        };
        if let Some(time) = leading {
            id[..time.len()].copy_from_slice(&time);
        }
        RecordId(id)
    }

    /// What the audit knows a message of the outbox by.
    pub(crate) fn of_staged(id: &uuid::Uuid) -> RecordId {
        RecordId(digest::tagged("idem/outbox/1", [id.as_bytes().as_slice()]))
    }

    /// The row of a message that a consumer processes.
    pub(crate) fn of_delivered(consumer: &str, source: &str, id: &[u8]) -> RecordId {
        let parts = [consumer.as_bytes(), source.as_bytes(), id];
        RecordId(digest::tagged("idem/inbox/1", parts))
    }

    /// The row that counts how often a message's consumer was entered and did not come back.
    pub(crate) fn of_entries(&self) -> RecordId {
        RecordId(digest::tagged("idem/inbox-entries/1", [&self.0[..]]))
    }

    /// A record's name as it was read from a database; `None` unless it is 32 bytes long.
    pub(crate) fn from_slice(bytes: &[u8]) -> Option<RecordId> {
        bytes.try_into().ok().map(RecordId)
    }

    /// The primary key's bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// Four bytes of digest, big endian: the second integer of a two-integer advisory lock. Two
    /// records may share it, and then merely wait for each other.
    #[must_use]
    pub fn lock_word(&self) -> i32 {
        i32::from_be_bytes(self.word(16))
    }

    /// Which of so many shards holds it.
    pub(crate) fn shard(&self, of: usize) -> usize {
        usize::from(self.0[20]) % of
    }

    /// Eight bytes of digest, big endian, that share none with [`RecordId::lock_word`].
    #[must_use]
    pub fn filter_word(&self) -> u64 {
        u64::from_be_bytes(self.word(8))
    }

    fn word<const N: usize>(&self, start: usize) -> [u8; N] {
        std::array::from_fn(|index| self.0[start + index])
    }
}

impl fmt::Debug for RecordId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RecordId({})", digest::hex(&self.0))
    }
}

/// The same UUID for every attempt of (scope, operation, key), for a `UNIQUE` column of a business
/// table: it still prevents the duplicate when the record is long gone.
///
/// Version 8 ([RFC 9562, section 5.8](https://www.rfc-editor.org/rfc/rfc9562#section-5.8)): the
/// first half of a tagged SHA-256 digest, less the version and variant bits.
#[must_use]
pub fn operation_id(scope: &ScopeKey, operation: &str, key: &IdempotencyKey) -> Uuid {
    let digest = digest::tagged(
        "idem/operation-id/1",
        [
            scope.0.as_bytes(),
            operation.as_bytes(),
            key.as_str().as_bytes(),
        ],
    );
    uuid::Builder::from_custom_bytes(std::array::from_fn(|index| digest[index])).into_uuid()
}

impl Scope for str {
    fn write_scope(&self, out: &mut ScopeBuilder) {
        out.string(self);
    }
}

impl Scope for String {
    fn write_scope(&self, out: &mut ScopeBuilder) {
        out.string(self);
    }
}

impl Scope for Cow<'_, str> {
    fn write_scope(&self, out: &mut ScopeBuilder) {
        out.string(self);
    }
}

impl Scope for Uuid {
    fn write_scope(&self, out: &mut ScopeBuilder) {
        out.uuid(*self);
    }
}

macro_rules! integer_scopes {
    ($method:ident, $wide:ty: $($integer:ty)+) => {$(
        impl Scope for $integer {
            fn write_scope(&self, out: &mut ScopeBuilder) {
                // `usize` has no `From`, and `i128` holds every other width.
                out.$method(*self as $wide);
            }
        }

        impl Scope for NonZero<$integer> {
            fn write_scope(&self, out: &mut ScopeBuilder) {
                self.get().write_scope(out);
            }
        }
    )+};
}

integer_scopes!(signed, i128: i8 i16 i32 i64 i128 isize);
integer_scopes!(unsigned, u128: u8 u16 u32 u64 u128 usize);

macro_rules! pointer_scopes {
    ($($pointer:ty)+) => {$(
        impl<T: Scope + ?Sized> Scope for $pointer {
            fn write_scope(&self, out: &mut ScopeBuilder) {
                (**self).write_scope(out);
            }
        }
    )+};
}

pointer_scopes!(&T Box<T> Arc<T>);

macro_rules! tuple_scopes {
    ($($member:ident)+) => {
        impl<$($member: Scope),+> Scope for ($($member,)+) {
            fn write_scope(&self, out: &mut ScopeBuilder) {
                #[allow(non_snake_case, reason = "a member is named by its type parameter")]
                let ($($member,)+) = self;
                out.tuple(&[$($member),+]);
            }
        }
    };
}

tuple_scopes!(A);
tuple_scopes!(A B);
tuple_scopes!(A B C);
tuple_scopes!(A B C D);
tuple_scopes!(A B C D E);
tuple_scopes!(A B C D E F);

#[cfg(test)]
mod tests;
