//! Entity tags: RFC 9110, section 8.8.3.

use std::fmt;

use axum::response::{IntoResponseParts, ResponseParts};
use http::HeaderValue;
use http::header::ETAG;

use crate::capability::EffectFree;

/// The tag of one version of something ([RFC 9110, section 8.8.3](https://www.rfc-editor.org/rfc/rfc9110#section-8.8.3)).
/// In an answer, as a part of its tuple, it is the `ETag` field.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct EntityTag {
    weak: bool,
    /// Without the quotes.
    opaque: Vec<u8>,
}

/// A text that is no entity tag: it has a quote, a space or a control character in it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} can't be an entity tag: it has a quote, a space or a control character in it")]
pub struct InvalidEntityTag {
    text: String,
}

impl EffectFree for EntityTag {}

impl EntityTag {
    /// The strong tag of a numbered version: it changes whenever a byte of the answer does.
    #[must_use]
    pub fn strong(version: impl Into<i128>) -> Self {
        Self {
            weak: false,
            opaque: version.into().to_string().into_bytes(),
        }
    }

    /// The strong tag of a version that has a name, such as a digest. The quotes are added.
    ///
    /// # Errors
    ///
    /// [`InvalidEntityTag`], if `version` has a quote, a space or a control character in it.
    pub fn of(version: &str) -> Result<Self, InvalidEntityTag> {
        if version.bytes().all(is_etagc) {
            Ok(Self {
                weak: false,
                opaque: version.as_bytes().to_vec(),
            })
        } else {
            Err(InvalidEntityTag {
                text: version.to_owned(),
            })
        }
    }

    /// The strong comparison of RFC 9110, section 8.8.3.2: equal, and neither is weak.
    #[must_use]
    pub fn is_strongly_equal_to(&self, other: &Self) -> bool {
        !self.weak && !other.weak && self.opaque == other.opaque
    }

    /// The members of a field's value; empty ones don't count (RFC 9110, section 5.6.1).
    pub(super) fn list(mut rest: &[u8]) -> Option<Vec<Self>> {
        let mut tags = Vec::new();
        loop {
            rest = rest.trim_ascii_start();
            match rest {
                [] => return Some(tags),
                [b',', more @ ..] => rest = more,
                _ => {
                    let (tag, more) = Self::first(rest)?;
                    tags.push(tag);
                    rest = more.trim_ascii_start();
                    if !rest.is_empty() && rest[0] != b',' {
                        return None;
                    }
                }
            }
        }
    }

    /// A comma may be inside the quotes, so that a list can't be split before it is read.
    fn first(text: &[u8]) -> Option<(Self, &[u8])> {
        let (weak, quoted) = match text.strip_prefix(b"W/") {
            Some(quoted) => (true, quoted),
            None => (false, text),
        };
        let inside = quoted.strip_prefix(b"\"")?;
        let end = inside.iter().position(|&byte| byte == b'"')?;
        let opaque = &inside[..end];
        opaque.iter().all(|&byte| is_etagc(byte)).then(|| {
            let tag = Self {
                weak,
                opaque: opaque.to_vec(),
            };
            (tag, &inside[end + 1..])
        })
    }

    fn value(&self) -> HeaderValue {
        let prefix: &[u8] = if self.weak { b"W/\"" } else { b"\"" };
        let value = [prefix, &self.opaque, b"\""].concat();
        HeaderValue::from_bytes(&value).expect("a tag's characters are those of a field")
    }
}

/// `etagc`: visible, but no quote; or beyond ASCII.
fn is_etagc(byte: u8) -> bool {
    matches!(byte, 0x21 | 0x23..=0x7e | 0x80..=0xff)
}

/// As it stands in a field, with its quotes.
impl fmt::Display for EntityTag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let prefix = if self.weak { "W/" } else { "" };
        write!(f, "{prefix}\"{}\"", String::from_utf8_lossy(&self.opaque))
    }
}

impl IntoResponseParts for EntityTag {
    type Error = std::convert::Infallible;

    fn into_response_parts(self, mut parts: ResponseParts) -> Result<ResponseParts, Self::Error> {
        parts.headers_mut().insert(ETAG, self.value());
        Ok(parts)
    }
}
