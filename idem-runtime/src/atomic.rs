//! One transaction: claim → handler → stored answer → commit.
//!
//! Everything here runs in a future that no disconnect of a client can drop (see `detach`).

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use axum::response::Response;
use futures_util::FutureExt;
use tokio::time::{Instant, timeout, timeout_at};
use uuid::Uuid;

use crate::accept::{Buffered, Completed as StoredAnswer, Finished, Landed, Ticket};
use crate::backend::{
    self, Answer, Backend, Claim, Claimed, Completed, Content, Fault, Record, Standing, State,
    TransactionState,
};
use crate::call;
use crate::faults::{self, Plant};
use crate::fingerprint::{Fingerprint, FingerprintOptions};
use crate::guard::Watch;
use crate::idempotency::StoreError;
use crate::operation::{Errors, InFlight};
use crate::options;
use crate::problem::{Code, Problem};
use crate::response::{CapturedResponse, NotStorable};
use crate::scope::{RecordId, ScopeKey};
use crate::settle::Fate;
use crate::telemetry::Signal;
use crate::tx::Tx;

pub(crate) type Prepare<DB> = call::Prepare<Tx<DB>>;
pub(crate) type Ready<DB> = call::Ready<Tx<DB>>;

/// How often a handler is run for one request when the database asks for it.
pub(crate) const MAX_RUNS: u32 = 5;
/// How long an attempt that is over may take to find out what became of its transaction.
pub(crate) const CLEAN_UP: Duration = Duration::from_secs(1);
/// How long a commit, or the storing of an answer before it, may take until its outcome is read from the
/// record instead.
pub(crate) const COMMIT: Duration = Duration::from_secs(5);
/// The first and the longest pause between two looks at a key that another process works on.
pub(crate) const POLL: (Duration, Duration) =
    (Duration::from_millis(10), Duration::from_millis(250));

/// A request that runs its handler for its key.
pub(crate) struct Attempt<DB: Backend> {
    pub(crate) ticket: Ticket<DB>,
    pub(crate) buffered: Buffered,
    pub(crate) scope: ScopeKey,
    pub(crate) id: RecordId,
    pub(crate) operation_id: Uuid,
    pub(crate) fingerprint: Fingerprint,
}

/// Where one try of an attempt led.
enum Step {
    Finished(Finished),
    /// Another process works on the key.
    InFlight,
    /// The database asks for another run.
    Again,
    /// Another attempt's record was there first: it answers.
    Conflict,
    /// The commit's acknowledgement is lost: the record tells.
    Unacknowledged(CapturedResponse),
}

/// What a handler did with its time.
pub(crate) enum Ran {
    Answered(Fate, CapturedResponse),
    NotStorable(NotStorable),
    Panicked,
    TimedOut,
}

/// The answers of commits that were not acknowledged, by the owner that they were stored under.
type Unacknowledged = Vec<([u8; 16], CapturedResponse)>;

