//! The receiver's side.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::HeaderMap;

use super::secret::Secret;
use super::{ID, SIGNATURE, TIMESTAMP};

/// Checks webhooks that are signed as [Standard Webhooks](https://www.standardwebhooks.com) says.
///
/// A webhook may come again, with the same id: what has been done for an id is for the receiver to remember.
///
/// # Examples
///
/// ```
/// use idem_runtime::outbox::webhook::{Secret, Verifier};
///
/// # fn receive(headers: &http::HeaderMap, body: &[u8]) -> Result<(), Box<dyn std::error::Error>> {
/// let verifier = Verifier::new(Secret::parse("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")?);
/// let id = verifier.verify(headers, body)?;
/// # let _ = id;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Verifier {
    secrets: Vec<Secret>,
    tolerance: Duration,
}

/// Why a webhook is not to be believed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidWebhook {
    /// No such field, or one that is no text.
    #[error("no readable field {0}")]
    Field(&'static str),
    /// No number of seconds.
    #[error("webhook-timestamp is no number of seconds")]
    Timestamp,
    /// Sent too long ago, as a recorded one that is played again, or in the future.
    #[error("webhook-timestamp is too far from now")]
    Time,
    /// No signature is one by a known secret.
    #[error("no signature of a known secret")]
    Signature,
}

impl Verifier {
    /// With one secret, and a tolerance of 5 minutes.
    #[must_use]
    pub fn new(secret: Secret) -> Self {
        Self {
            secrets: vec![secret],
            tolerance: Duration::from_secs(5 * 60),
        }
    }

    /// Takes another secret as well, as while one replaces the other.
    #[must_use]
    pub fn secret(mut self, secret: Secret) -> Self {
        self.secrets.push(secret);
        self
    }

    /// How far a webhook's time may be from this machine's.
    #[must_use]
    pub fn tolerance(mut self, tolerance: Duration) -> Self {
        self.tolerance = tolerance;
        self
    }

    /// The webhook's id, when it is genuine. `body` is the request's, byte for byte.
    ///
    /// # Errors
    ///
    /// When it is not known to be.
    pub fn verify<'h>(
        &self,
        headers: &'h HeaderMap,
        body: &[u8],
    ) -> Result<&'h str, InvalidWebhook> {
        self.verify_at(headers, body, SystemTime::now())
    }

    fn verify_at<'h>(
        &self,
        headers: &'h HeaderMap,
        body: &[u8],
        now: SystemTime,
    ) -> Result<&'h str, InvalidWebhook> {
        let id = field(headers, ID)?;
        let timestamp = field(headers, TIMESTAMP)?;
        let signatures = field(headers, SIGNATURE)?;
        let seconds = timestamp.parse().map_err(|_| InvalidWebhook::Timestamp)?;
        let sent_at = UNIX_EPOCH
            .checked_add(Duration::from_secs(seconds))
            .ok_or(InvalidWebhook::Timestamp)?;
        let apart = now
            .duration_since(sent_at)
            .unwrap_or_else(|future| future.duration());
        if apart > self.tolerance {
            return Err(InvalidWebhook::Time);
        }
        let genuine = signatures
            .split(' ')
            .filter_map(|signature| signature.strip_prefix("v1,"))
            .filter_map(|encoded| STANDARD.decode(encoded).ok())
            .any(|signature| {
                let by = |secret: &Secret| secret.signed(id, timestamp, body, &signature);
                self.secrets.iter().any(by)
            });
        if genuine {
            Ok(id)
        } else {
            Err(InvalidWebhook::Signature)
        }
    }
}

/// The field's value, when there is exactly one.
fn field<'h>(headers: &'h HeaderMap, name: &'static str) -> Result<&'h str, InvalidWebhook> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (Some(value), None) => value.to_str().map_err(|_| InvalidWebhook::Field(name)),
        _ => Err(InvalidWebhook::Field(name)),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use http::HeaderValue;

    use super::*;

    const BODY: &[u8] = br#"{"test": 2432232314}"#;
    const SIGNED_AT: u64 = 1_614_265_330;

    /// The vector of the convention's reference libraries.
    fn genuine() -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in [
            (ID, "msg_p5jXN8AQM9LWM0D4loKWxJek"),
            (TIMESTAMP, "1614265330"),
            (SIGNATURE, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="),
        ] {
            headers.insert(name, HeaderValue::from_static(value));
        }
        headers
    }

    fn verifier() -> Verifier {
        Verifier::new(Secret::from_bytes(vec![9; 32]).unwrap())
            .secret(Secret::parse("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").unwrap())
    }

    fn verified(headers: &HeaderMap, body: &[u8], now: u64) -> Result<String, InvalidWebhook> {
        let now = UNIX_EPOCH + Duration::from_secs(now);
        verifier()
            .verify_at(headers, body, now)
            .map(ToOwned::to_owned)
    }

    #[test]
    fn a_genuine_webhook_is_believed_by_any_of_the_secrets() {
        let id = verified(&genuine(), BODY, SIGNED_AT);
        assert_eq!(id.as_deref(), Ok("msg_p5jXN8AQM9LWM0D4loKWxJek"));
    }

    #[test]
    fn one_good_signature_among_others_suffices() {
        let mut headers = genuine();
        let several =
            "v1a,AAAA v1,AAAA v1,* v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE= v2,BBBB";
        headers.insert(SIGNATURE, HeaderValue::from_static(several));
        assert!(verified(&headers, BODY, SIGNED_AT).is_ok());
    }

    #[test]
    fn anything_that_was_changed_is_found() {
        assert_eq!(
            verified(&genuine(), b"{}", SIGNED_AT),
            Err(InvalidWebhook::Signature)
        );
        for (name, value, expected) in [
            (ID, "msg_other", InvalidWebhook::Signature),
            (TIMESTAMP, "1614265331", InvalidWebhook::Signature),
            (TIMESTAMP, "yesterday", InvalidWebhook::Timestamp),
            (TIMESTAMP, "-1", InvalidWebhook::Timestamp),
            (TIMESTAMP, "18446744073709551615", InvalidWebhook::Timestamp),
            (SIGNATURE, "v1,", InvalidWebhook::Signature),
            (
                SIGNATURE,
                "g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
                InvalidWebhook::Signature,
            ),
        ] {
            let mut headers = genuine();
            headers.insert(name, HeaderValue::from_static(value));
            assert_eq!(
                verified(&headers, BODY, SIGNED_AT),
                Err(expected),
                "{name}: {value}"
            );
        }
        for name in [ID, TIMESTAMP, SIGNATURE] {
            let mut missing = genuine();
            missing.remove(name);
            let mut twice = genuine();
            twice.append(name, genuine()[name].clone());
            for headers in [missing, twice] {
                let refused = verified(&headers, BODY, SIGNED_AT);
                assert_eq!(refused, Err(InvalidWebhook::Field(name)));
            }
        }
    }

    #[test]
    fn a_webhook_from_another_time_is_refused() {
        for (now, expected) in [
            (SIGNED_AT - 301, Err(InvalidWebhook::Time)),
            (SIGNED_AT - 300, Ok(())),
            (SIGNED_AT + 300, Ok(())),
            (SIGNED_AT + 301, Err(InvalidWebhook::Time)),
        ] {
            let result = verified(&genuine(), BODY, now).map(|_| ());
            assert_eq!(result, expected, "{now}");
        }
    }
}
