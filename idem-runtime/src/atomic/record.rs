//! A key's record: what is put into it, and what it says to a request.

use tokio::time::Instant;

use super::{Attempt, Unacknowledged};
use crate::accept::{Completed as StoredAnswer, Finished, Landed, Ticket};
use crate::backend::{Answer, Backend, Content, Record, Standing, State};
use crate::faults::{self, Plant};
use crate::fingerprint::{Fingerprint, FingerprintOptions};
use crate::idempotency::StoreError;
use crate::options;
use crate::problem::{Code, Problem};
use crate::response::CapturedResponse;
use crate::telemetry::Signal;

impl<DB: Backend> Attempt<DB> {
    /// Reads the record outside any transaction, and answers with it if it answers.
    pub(super) async fn look(
        &self,
        limit: Instant,
        unacknowledged: &Unacknowledged,
        conflict: bool,
    ) -> Result<Option<Finished>, StoreError> {
        let record = self.ticket.idempotency.look(&self.id, limit).await?;
        match record {
            Some(record) => self.judge(&record, unacknowledged, conflict),
            None => Ok(None),
        }
    }

    /// What a record says to this request; `None` when it says nothing any more.
    pub(super) fn judge(
        &self,
        record: &Record,
        unacknowledged: &Unacknowledged,
        conflict: bool,
    ) -> Result<Option<Finished>, StoreError> {
        let own = unacknowledged
            .iter()
            .find(|(owner, _)| owner[..] == record.owner[..]);
        if let Some((_, response)) = own {
            let landed = Landed::Completed(self.open(record)?);
            return Ok(Some(Finished {
                landed,
                own: Some((response.clone(), record.expires_at)),
                signal: Signal::StoreFailure,
                released: false,
            }));
        }
        match record.standing {
            Standing::Expired => return Ok(None),
            Standing::Tombstone => {
                return Ok(Some(self.refused(Code::KeyExpired, Signal::Expired)));
            }
            Standing::Live => {}
        }
        if !self.is_same_request(record)? && !faults::planted(Plant::NoFingerprint) {
            let mut problem = Problem::new(Code::KeyReused);
            if let Some(expires_at) = record.expires_at {
                problem = problem.expires(expires_at);
            }
            return Ok(Some(Finished::refused(problem, Signal::Mismatch)));
        }
        if record.state != State::Completed {
            let mut problem = Problem::new(Code::OutcomeUnknown);
            if let Some(link) = &self.ticket.idempotency.shared.settings.status_link {
                problem = problem.status_link(link.clone());
            }
            return Ok(Some(Finished::refused(problem, Signal::Unresolved)));
        }
        Ok(Some(Finished {
            landed: Landed::Completed(self.open(record)?),
            own: None,
            signal: if conflict {
                Signal::ReservationConflict
            } else {
                Signal::Replayed
            },
            released: false,
        }))
    }

    /// Compares by the rules under which the record was made: a deploy that changes them must not turn
    /// retries into mismatches.
    fn is_same_request(&self, record: &Record) -> Result<bool, StoreError> {
        if record.fingerprint == self.fingerprint {
            return Ok(true);
        }
        let stored = options::Stored::decode(record.fingerprint_options.as_deref())
            .map_err(|error| StoreError::Corrupt(error.to_string()))?;
        let now = self.ticket.spec;
        if record.fingerprint.version() == Fingerprint::CURRENT
            && stored.is(now.fingerprint_headers, now.fingerprint_ignore)
        {
            return Ok(false);
        }
        let (headers, ignore) = stored.lists();
        let options = FingerprintOptions {
            headers: &headers,
            ignore: &ignore,
        };
        match self
            .buffered
            .fingerprint(record.fingerprint.version(), &options)
        {
            Some(fingerprint) => Ok(fingerprint == record.fingerprint),
            None => Err(StoreError::Corrupt(format!(
                "its fingerprint has version {}, which this version of idem does not know",
                record.fingerprint.version()
            ))),
        }
    }

    /// Makes what is stored of an answer.
    pub(super) fn parcel(
        &self,
        response: &CapturedResponse,
        resources: &[(String, String)],
    ) -> Result<Parcel, StoreError> {
        let settings = &self.ticket.idempotency.shared.settings;
        let plain = self.ticket.rebuild.is_none().then(|| {
            let stored = response.stored(&settings.headers);
            (stored.headers, stored.body)
        });
        let sealed = match (&settings.cipher, &plain) {
            (Some(cipher), Some((headers, body))) => {
                let seal = |part, bytes| {
                    cipher
                        .seal(&self.context(part), bytes)
                        .map_err(StoreError::Cipher)
                };
                Some((seal(b"headers", headers)?, seal(b"body", body)?))
            }
            _ => None,
        };
        Ok(Parcel {
            status: response.status.as_u16(),
            plain,
            sealed,
            resources: resources.to_vec(),
            encoded_resources: options::encode_resources(resources),
        })
    }

    fn context(&self, part: &[u8]) -> Vec<u8> {
        [self.id.as_bytes().as_slice(), part].concat()
    }

    /// Reads what `parcel` made.
    fn open(&self, record: &Record) -> Result<StoredAnswer, StoreError> {
        let content = match (&record.headers, &record.body) {
            (Some(headers), Some(body)) if record.sealed => {
                let cipher = self
                    .ticket
                    .idempotency
                    .shared
                    .settings
                    .cipher
                    .as_ref()
                    .ok_or_else(|| {
                        StoreError::Corrupt(
                            "it is encrypted, and no `PayloadCipher` is set".to_owned(),
                        )
                    })?;
                let open = |part, bytes| {
                    cipher
                        .open(&self.context(part), bytes)
                        .map_err(StoreError::Cipher)
                };
                Some((open(b"headers", headers)?, open(b"body", body)?.into()))
            }
            (Some(headers), Some(body)) => Some((headers.to_vec(), body.clone())),
            _ => None,
        };
        Ok(StoredAnswer {
            status: record.status,
            content,
            resources: options::decode_resources(record.resources.as_deref())
                .map_err(|error| StoreError::Corrupt(error.to_string()))?,
            expires_at: record.expires_at,
        })
    }
}

/// What is stored of an answer.
pub(super) struct Parcel {
    pub(super) status: u16,
    /// Headers and body; `None` where `replay_with` rebuilds them.
    pub(super) plain: Option<(Vec<u8>, bytes::Bytes)>,
    sealed: Option<(Vec<u8>, Vec<u8>)>,
    pub(super) resources: Vec<(String, String)>,
    encoded_resources: Option<String>,
}

impl Parcel {
    pub(super) fn answer<DB: Backend>(&self, ticket: &Ticket<DB>) -> Answer<'_> {
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
            ttl: Some(ticket.rules.ttl),
            tombstone: ticket.rules.tombstone,
        }
    }
}
