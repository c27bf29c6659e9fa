//! What is stored of an answer.

use bytes::Bytes;

use crate::accept::Completed;
use crate::backend::{Answer, Content, Record};
use crate::idempotency::{Rules, Settings, StoreError};
use crate::options;
use crate::response::CapturedResponse;
use crate::scope::RecordId;

/// An answer, packed for its record.
pub(crate) struct Parcel {
    pub(crate) status: u16,
    /// Headers and body; `None` where `replay_with` rebuilds them.
    plain: Option<(Vec<u8>, Bytes)>,
    sealed: Option<(Vec<u8>, Vec<u8>)>,
    resources: Vec<(String, String)>,
    encoded_resources: Option<String>,
}

impl Parcel {
    pub(crate) fn new(
        settings: &Settings,
        id: &RecordId,
        rebuilds: bool,
        response: &CapturedResponse,
        resources: &[(String, String)],
    ) -> Result<Self, StoreError> {
        let plain = (!rebuilds).then(|| {
            let stored = response.stored(&settings.headers);
            (stored.headers, stored.body)
        });
        let sealed = match (&settings.cipher, &plain) {
            (Some(cipher), Some((headers, body))) => {
                let seal = |part, bytes| {
                    cipher
                        .seal(&context(id, part), bytes)
                        .map_err(StoreError::Cipher)
                };
                Some((seal(b"headers", headers)?, seal(b"body", body)?))
            }
            _ => None,
        };
        Ok(Self {
            status: response.status.as_u16(),
            plain,
            sealed,
            resources: resources.to_vec(),
            encoded_resources: options::encode_resources(resources),
        })
    }

    pub(crate) fn answer(&self, rules: &Rules) -> Answer<'_> {
        let content = match (&self.sealed, &self.plain) {
            (Some((headers, body)), _) => Some(Content {
                headers,
                body,
                sealed: true,
            }),
            (None, Some((headers, body))) => Some(Content {
                headers,
                body,
                sealed: false,
            }),
            (None, None) => None,
        };
        Answer {
            status: self.status,
            content,
            resources: self.encoded_resources.as_deref(),
            ttl: Some(rules.ttl),
            tombstone: rules.tombstone,
        }
    }

    /// The same as those who wait for it are given it.
    pub(crate) fn completed(&self, expires_at: Option<i64>) -> Completed {
        Completed {
            status: self.status,
            content: self.plain.clone(),
            resources: self.resources.clone(),
            expires_at,
        }
    }
}

fn context(id: &RecordId, part: &[u8]) -> Vec<u8> {
    [id.as_bytes().as_slice(), part].concat()
}

/// Reads what a parcel became.
pub(crate) fn open(
    settings: &Settings,
    id: &RecordId,
    record: &Record,
) -> Result<Completed, StoreError> {
    let content = match (&record.headers, &record.body) {
        (Some(headers), Some(body)) if record.sealed => {
            let cipher = settings.cipher.as_ref().ok_or_else(|| {
                StoreError::Corrupt("it is encrypted, and no `PayloadCipher` is set".to_owned())
            })?;
            let open = |part, bytes| {
                cipher
                    .open(&context(id, part), bytes)
                    .map_err(StoreError::Cipher)
            };
            Some((open(b"headers", headers)?, open(b"body", body)?.into()))
        }
        (Some(headers), Some(body)) => Some((headers.to_vec(), body.clone())),
        _ => None,
    };
    Ok(Completed {
        status: record.status,
        content,
        resources: options::decode_resources(record.resources.as_deref())
            .map_err(|error| StoreError::Corrupt(error.to_string()))?,
        expires_at: record.expires_at,
    })
}
