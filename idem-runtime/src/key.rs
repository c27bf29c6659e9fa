//! The `Idempotency-Key` request header: its two spellings, and its limits.
//!
//! draft-ietf-httpapi-idempotency-key-header makes the field a Structured Field String
//! ([RFC 9651, section 3.3.3](https://www.rfc-editor.org/rfc/rfc9651#section-3.3.3)); nearly
//! every client sends the bare text instead. Both spell the same key:
//!
//! ```
//! use idem_runtime::key::IdempotencyKey;
//!
//! let quoted = IdempotencyKey::parse(br#""8e03978e-40d5";v=1"#, true)?;
//! let bare = IdempotencyKey::parse(b"8e03978e-40d5", true)?;
//! assert_eq!(quoted, bare);
//! # Ok::<(), idem_runtime::key::KeyError>(())
//! ```

use std::{borrow::Cow, fmt};

use http::{HeaderMap, HeaderName};
use sfv::{Parser, StringRef};
use uuid::{Uuid, Variant};

use crate::digest;

/// The request header that carries the key.
pub const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// The longest key, in bytes, after unquoting.
pub const MAX_KEY_BYTES: usize = 255;

/// A client's idempotency key: 1 to 255 printable ASCII characters, compared byte by byte.
///
/// `Debug` prints a digest: a key is the client's secret, and whoever reads it in a log could ask
/// for the stored answer.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct IdempotencyKey(String);

impl IdempotencyKey {
    /// The key of a request, or `None` when it has no `Idempotency-Key` field line.
    ///
    /// `allow_bare` accepts the form without quotation marks as well.
    ///
    /// # Errors
    ///
    /// [`KeyError`], when there is a field line that is not one valid key. Field lines are counted,
    /// not combined (RFC 9110, section 5.3, would join `"a` and `b"` to one string).
    pub fn from_headers(
        headers: &HeaderMap,
        allow_bare: bool,
    ) -> Result<Option<IdempotencyKey>, KeyError> {
        let mut lines = headers.get_all(IDEMPOTENCY_KEY).iter();
        let Some(line) = lines.next() else {
            return Ok(None);
        };
        if lines.next().is_some() {
            return Err(KeyError::SeveralFieldLines);
        }
        Self::parse(line.as_bytes(), allow_bare).map(Some)
    }

    /// Reads one field value, optional white space around it allowed.
    ///
    /// # Errors
    ///
    /// [`KeyError`], when it is neither a Structured Field String (its parameters are checked, and
    /// otherwise ignored) nor, with `allow_bare`, the bare form.
    pub fn parse(field_value: &[u8], allow_bare: bool) -> Result<IdempotencyKey, KeyError> {
        let value = trim_optional_white_space(field_value);
        if value.is_empty() {
            return Err(KeyError::Empty);
        }
        if !value.iter().all(|byte| matches!(byte, b' '..=b'~')) {
            return Err(KeyError::NotPrintableAscii);
        }
        let key = match value[0] {
            b'"' => quoted(value)?,
            _ if allow_bare => bare(value)?,
            _ => return Err(KeyError::BareForm),
        };
        match key.len() {
            0 => Err(KeyError::Empty),
            1..=MAX_KEY_BYTES => Ok(IdempotencyKey(key)),
            _ => Err(KeyError::TooLong),
        }
    }

    /// The key as the client meant it: unquoted, otherwise untouched.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The 48 bits of time, in milliseconds since 1970, that a UUIDv7
    /// ([RFC 9562, section 5.7](https://www.rfc-editor.org/rfc/rfc9562#section-5.7)) or a [ULID](https://github.com/ulid/spec)
    /// begins with, big endian; `None` for any other key. It is what the client says: a text of a ULID's form that is none has a
    /// time, too. These bits are readable in the id of the key's record.
    #[must_use]
    pub fn time(&self) -> Option<[u8; 6]> {
        time_of_uuid(&self.0).or_else(|| time_of_ulid(&self.0))
    }

