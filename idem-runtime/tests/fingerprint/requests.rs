//! Requests to take fingerprints of.

use http::{HeaderMap, HeaderName, HeaderValue, Method, Uri};
use idem_runtime::fingerprint::{Fingerprint, FingerprintInput, FingerprintOptions};

/// A `POST /upload` that a test changes where it wants to.
#[derive(Clone)]
pub(crate) struct Request<'a> {
    pub(crate) method: &'a str,
    pub(crate) uri: &'a str,
    pub(crate) headers: Vec<(&'a str, &'a [u8])>,
    pub(crate) body: &'a [u8],
    pub(crate) counted: &'a [&'a str],
    pub(crate) ignored: &'a [&'a str],
}

impl<'a> Request<'a> {
    pub(crate) fn upload(content_type: &'a str, body: &'a [u8]) -> Request<'a> {
        Request {
            method: "POST",
            uri: "/upload",
            headers: vec![("content-type", content_type.as_bytes())],
            body,
            counted: &[],
            ignored: &[],
        }
    }

    pub(crate) fn json(body: &'a str) -> Request<'a> {
        Request::upload("application/json", body.as_bytes())
    }

    pub(crate) fn fingerprint(&self) -> Fingerprint {
        let mut headers = HeaderMap::new();
        for (name, value) in &self.headers {
            let name = HeaderName::from_bytes(name.as_bytes()).expect("a test's header name");
            headers.append(
                name,
                HeaderValue::from_bytes(value).expect("a test's header value"),
            );
        }
        Fingerprint::compute(&FingerprintInput {
            method: &Method::from_bytes(self.method.as_bytes()).expect("a test's method"),
            uri: &self.uri.parse::<Uri>().expect("a test's target"),
            headers: &headers,
            body: self.body,
            options: &FingerprintOptions {
                headers: self.counted,
                ignore: self.ignored,
            },
        })
    }
}

/// The fingerprint of a JSON upload.
pub(crate) fn of_json(body: &str) -> Fingerprint {
    Request::json(body).fingerprint()
}
