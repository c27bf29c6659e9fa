//! A [`ScopeKey`] from its text, as records and lists have it.

use std::str::FromStr;

use uuid::Uuid;

use super::{Scope, ScopeBuilder, ScopeKey};

/// Not the canonical text of an owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "a scope is written as it is stored: `s5:alice` is the text `alice` of 5 bytes, `i42` the number 42, `u` and a UUID \
     in small letters, `(s5:alicei42)` both of the first"
)]
pub struct NotAScopeKey;

impl FromStr for ScopeKey {
    type Err = NotAScopeKey;

    /// Reads what [`ScopeKey::as_str`] is: exactly that, so that no text names an owner that no value has.
    fn from_str(text: &str) -> Result<Self, NotAScopeKey> {
        match part(text) {
            Some("") => Ok(Self(text.to_owned())),
            _ => Err(NotAScopeKey),
        }
    }
}

/// The same owner again.
impl Scope for ScopeKey {
    fn write_scope(&self, out: &mut ScopeBuilder) {
        out.parts += 1;
        out.text.push_str(&self.0);
    }
}

/// The parts of a tuple; the whole text where it is none.
pub(super) fn parts(text: &str) -> Vec<ScopeKey> {
    let mut parts = Vec::new();
    let inner = text
        .strip_prefix('(')
        .and_then(|text| text.strip_suffix(')'));
    let mut left = inner.unwrap_or(text);
    while let Some(after) = part(left) {
        let (this, after) = left.split_at(left.len() - after.len());
        parts.push(ScopeKey(this.to_owned()));
        left = after;
    }
    parts
}

/// Reads one part, and returns what follows it.
fn part(text: &str) -> Option<&str> {
    let (tag, rest) = (text.chars().next()?, text.get(1..)?);
    match tag {
        's' => {
            let (length, rest) = rest.split_once(':')?;
            let bytes: usize = length.parse().ok()?;
            (bytes.to_string() == length).then_some(())?;
            rest.is_char_boundary(bytes).then(|| &rest[bytes..])
        }
        'i' => {
            let is_digit = |c: char| c.is_ascii_digit();
            let digits = rest.strip_prefix('-').unwrap_or(rest);
            let end = digits.find(|c| !is_digit(c)).unwrap_or(digits.len());
            let (number, rest) = rest.split_at(rest.len() - digits.len() + end);
            let signed = number.parse::<i128>().map(|number| number.to_string());
            let unsigned = number.parse::<u128>().map(|number| number.to_string());
            (signed.as_deref() == Ok(number) || unsigned.as_deref() == Ok(number)).then_some(rest)
        }
        'u' => {
            let (number, rest) = rest.split_at_checked(36)?;
            let uuid = Uuid::parse_str(number).ok()?;
            (uuid.hyphenated().to_string() == number).then_some(rest)
        }
        '(' => {
            let mut rest = rest;
            while !rest.starts_with(')') {
                rest = part(rest)?;
            }
            Some(&rest[1..])
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_owner_is_read_as_it_is_written() {
        let uuid = Uuid::from_u128(0x8e03_978e_40d5_43e8_bc93_6894_a57f_9324);
        let owners: [&dyn Scope; 8] = [
            &"alice",
            &"",
            &"ü):(",
            &-42,
            &u128::MAX,
            &uuid,
            &("a:b", ("c", 7), uuid),
            &("s1:a",),
        ];
        for owner in owners {
            let mut builder = ScopeBuilder::default();
            builder.tuple(&[owner]);
            let written = ScopeKey(builder.text);
            assert_eq!(written.as_str().parse(), Ok(written.clone()));
            assert_eq!(ScopeKey::of(&written), written, "it is its own owner");
        }
    }

    #[test]
    fn an_owner_has_the_parts_that_it_is_made_of() {
        let owner = ScopeKey::of(&("a(b:c", (7, "d"), Uuid::nil()));
        let parts = [
            ScopeKey::of("a(b:c"),
            ScopeKey::of(&(7, "d")),
            ScopeKey::of(&Uuid::nil()),
        ];
        assert_eq!(owner.parts(), parts);
        for alone in [ScopeKey::of("(s1:a)"), ScopeKey::of(&-7), ScopeKey::of("")] {
            assert_eq!(alone.parts(), std::slice::from_ref(&alone));
        }
        assert_eq!(ScopeKey::of(&("a",)).parts(), [ScopeKey::of("a")]);
    }

    #[test]
    fn what_no_owner_is_written_as_is_refused() {
        for wrong in [
            "",
            "alice",
            "s6:alice",
            "s4:alice",
            "s05:alice",
            "s+5:alice",
            "s1:ü",
            "i",
            "i-",
            "i-0",
            "i007",
            "i+7",
            "i42 ",
            "u123",
            "(s1:a",
            "s1:a)",
            "(s1:a))",
            "é",
        ] {
            assert_eq!(wrong.parse::<ScopeKey>(), Err(NotAScopeKey), "{wrong}");
        }
        let capitals = "u8E03978E-40D5-43E8-BC93-6894A57F9324";
        assert_eq!(capitals.parse::<ScopeKey>(), Err(NotAScopeKey));
    }
}