impl<DB: Backend> Attempt<DB> {
    pub(crate) async fn run(self, mut prepare: Prepare<DB>) -> Finished {
        let options = options::encode(self.ticket.spec);
        let shared = self.ticket.idempotency.shared.clone();
        let mut owner = new_owner();
        let mut unacknowledged = Unacknowledged::new();
        // One limit for all that precedes the handler.
        let mut limit = self.limit();
        // A key that was answered lately is most likely a replay, and one statement answers it. Where one
        // writer at a time is all there is, a replay must not wait for its turn.
        if DB::SINGLE_WRITER || shared.recent.contains(&self.id) {
            match self.look(limit, &unacknowledged, false).await {
                Ok(Some(finished)) => return finished,
                Ok(None) => {}
                Err(error) => return self.store_failure(&error),
            }
        }
        let wait_until = Instant::now() + self.ticket.rules.wait;
        let mut pause = POLL.0;
        let mut runs = 0;
        let mut conflict = false;
        let mut ready = None;
        loop {
            if ready.is_none() {
                let parts = self.buffered.parts.clone();
                match prepare(parts, self.buffered.body.clone()).await {
                    Ok(prepared) => ready = Some(prepared),
                    Err(rejection) => return self.rejected(rejection).await,
                }
            }
            let claim = Claim {
                id: &self.id,
                scope: &self.scope,
                operation: self.ticket.spec.name,
                fingerprint: &self.fingerprint,
                fingerprint_options: options.as_deref(),
                owner,
                lock_namespace: shared.settings.lock_namespace,
            };
            let step = self
                .once(&claim, &mut ready, &unacknowledged, conflict, limit)
                .await;
            limit = self.limit();
            match step {
                Ok(Step::Finished(finished)) => {
                    if matches!(finished.landed, Landed::Completed(_)) {
                        shared.recent.insert(&self.id);
                    }
                    return finished;
                }
                Ok(Step::InFlight) => {
                    let reject = self.ticket.rules.in_flight == InFlight::Reject;
                    if !unacknowledged.is_empty() && Instant::now() >= wait_until {
                        return self.refused(Code::StoreUnavailable, Signal::StoreFailure);
                    }
                    if reject && unacknowledged.is_empty() || Instant::now() >= wait_until {
                        return self.refused(Code::KeyInProgress, Signal::PendingDuplicate);
                    }
                    tokio::time::sleep(jitter(pause)).await;
                    pause = (pause * 2).min(POLL.1);
                    continue;
                }
                Ok(Step::Conflict) => {
                    conflict = true;
                    shared.recent.insert(&self.id);
                }
                Ok(Step::Again) => tokio::time::sleep(jitter(POLL.0 * (runs + 1))).await,
                Ok(Step::Unacknowledged(response)) => unacknowledged.push((owner, response)),
                Err(error) => return self.store_failure(&error),
            }
            owner = new_owner();
            runs += 1;
            if runs >= MAX_RUNS {
                return self.released(Code::SerializationFailure);
            }
        }
    }

