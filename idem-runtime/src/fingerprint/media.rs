//! `Content-Type` (RFC 9110, section 8.3), read only as far as a fingerprint needs it.

use std::collections::BTreeSet;

use http::{HeaderMap, header};

/// A media type: its essence in lower case and its parameters as they were sent.
pub(super) struct MediaType<'a> {
    pub(super) essence: Vec<u8>,
    parameters: &'a [u8],
}

impl<'a> MediaType<'a> {
    /// The request's media type; `None` where there is no `Content-Type`, or more than one field line of it, of which no
    /// one can say which counts.
    pub(super) fn of(headers: &'a HeaderMap) -> Option<MediaType<'a>> {
        let mut lines = headers.get_all(header::CONTENT_TYPE).iter();
        match (lines.next(), lines.next()) {
            (Some(only), None) => Some(MediaType::parse(only.as_bytes())),
            _ => None,
        }
    }

    pub(super) fn parse(value: &'a [u8]) -> MediaType<'a> {
        let end = value
            .iter()
            .position(|byte| *byte == b';')
            .unwrap_or(value.len());
        let (essence, parameters) = value.split_at(end);
        MediaType {
            essence: essence.trim_ascii().to_ascii_lowercase(),
            parameters,
        }
    }

    /// `application/json` and every type with the structured suffix `+json` (RFC 6839).
    pub(super) fn is_json(&self) -> bool {
        self.essence == b"application/json" || self.essence.ends_with(b"+json")
    }

    /// Every `charset` but `utf-8`, in lower case; all of the parameters, if they are not well formed.
    pub(super) fn other_charsets(&self) -> BTreeSet<Vec<u8>> {
        match self.parameters() {
            Some(parameters) => parameters
                .iter()
                .filter(|parameter| {
                    parameter.name == b"charset" && !parameter.value.eq_ignore_ascii_case(b"utf-8")
                })
                .map(|parameter| parameter.value.to_ascii_lowercase())
                .collect(),
            None => BTreeSet::from([self.parameters.to_ascii_lowercase()]),
        }
    }

    /// The parameters in order, names in lower case; `None` if they are not well formed.
    pub(super) fn parameters(&self) -> Option<Vec<Parameter<'a>>> {
        parameters(self.parameters)
    }
}

/// One parameter; a quoted value without its quotes, its backslashes kept.
pub(super) struct Parameter<'a> {
    pub(super) name: Vec<u8>,
    pub(super) value: &'a [u8],
}

/// Reads `*( OWS ";" OWS [ token "=" ( token / quoted-string ) ] )`; `None` for anything else.
pub(super) fn parameters(mut rest: &[u8]) -> Option<Vec<Parameter<'_>>> {
    let mut found = Vec::new();
    loop {
        rest = rest.trim_ascii_start();
        let Some((&separator, after)) = rest.split_first() else {
            return Some(found);
        };
        if separator != b';' {
            return None;
        }
        rest = after.trim_ascii_start();
        if matches!(rest.first(), None | Some(b';')) {
            continue;
        }
        let name = token(rest)?;
        rest = rest[name.len()..].strip_prefix(b"=")?;
        let value = match rest.strip_prefix(b"\"") {
            Some(quoted) => {
                let value = quoted_string(quoted)?;
                rest = &quoted[value.len() + 1..];
                value
            }
            None => {
                let value = token(rest)?;
                rest = &rest[value.len()..];
                value
            }
        };
        found.push(Parameter {
            name: name.to_ascii_lowercase(),
            value,
        });
    }
}

/// The longest token (RFC 9110, section 5.6.2) that `bytes` begins with, if any.
pub(super) fn token(bytes: &[u8]) -> Option<&[u8]> {
    let length = bytes
        .iter()
        .take_while(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(byte))
        .count();
    (length > 0).then(|| &bytes[..length])
}

/// What stands before the closing quote.
fn quoted_string(bytes: &[u8]) -> Option<&[u8]> {
    let mut at = 0;
    loop {
        match bytes.get(at)? {
            b'"' => return Some(&bytes[..at]),
            b'\\' => at += 2,
            b'\r' | b'\n' => return None,
            _ => at += 1,
        }
    }
}
