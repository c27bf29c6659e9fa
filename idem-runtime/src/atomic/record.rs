//! A key's record: what is put into it, and what it says to a request.

use tokio::time::Instant;

use super::{Attempt, Unacknowledged};
use crate::accept::{Completed as StoredAnswer, Finished, Landed};
use crate::backend::{Backend, Record, Standing, State};
use crate::faults::{self, Plant};
use crate::fingerprint::{Fingerprint, FingerprintOptions};
use crate::idempotency::StoreError;
use crate::options;
use crate::parcel::{self, Parcel};
use crate::problem::{Code, Problem};
use crate::response::CapturedResponse;
use crate::telemetry::Signal;

impl<DB: Backend> Attempt<DB> {
    /// Reads the record outside any transaction, and answers with it if it answers.
    pub(crate) async fn look(
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
    pub(crate) fn judge(
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
        if record.state == State::Started && self.ticket.recovers {
            return Ok(None);
        }
        if record.state != State::Completed {
            return Ok(Some(self.refused(Code::OutcomeUnknown, Signal::Unresolved)));
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
        let rebuilds = self.ticket.rebuild.is_some();
        Parcel::new(settings, &self.id, rebuilds, response, resources)
    }

    fn open(&self, record: &Record) -> Result<StoredAnswer, StoreError> {
        let settings = &self.ticket.idempotency.shared.settings;
        parcel::open(settings, &self.id, record)
    }
}