    /// One transaction.
    async fn once(
        &self,
        claim: &Claim<'_>,
        ready: &mut Option<Ready<DB>>,
        unacknowledged: &Unacknowledged,
        conflict: bool,
        limit: Instant,
    ) -> Result<Step, StoreError> {
        let unclaimed = faults::planted(Plant::NoClaim)
            || faults::planted(Plant::AnswerBefore)
            || faults::planted(Plant::ExpiredNotAtomic) && self.is_expired().await?;
        if faults::planted(Plant::AnswerBefore)
            && let Some(finished) = self.look(limit, unacknowledged, conflict).await?
        {
            return Ok(Step::Finished(finished));
        }
        faults::point("begin.before");
        let mut tx = self
            .ticket
            .idempotency
            .begin(self.operation_id, limit)
            .await?;
        faults::point("begin.after");
        let claimed = if unclaimed {
            Ok(Ok(Claimed::Won { took_over: false }))
        } else {
            let (connection, session) = tx.parts();
            timeout_at(limit, DB::claim(connection, session, claim)).await
        };
        faults::point("claim.after");
        let took_over = match claimed {
            Ok(Ok(Claimed::Won { took_over })) => took_over,
            Ok(Ok(Claimed::InFlight)) => {
                tx.roll_back().await;
                return Ok(Step::InFlight);
            }
            Ok(Ok(Claimed::Held(record))) => {
                tx.roll_back().await;
                return match self.judge(&record, unacknowledged, conflict)? {
                    Some(finished) => Ok(Step::Finished(finished)),
                    None => Ok(Step::InFlight),
                };
            }
            Ok(Err(error)) if backend::asks_to_run_again(&error) => {
                tx.roll_back().await;
                return Ok(Step::Again);
            }
            Ok(Err(error)) => {
                tx.abandon();
                return Err(StoreError::Database(error));
            }
            Err(_) => {
                tx.abandon();
                return Err(StoreError::TimedOut("the claim of a key"));
            }
        };
        let Some(ready) = ready.take() else {
            tx.abandon();
            return Ok(Step::Again);
        };
        let watch = Arc::new(Watch::default());
        let ran = run(&self.ticket, &mut tx, ready, &watch).await;
        faults::point("handler.after");
        if watch.took_connection() {
            return self.ended(tx, claim, Code::EffectOutsideTransaction).await;
        }
        match ran {
            Ran::Answered(Fate::Commit, _) if tx.is_poisoned() => {
                tracing::error!(target: "idem", operation = claim.operation, "a savepoint was cancelled; the transaction is rolled back");
                self.undo(tx, claim, self.released(Code::TransactionAborted))
                    .await
            }
            Ran::Answered(Fate::Commit, response) => {
                self.commit(tx, claim, response, took_over).await
            }
            // Another run would double what the handler has made durable itself.
            Ran::Answered(Fate::Retry, _) => match self.state(&mut tx, claim).await {
                Some(TransactionState::Ended) => {
                    self.ended(tx, claim, Code::TransactionEnded).await
                }
                _ => {
                    tx.roll_back().await;
                    Ok(Step::Again)
                }
            },
            Ran::Answered(fate, response) if self.rejects(fate, &response) => {
                self.reject(tx, claim, response).await
            }
            Ran::Answered(_, response) => self.undo(tx, claim, Finished::unstored(response)).await,
            Ran::NotStorable(error) => {
                tracing::warn!(target: "idem", operation = self.ticket.spec.name, %error, "an answer can't be stored");
                self.undo(tx, claim, self.released(Code::ResponseNotStorable))
                    .await
            }
            Ran::Panicked => {
                self.undo(tx, claim, self.released(Code::HandlerPanicked))
                    .await
            }
            Ran::TimedOut => {
                // The statement that the dropped handler left running holds its locks until it ends.
                let cancelled = DB::cancel(&self.ticket.idempotency.shared.pool, tx.session());
                let _ = timeout(CLEAN_UP, cancelled).await;
                self.undo(tx, claim, self.released(Code::HandlerTimedOut))
                    .await
            }
        }
    }

    /// Whether an error's answer is stored.
    fn rejects(&self, fate: Fate, response: &CapturedResponse) -> bool {
        let asked = match fate {
            Fate::Reject => true,
            Fate::Err => self.ticket.rules.errors == Errors::Store,
            _ => false,
        };
        asked && !response.status.is_server_error()
    }

