//! Header fields as bytes.
//!
//! ```text
//! version: u8 = 1
//! count:   u32
//! count times
//!     flags: u8           bit 0: the value is sensitive (never indexed by HPACK and QPACK)
//!     name:  u16 length, lower-case bytes
//!     value: u32 length, bytes
//! ```
//!
//! Integers are big endian. An encoding of our own, because text formats lose values that are not
//! UTF-8, and maps lose repetitions.

use http::{HeaderMap, HeaderName, HeaderValue};

const VERSION: u8 = 1;
const SENSITIVE: u8 = 1;

/// Stored header fields that are not what this library writes.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CorruptHeaders {
    /// Written by a newer release, or not by this library.
    #[error("version {0} of the encoding is not known")]
    Version(u8),
    /// The bytes end in the middle of a field.
    #[error("the bytes end too early")]
    Truncated,
    /// More bytes than fields.
    #[error("there are bytes after the last field")]
    TrailingBytes,
    /// Not a field name in lower case.
    #[error("a field name is not valid")]
    Name,
    /// Not a field value.
    #[error("a field value is not valid")]
    Value,
    /// Flags that this release does not know.
    #[error("flags {0:#04x} are not known")]
    Flags(u8),
    /// More fields than a response can have.
    #[error("there are too many fields")]
    TooMany,
}

/// Writes `fields` in the order given.
pub(super) fn encode<'a>(
    fields: impl IntoIterator<Item = (&'a HeaderName, &'a HeaderValue)>,
) -> Vec<u8> {
    let mut out = vec![VERSION, 0, 0, 0, 0];
    let mut count = 0_u32;
    for (name, value) in fields {
        let (name, bytes) = (name.as_str().as_bytes(), value.as_bytes());
        // `http` limits names to 64 KiB; a value over 4 GiB could never have been built in a
        // handler whose answer is bounded, and is left out rather than cut.
        let (Ok(name_length), Ok(value_length)) =
            (u16::try_from(name.len()), u32::try_from(bytes.len()))
        else {
            continue;
        };
        count += 1;
        out.push(if value.is_sensitive() { SENSITIVE } else { 0 });
        out.extend_from_slice(&name_length.to_be_bytes());
        out.extend_from_slice(name);
        out.extend_from_slice(&value_length.to_be_bytes());
        out.extend_from_slice(bytes);
    }
    out[1..5].copy_from_slice(&count.to_be_bytes());
    out
}

/// Reads what [`encode`] wrote.
pub(super) fn decode(bytes: &[u8]) -> Result<HeaderMap, CorruptHeaders> {
    let mut reader = Reader(bytes);
    let [version] = reader.array()?;
    if version != VERSION {
        return Err(CorruptHeaders::Version(version));
    }
    // The count is not trusted with an allocation: the fields must be there.
    let count = u32::from_be_bytes(reader.array()?);
    let mut headers = HeaderMap::new();
    for _ in 0..count {
        let [flags] = reader.array()?;
        if flags & !SENSITIVE != 0 {
            return Err(CorruptHeaders::Flags(flags));
        }
        let length = usize::from(u16::from_be_bytes(reader.array()?));
        let name =
            HeaderName::from_lowercase(reader.take(length)?).map_err(|_| CorruptHeaders::Name)?;
        let length = u32::from_be_bytes(reader.array()?) as usize;
        let mut value =
            HeaderValue::from_bytes(reader.take(length)?).map_err(|_| CorruptHeaders::Value)?;
        value.set_sensitive(flags & SENSITIVE != 0);
        headers
            .try_append(name, value)
            .map_err(|_| CorruptHeaders::TooMany)?;
    }
    match reader.0 {
        [] => Ok(headers),
        _ => Err(CorruptHeaders::TrailingBytes),
    }
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, length: usize) -> Result<&'a [u8], CorruptHeaders> {
        let (taken, rest) = self
            .0
            .split_at_checked(length)
            .ok_or(CorruptHeaders::Truncated)?;
        self.0 = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], CorruptHeaders> {
        let (taken, rest) = self
            .0
            .split_first_chunk::<N>()
            .ok_or(CorruptHeaders::Truncated)?;
        self.0 = rest;
        Ok(*taken)
    }
}
