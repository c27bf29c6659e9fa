//! Secrets and signatures.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;

const PREFIX: &str = "whsec_";
/// In bytes, as the convention has it: 192 to 512 bits.
const LENGTHS: std::ops::RangeInclusive<usize> = 24..=64;

/// What sender and receiver of webhooks share: 24 to 64 bytes, written `whsec_` and their base64.
#[derive(Clone)]
pub struct Secret(Vec<u8>);

/// No secret of a webhook. The text isn't shown.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidSecret {
    /// Another prefix, or none.
    #[error("a webhook's secret begins with `whsec_`")]
    Prefix,
    /// The rest is no base64.
    #[error("a webhook's secret is base64 after `whsec_`")]
    Encoding,
    /// Too short to be safe, or too long.
    #[error("a webhook's secret is 24 to 64 bytes long, this one {0}")]
    Length(usize),
}

impl Secret {
    /// Reads `whsec_` and base64.
    ///
    /// # Errors
    ///
    /// When it's not written so, or too short or long.
    pub fn parse(text: &str) -> Result<Self, InvalidSecret> {
        let encoded = text.strip_prefix(PREFIX).ok_or(InvalidSecret::Prefix)?;
        let bytes = STANDARD
            .decode(encoded)
            .map_err(|_| InvalidSecret::Encoding)?;
        Self::from_bytes(bytes)
    }

    /// The bytes themselves.
    ///
    /// # Errors
    ///
    /// When there are too few, or too many.
    pub fn from_bytes(bytes: Vec<u8>) -> Result<Self, InvalidSecret> {
        if LENGTHS.contains(&bytes.len()) {
            Ok(Self(bytes))
        } else {
            Err(InvalidSecret::Length(bytes.len()))
        }
    }

    /// `v1,` and the base64 of HMAC-SHA256 over `id.timestamp.body`.
    pub(super) fn sign(&self, id: &str, timestamp: &str, body: &[u8]) -> String {
        let code = self.code(id, timestamp, body).finalize().into_bytes();
        format!("v1,{}", STANDARD.encode(code))
    }

    /// Compares in constant time.
    pub(super) fn signed(&self, id: &str, timestamp: &str, body: &[u8], signature: &[u8]) -> bool {
        self.code(id, timestamp, body)
            .verify_slice(signature)
            .is_ok()
    }

    fn code(&self, id: &str, timestamp: &str, body: &[u8]) -> Hmac<Sha256> {
        let mut code = Hmac::<Sha256>::new_from_slice(&self.0).expect("HMAC takes any key");
        for part in [id.as_bytes(), b".", timestamp.as_bytes(), b".", body] {
            code.update(part);
        }
        code
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn a_signature_is_that_of_the_conventions_reference_libraries() {
        let secret = Secret::parse("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").unwrap();
        let signature = secret.sign(
            "msg_p5jXN8AQM9LWM0D4loKWxJek",
            "1614265330",
            br#"{"test": 2432232314}"#,
        );
        assert_eq!(signature, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
    }

    #[test]
    fn a_secret_is_refused_that_is_written_otherwise_or_too_short_or_too_long() {
        let of_length = |bytes: usize| format!("whsec_{}", STANDARD.encode(vec![7; bytes]));
        for (text, expected) in [
            (of_length(24), None),
            (of_length(64), None),
            (of_length(23), Some(InvalidSecret::Length(23))),
            (of_length(65), Some(InvalidSecret::Length(65))),
            ("whsec_".to_owned(), Some(InvalidSecret::Length(0))),
            ("whsec_*".to_owned(), Some(InvalidSecret::Encoding)),
            (STANDARD.encode([7; 32]), Some(InvalidSecret::Prefix)),
        ] {
            assert_eq!(Secret::parse(&text).err(), expected, "{text}");
        }
    }

    #[test]
    fn a_secret_is_not_shown() {
        let secret = Secret::from_bytes(vec![b'k'; 32]).unwrap();
        assert_eq!(format!("{secret:?}"), "Secret(..)");
    }
}