    /// Stores the answer and commits.
    async fn commit(
        &self,
        mut tx: Tx<DB>,
        claim: &Claim<'_>,
        response: CapturedResponse,
        took_over: bool,
    ) -> Result<Step, StoreError> {
        let parcel = match self.parcel(&response, tx.resources()) {
            Ok(parcel) => parcel,
            Err(error) => {
                tx.roll_back().await;
                return Err(error);
            }
        };
        let answer = parcel.answer(&self.ticket);
        if faults::planted(Plant::AnswerBefore) {
            self.alone(claim, State::Completed, &answer).await?;
            faults::point("planted.between");
            tx.commit_within(COMMIT)
                .await
                .map_err(StoreError::Database)?;
            return Ok(Step::Finished(
                self.accepted(&parcel, response, None, false),
            ));
        }
        if faults::planted(Plant::AnswerAfter) {
            tx.commit_within(COMMIT)
                .await
                .map_err(StoreError::Database)?;
            faults::point("planted.between");
            self.alone(claim, State::Completed, &answer).await?;
            return Ok(Step::Finished(
                self.accepted(&parcel, response, None, false),
            ));
        }
        if faults::planted(Plant::NoClaim) || faults::planted(Plant::ExpiredNotAtomic) {
            let (connection, _) = tx.parts();
            let _ = DB::settle_alone(connection, claim, State::Completed, &answer).await;
            tx.commit_within(COMMIT)
                .await
                .map_err(StoreError::Database)?;
            return Ok(Step::Finished(
                self.accepted(&parcel, response, None, false),
            ));
        }
        faults::point("complete.before");
        let (connection, session) = tx.parts();
        let completed = timeout(COMMIT, DB::complete(connection, session, claim, &answer)).await;
        faults::point("complete.after");
        let Ok(completed) = completed else {
            tx.abandon();
            return Err(StoreError::TimedOut("the storing of an answer"));
        };
        let stored = match completed {
            Ok(Completed::Stored(stored)) => stored,
            Ok(Completed::Lost) => {
                tx.roll_back().await;
                return Ok(Step::Conflict);
            }
            Ok(Completed::NotOpen(TransactionState::RolledBack)) => {
                tx.roll_back().await;
                return Ok(Step::Finished(self.released(Code::TransactionAborted)));
            }
            Ok(Completed::NotOpen(_)) => {
                return self.ended(tx, claim, Code::TransactionEnded).await;
            }
            Err(error) => {
                let fault = backend::fault(&error);
                tx.roll_back().await;
                return match fault {
                    Fault::RunAgain => Ok(Step::Again),
                    Fault::Aborted => Ok(Step::Finished(self.released(Code::TransactionAborted))),
                    Fault::Constraint | Fault::Store => Err(StoreError::Database(error)),
                };
            }
        };
        if tx.is_nested() {
            tracing::error!(target: "idem", operation = claim.operation, "a transaction inside the handler's was never ended; all is rolled back");
            tx.roll_back().await;
            return Ok(Step::Finished(self.released(Code::TransactionAborted)));
        }
        faults::point("commit.before");
        let committed = tx.commit_within(COMMIT).await;
        faults::point("commit.after");
        match committed {
            Ok(()) => {}
            Err(_) if faults::planted(Plant::CommitSwallowed) => {}
            Err(error) => {
                return match backend::fault(&error) {
                    Fault::RunAgain => Ok(Step::Again),
                    // A deferred constraint failed: the database rolled back.
                    Fault::Constraint | Fault::Aborted => {
                        tracing::error!(target: "idem", operation = claim.operation, %error, "a constraint failed at the commit");
                        Ok(Step::Finished(self.released(Code::TransactionAborted)))
                    }
                    Fault::Store => Ok(Step::Unacknowledged(response)),
                };
            }
        }
        Ok(Step::Finished(self.accepted(
            &parcel,
            response,
            stored.expires_at,
            took_over,
        )))
    }

    /// The effect is undone, and its answer stored by a statement of its own.
    async fn reject(
        &self,
        mut tx: Tx<DB>,
        claim: &Claim<'_>,
        response: CapturedResponse,
    ) -> Result<Step, StoreError> {
        if let Some(ended) = self.state(&mut tx, claim).await {
            return self.gone(tx, claim, ended).await;
        }
        let parcel = match self.parcel(&response, tx.resources()) {
            Ok(parcel) => parcel,
            Err(error) => {
                tx.roll_back().await;
                return Err(error);
            }
        };
        tx.roll_back().await;
        faults::point("reject.before");
        let stored = self
            .alone(claim, State::Completed, &parcel.answer(&self.ticket))
            .await?;
        faults::point("reject.after");
        Ok(match stored {
            Some(stored) => {
                Step::Finished(self.accepted(&parcel, response, stored.expires_at, false))
            }
            None => Step::Conflict,
        })
    }

    /// Rolls back, and answers `finished` unless another attempt's record is there.
    async fn undo(
        &self,
        mut tx: Tx<DB>,
        claim: &Claim<'_>,
        finished: Finished,
    ) -> Result<Step, StoreError> {
        if let Some(ended) = self.state(&mut tx, claim).await {
            return self.gone(tx, claim, ended).await;
        }
        tx.roll_back().await;
        if DB::LAST_LOOK
            && let Some(other) = self.look(self.limit(), &Vec::new(), true).await?
        {
            return Ok(Step::Finished(other));
        }
        Ok(Step::Finished(finished))
    }

