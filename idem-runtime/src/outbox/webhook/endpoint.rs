//! Where a webhook goes, and by what it is known to be genuine.

use std::fmt;
use std::net::IpAddr;

use reqwest::Url;

use super::address::{self, Allow};
use super::secret::Secret;
use crate::outbox::PublishError;

/// A receiver's URL, and the secrets that it may check signatures with.
#[derive(Clone)]
pub struct Endpoint {
    pub(super) url: Url,
    pub(super) secrets: Vec<Secret>,
}

/// No URL that webhooks can be sent to.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a URL for webhooks: {0}")]
pub struct InvalidUrl(String);

impl Endpoint {
    /// An endpoint by its URL. Each should have a secret of its own.
    ///
    /// # Errors
    ///
    /// When it is no absolute URL of `https` or `http`. Whether plain `http` and the address will do is the publisher's to say.
    pub fn new(url: &str, secret: Secret) -> Result<Self, InvalidUrl> {
        let url = Url::parse(url).map_err(|error| InvalidUrl(error.to_string()))?;
        if !matches!(url.scheme(), "https" | "http") {
            return Err(InvalidUrl(format!("the scheme is {}", url.scheme())));
        }
        Ok(Self {
            url,
            secrets: vec![secret],
        })
    }

    /// Signs with another secret as well, so that the receiver may go from one to the other at its own time.
    #[must_use]
    pub fn secret(mut self, secret: Secret) -> Self {
        self.secrets.push(secret);
        self
    }

    /// What can be told from the URL alone; names are checked when they are resolved.
    pub(super) fn check(&self, http: bool, allow: Allow) -> Result<(), PublishError> {
        if self.url.scheme() != "https" && !http {
            let reason = "the endpoint is not https, and http is not allowed";
            return Err(PublishError::Rejected(reason.into()));
        }
        // The client connects to an address without asking a resolver.
        let host = self.url.host_str().unwrap_or_default();
        let host = host.trim_start_matches('[').trim_end_matches(']');
        match host.parse::<IpAddr>() {
            Ok(address) => {
                address::check(address, allow).map_err(|error| PublishError::Rejected(error.into()))
            }
            Err(_) => Ok(()),
        }
    }
}

impl fmt::Debug for Endpoint {
    /// The host alone: the rest of a URL may be a secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Endpoint")
            .field("host", &self.url.host_str())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn refusal(url: &str) -> Option<String> {
        let secret = Secret::from_bytes(vec![9; 32]).unwrap();
        let endpoint = Endpoint::new(url, secret).unwrap();
        endpoint
            .check(false, |_| false)
            .err()
            .map(|error| error.to_string())
    }

    #[test]
    fn an_address_in_the_url_is_checked_however_it_is_written() {
        for url in [
            "https://127.0.0.1/",
            "https://2130706433/",
            "https://0x7f.1/",
            "https://0177.0.0.1/",
            "https://127.1/",
            "https://[::1]/",
            "https://[::ffff:127.0.0.1]/",
            "https://[::ffff:a00:1]/",
            "https://[fe80::1]/",
            "https://169.254.169.254/latest/",
            "https://user:word@10.0.0.1:8443/x",
        ] {
            let refusal = refusal(url).unwrap_or_else(|| panic!("{url} was allowed"));
            assert!(
                refusal.contains("not an address of the public"),
                "{refusal}"
            );
        }
        for url in [
            "https://1.1.1.1/",
            "https://[2606:4700::1111]/",
            "https://example.com/",
        ] {
            assert_eq!(refusal(url), None, "{url}");
        }
    }

    #[test]
    fn plain_http_is_refused() {
        let refusal = refusal("http://example.com/").unwrap();
        assert!(refusal.contains("http is not allowed"), "{refusal}");
    }

    #[test]
    fn other_schemes_are_no_endpoints() {
        for url in [
            "ftp://example.com/",
            "file:///etc/passwd",
            "/hook",
            "example.com",
        ] {
            let secret = Secret::from_bytes(vec![9; 32]).unwrap();
            assert!(Endpoint::new(url, secret).is_err(), "{url}");
        }
    }
}
