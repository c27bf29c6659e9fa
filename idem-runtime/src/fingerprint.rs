//! What makes two requests under one key *the same request*.
//!
//! A key alone says too little: a client may send it again with another body by mistake, and must then be told so
//! (422, draft-ietf-httpapi-idempotency-key-header, section 2.7) rather than be given the answer to another question.
//! So a record keeps the [`Fingerprint`] of the request that made it: a SHA-256 digest over what the request *means*,
//! blind to what differs between a request and its retry, such as the order of JSON members or a trace header.
//!
//! Two rules decide every doubt:
//!
//! * A false mismatch costs a client a 422, a false match replays the wrong payment: when in doubt, differ.
//! * Nothing here refuses a request. What cannot be read as its media type says is compared as bytes.
//!
//! # What counts, in version 1
//!
//! | part | how it is compared |
//! |---|---|
//! | method | as it is |
//! | path | raw, whole |
//! | query | decoded pairs, stably sorted by name |
//! | `Content-Type` | the essence in lower case; parameters do not count |
//! | declared headers | name and every value, in order |
//! | the ignore list | as a set |
//! | `Content-Encoding` | if present: its values, and the body as bytes |
//! | JSON body | member order, white space, spelling of numbers and escapes do not count |
//! | form body | decoded pairs, stably sorted by name |
//! | multipart body | its parts in order; the boundary does not count |
//! | any other body | bytes |
//!
//! Scheme, authority and every header that is not named above never count.
//!
//! # Versions
//!
//! The version is stored beside the digest and an old record is compared by the function of its own version
//! ([`Fingerprint::compute_version`]), so that an upgrade never turns a retry into a 422. A released version is frozen:
//! what it computes for a given request never changes.

mod form;
mod json;
mod media;
mod multipart;
mod sink;
mod v1;

use std::fmt;

use http::{HeaderMap, Method, Uri};

/// The digest of a request and the version of the function that took it.
///
/// Two requests are the same when their fingerprints are equal; digests of different versions are never equal, so a
/// stored one is compared with [`Fingerprint::compute_version`] of its own [`version`](Fingerprint::version).
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Fingerprint {
    version: u8,
    digest: [u8; 32],
}

/// What a fingerprint is taken of.
#[derive(Clone, Copy, Debug)]
pub struct FingerprintInput<'a> {
    /// The request's method.
    pub method: &'a Method,
    /// The request's original target (axum's `OriginalUri`), so that nesting a router changes nothing.
    pub uri: &'a Uri,
    /// All of the request's header fields; only `Content-Type`, `Content-Encoding` and the declared ones are read.
    pub headers: &'a HeaderMap,
    /// The whole body.
    pub body: &'a [u8],
    /// What the handler declared.
    pub options: &'a FingerprintOptions<'a>,
}

/// What a handler declares about its fingerprint. The default declares nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct FingerprintOptions<'a> {
    /// Header fields that count, by name; their order, case and repetition mean nothing.
    pub headers: &'a [&'a str],
    /// What does not count: JSON pointers into the body (RFC 6901, `"/sent_at"`) and names of query parameters after a
    /// question mark (`"?utm_source"`). An entry of neither form leaves nothing out.
    ///
    /// An ignored object member is taken out; an ignored array element leaves its place, so that the others keep theirs.
    /// Pointers have no effect on a body that is not plain JSON.
    pub ignore: &'a [&'a str],
}

impl Fingerprint {
    /// The version that [`Fingerprint::compute`] uses.
    pub const CURRENT: u8 = 1;

    /// Takes the fingerprint of a request with the current version.
    ///
    /// Time is O(n log n) in the body's length `n`, whatever it holds. Memory is mostly 1.5 times the length, and about
    /// eleven times for an object with as many short members as fit.
    pub fn compute(input: &FingerprintInput<'_>) -> Fingerprint {
        Fingerprint {
            version: Self::CURRENT,
            digest: v1::digest(input),
        }
    }

    /// Takes the fingerprint of a request with the version that a stored record names; `None` for a version that this
    /// release does not know (a record of a newer one, which must not be guessed at).
    pub fn compute_version(version: u8, input: &FingerprintInput<'_>) -> Option<Fingerprint> {
        match version {
            1 => Some(Fingerprint {
                version,
                digest: v1::digest(input),
            }),
            _ => None,
        }
    }

    /// Puts a stored fingerprint together again.
    pub const fn from_stored(version: u8, digest: [u8; 32]) -> Fingerprint {
        Fingerprint { version, digest }
    }

    /// The version of the function that took this fingerprint.
    pub const fn version(&self) -> u8 {
        self.version
    }

    /// The SHA-256 digest, to be stored beside the version.
    pub const fn digest(&self) -> &[u8; 32] {
        &self.digest
    }
}

/// Prints `v1:` and the digest in hexadecimal.
impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "v{}:", self.version)?;
        self.digest
            .iter()
            .try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}