    /// What became of a transaction that is to be rolled back, when it is no longer open.
    async fn state(&self, tx: &mut Tx<DB>, claim: &Claim<'_>) -> Option<TransactionState> {
        match timeout(CLEAN_UP, tx.state(Some(claim))).await {
            Ok(Ok(TransactionState::Open)) => None,
            Ok(Ok(ended)) => Some(ended),
            // The connection is lost, or busy with a statement that can't be stopped: closing it rolls back.
            Ok(Err(_)) | Err(_) => None,
        }
    }

    async fn gone(
        &self,
        tx: Tx<DB>,
        claim: &Claim<'_>,
        state: TransactionState,
    ) -> Result<Step, StoreError> {
        match state {
            TransactionState::Ended => self.ended(tx, claim, Code::TransactionEnded).await,
            _ => {
                tx.roll_back().await;
                Ok(Step::Finished(self.released(Code::TransactionAborted)))
            }
        }
    }

    /// Something may be durable that is not in the transaction: the key is kept, as unknown.
    async fn ended(&self, tx: Tx<DB>, claim: &Claim<'_>, code: Code) -> Result<Step, StoreError> {
        tracing::error!(
            target: "idem",
            operation = claim.operation,
            key = self.ticket.digest,
            code = code.as_str(),
            "an effect may have missed the transaction; the key is kept as unknown"
        );
        tx.roll_back().await;
        let answer = Answer {
            status: 500,
            content: None,
            resources: None,
            ttl: None,
            tombstone: Duration::ZERO,
        };
        // Even where the store fails now: a retry must not be what the answer asks for.
        if let Err(error) = self.alone(claim, State::Unknown, &answer).await {
            tracing::error!(
                target: "idem",
                operation = claim.operation,
                key = self.ticket.digest,
                %error,
                "the key could not be kept as unknown: a retry of it would run again"
            );
        }
        Ok(Step::Finished(self.refused(code, Signal::Unresolved)))
    }

    async fn alone(
        &self,
        claim: &Claim<'_>,
        state: State,
        answer: &Answer<'_>,
    ) -> Result<Option<backend::Stored>, StoreError> {
        let limit = self.limit();
        let mut connection = self.ticket.idempotency.connection(limit).await?;
        match timeout_at(
            limit,
            DB::settle_alone(&mut connection, claim, state, answer),
        )
        .await
        {
            Ok(stored) => stored.map_err(StoreError::Database),
            Err(_) => {
                connection.close_on_drop();
                Err(StoreError::TimedOut("the storing of an answer"))
            }
        }
    }

    /// Reads the record outside any transaction, and answers with it if it answers.
    async fn look(
        &self,
        limit: Instant,
        unacknowledged: &Unacknowledged,
        conflict: bool,
    ) -> Result<Option<Finished>, StoreError> {
        let mut connection = self.ticket.idempotency.connection(limit).await?;
        let record = match timeout_at(limit, DB::look(&mut connection, &self.id)).await {
            Ok(record) => record.map_err(StoreError::Database)?,
            Err(_) => {
                connection.close_on_drop();
                return Err(StoreError::TimedOut("a record"));
            }
        };
        drop(connection);
        match record {
            Some(record) => self.judge(&record, unacknowledged, conflict),
            None => Ok(None),
        }
    }

    /// A look without a claim, for a planted fault.
    async fn is_expired(&self) -> Result<bool, StoreError> {
        let mut connection = self.ticket.idempotency.connection(self.limit()).await?;
        let looked = DB::look(&mut connection, &self.id).await;
        let record = looked.map_err(StoreError::Database)?;
        Ok(record.is_some_and(|record| record.standing == Standing::Expired))
    }