    /// Sixteen hexadecimal digits that stand for the key in logs and traces.
    ///
    /// Part of a SHA-256 digest under a tag of its own. It hides keys that can't be guessed; it
    /// does not hide a key such as `1`.
    #[must_use]
    pub fn digest(&self) -> String {
        let digest = digest::tagged("idem/key-digest/1", [self.0.as_bytes()]);
        digest::hex(&digest[..8])
    }
}

impl fmt::Debug for IdempotencyKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "IdempotencyKey({})", self.digest())
    }
}

/// Why an `Idempotency-Key` field is refused. The messages are for the client; none repeats the key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KeyError {
    /// No characters, or only white space outside the quotation marks.
    #[error("The Idempotency-Key is empty. Send 1 to 255 characters, such as a new UUID.")]
    Empty,
    /// More than [`MAX_KEY_BYTES`].
    #[error("The Idempotency-Key is too long. Send at most 255 characters, such as a UUID.")]
    TooLong,
    /// More than one `Idempotency-Key` line.
    #[error("The request has several Idempotency-Key field lines. Send exactly one.")]
    SeveralFieldLines,
    /// A control character or a byte beyond ASCII.
    #[error(
        "The Idempotency-Key has a character that is not printable ASCII. \
         Send characters from space to `~` only."
    )]
    NotPrintableAscii,
    /// Neither of the two forms; says what is wrong with the one that was tried.
    #[error("The Idempotency-Key can't be read: {0}.")]
    Malformed(&'static str),
    /// The bare form, where only the quoted one is accepted.
    #[error(
        "The Idempotency-Key is not in quotation marks. Send a Structured Field String (RFC 9651), \
         for example: Idempotency-Key: \"8e03978e-40d5-43e8-bc93-6894a57f9324\"."
    )]
    BareForm,
}

/// OWS of RFC 9110, section 5.6.3. `trim_ascii` would take line breaks too.
fn trim_optional_white_space(mut value: &[u8]) -> &[u8] {
    while let [b' ' | b'\t', rest @ ..] | [rest @ .., b' ' | b'\t'] = value {
        value = rest;
    }
    value
}

fn quoted(value: &[u8]) -> Result<String, KeyError> {
    Parser::new(value)
        .parse_item::<Cow<'_, StringRef>>()
        .map(|key| key.as_str().to_owned())
        // The parser's own message names a byte offset, which helps no client.
        .map_err(|_| {
            KeyError::Malformed(
                "after a quotation mark it must be a Structured Field String (RFC 9651): closed by \
                 a quotation mark, `\\` only before `\"` or `\\`, and nothing after it but parameters",
            )
        })
}

fn bare(value: &[u8]) -> Result<String, KeyError> {
    if value.iter().any(|byte| b" \",;\\".contains(byte)) {
        return Err(KeyError::Malformed(
            "without quotation marks around it, it must not contain spaces or any of `\"`, `,`, \
             `;` and `\\`",
        ));
    }
    Ok(value.iter().copied().map(char::from).collect())
}

fn time_of_uuid(key: &str) -> Option<[u8; 6]> {
    let uuid = Uuid::try_parse(key).ok()?;
    let [a, b, c, d, e, f, ..] = *uuid.as_bytes();
    let is_version_7 = uuid.get_version_num() == 7 && uuid.get_variant() == Variant::RFC4122;
    is_version_7.then_some([a, b, c, d, e, f])
}

fn time_of_ulid(key: &str) -> Option<[u8; 6]> {
    let digits: &[u8; 26] = key.as_bytes().try_into().ok()?;
    let values = digits.map(crockford);
    if values.contains(&None) {
        return None;
    }
    // Ten digits of five bits: the two that are too many must be zero.
    let time = values[..10]
        .iter()
        .flatten()
        .fold(0_u64, |time, digit| time << 5 | u64::from(*digit));
    let [0, 0, time @ ..] = time.to_be_bytes() else {
        return None;
    };
    Some(time)
}

/// The value of a digit of Crockford's Base32, in either case.
fn crockford(digit: u8) -> Option<u8> {
    const DIGITS: &[u8; 32] = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ";
    let digit = digit.to_ascii_uppercase();
    let value = DIGITS.iter().position(|known| *known == digit)?;
    u8::try_from(value).ok()
}

#[cfg(test)]
mod tests;