    /// What a record says to this request; `None` when it says nothing any more.
    fn judge(
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

    /// The body's extractor refused: a stored answer is replayed all the same, since a deploy may have
    /// tightened the validation between two attempts.
    async fn rejected(&self, rejection: Response) -> Finished {
        match self.look(self.limit(), &Vec::new(), false).await {
            Ok(Some(finished)) => return finished,
            Ok(None) => {}
            Err(error) => return self.store_failure(&error),
        }
        match CapturedResponse::capture(rejection, self.ticket.rules.max_response).await {
            Ok(response) => Finished {
                signal: Signal::Refused,
                released: false,
                ..Finished::unstored(response)
            },
            Err(_) => self.refused(Code::BodyUnreadable, Signal::Refused),
        }
    }

    fn accepted(
        &self,
        parcel: &Parcel,
        response: CapturedResponse,
        expires_at: Option<i64>,
        took_over: bool,
    ) -> Finished {
        Finished {
            landed: Landed::Completed(StoredAnswer {
                status: parcel.status,
                content: parcel.plain.clone(),
                resources: parcel.resources.clone(),
                expires_at,
            }),
            own: Some((response, expires_at)),
            signal: if took_over {
                Signal::Expired
            } else {
                Signal::Accepted
            },
            released: false,
        }
    }

    fn refused(&self, code: Code, signal: Signal) -> Finished {
        Finished::refused(Problem::new(code), signal)
    }

    fn released(&self, code: Code) -> Finished {
        Finished {
            released: true,
            ..self.refused(code, Signal::Accepted)
        }
    }

    fn store_failure(&self, error: &StoreError) -> Finished {
        tracing::error!(target: "idem", operation = self.ticket.spec.name, %error, "the idempotency store failed");
        self.refused(Code::StoreUnavailable, Signal::StoreFailure)
    }

    fn limit(&self) -> Instant {
        Instant::now() + self.ticket.idempotency.shared.settings.store_timeout
    }

    /// Makes what is stored of an answer.
    fn parcel(
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

impl Finished {
    fn refused(problem: Problem, signal: Signal) -> Self {
        Self {
            landed: Landed::Refused(problem),
            own: None,
            signal,
            released: false,
        }
    }

    /// A handler's answer whose effect is undone and whose key is free.
    fn unstored(response: CapturedResponse) -> Self {
        Self {
            own: Some((response.clone(), None)),
            landed: Landed::Unstored(response),
            signal: Signal::Accepted,
            released: true,
        }
    }
}

/// What is stored of an answer.
struct Parcel {
    status: u16,
    /// Headers and body; `None` where `replay_with` rebuilds them.
    plain: Option<(Vec<u8>, bytes::Bytes)>,
    sealed: Option<(Vec<u8>, Vec<u8>)>,
    resources: Vec<(String, String)>,
    encoded_resources: Option<String>,
}

impl Parcel {
    fn answer<DB: Backend>(&self, ticket: &Ticket<DB>) -> Answer<'_> {
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

/// Runs the handler and reads its answer, within the time it has.
pub(crate) async fn run<DB: Backend>(
    ticket: &Ticket<DB>,
    tx: &mut Tx<DB>,
    ready: Ready<DB>,
    watch: &Arc<Watch>,
) -> Ran {
    let handler = async {
        let settled = ready(tx).await;
        let limit = ticket.rules.max_response;
        match CapturedResponse::capture(settled.response, limit).await {
            Ok(response) => Ran::Answered(settled.fate, response),
            Err(error) => Ran::NotStorable(error),
        }
    };
    let bounded = timeout(ticket.rules.timeout, watch.scope(handler));
    match AssertUnwindSafe(bounded).catch_unwind().await {
        Ok(Ok(ran)) => ran,
        Ok(Err(_)) => Ran::TimedOut,
        Err(_) => Ran::Panicked,
    }
}

pub(crate) fn new_owner() -> [u8; 16] {
    fastrand::u128(..).to_be_bytes()
}

/// Between half of a pause and the whole of it.
pub(crate) fn jitter(pause: Duration) -> Duration {
    pause.mul_f64(0.5 + fastrand::f64() / 2.0)
}
