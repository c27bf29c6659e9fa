//! From an authorized request to its answer: key, body, fingerprint, and who runs.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::response::Response;
use bytes::Bytes;
use http::request::Parts;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use sqlx::Connection;

use crate::atomic::Attempt;
use crate::backend::Backend;
use crate::call::{Authorized, Prepare, Rebuild};
use crate::detach::Detached;
use crate::faults::{self, Plant};
use crate::fingerprint::{Fingerprint, FingerprintInput, FingerprintOptions};
use crate::flight::{Follower, Joined, NoAnswer};
use crate::idempotency::{Idempotency, Rules, StoreError};
use crate::key::IdempotencyKey;
use crate::operation::{InFlight, KeyRequirement, KeySpace, Spec};
use crate::operations::OperationId;
use crate::problem::{Code, Problem};
use crate::region::{self, Misdirected};
use crate::replay::Replay;
use crate::response::{CapturedResponse, StoredResponse};
use crate::scope::{self, RecordId, ScopeKey};
use crate::telemetry::Signal;
use crate::tx::{Handle, Tx};
use crate::unprotected;

/// What became of a key's request, for everybody who waits for it.
#[derive(Debug)]
pub(crate) enum Landed {
    /// Stored: whoever asks gets a replay.
    Completed(Completed),
    /// Not stored, yet an answer to the same request.
    Unstored(CapturedResponse),
    /// The framework's own answer.
    Refused(Problem),
}

/// A stored answer, opened.
#[derive(Clone, Debug)]
pub(crate) struct Completed {
    pub(crate) status: u16,
    /// `None` where `replay_with` rebuilds the answer, or the answer was erased.
    pub(crate) content: Option<(Vec<u8>, Bytes)>,
    pub(crate) resources: Vec<(String, String)>,
    pub(crate) expires_at: Option<i64>,
}

/// A buffered request: all that an attempt needs to run, and to compare.
#[derive(Clone, Debug)]
pub(crate) struct Buffered {
    pub(crate) parts: Parts,
    pub(crate) body: Bytes,
}

impl Buffered {
    /// The fingerprint by a version's rules; `None` for a version that this library does not know.
    pub(crate) fn fingerprint(
        &self,
        version: u8,
        options: &FingerprintOptions<'_>,
    ) -> Option<Fingerprint> {
        // In a nested router only the original URI is the whole one.
        let uri = self
            .parts
            .extensions
            .get::<axum::extract::OriginalUri>()
            .map_or(&self.parts.uri, |original| &original.0);
        let uri = if faults::planted(Plant::NoPath) {
            &http::Uri::from_static("/")
        } else {
            uri
        };
        let input = FingerprintInput {
            method: &self.parts.method,
            uri,
            headers: &self.parts.headers,
            body: &self.body,
            options,
        };
        Fingerprint::compute_version(version, &input)
    }
}

/// How the requests of one kind of handler run.
pub(crate) trait Mode: Handle {
    /// Runs the handler for its key.
    fn attempt(
        attempt: Attempt<Self::Db>,
        prepare: Prepare<Self>,
    ) -> impl Future<Output = Finished> + Send;

    /// Runs it without a key.
    fn unprotected(
        ticket: Ticket<Self::Db>,
        buffered: Buffered,
        prepare: Prepare<Self>,
    ) -> impl Future<Output = (Response, Signal)> + Send;
}

impl<DB: Backend> Mode for Tx<DB> {
    fn attempt(
        attempt: Attempt<DB>,
        prepare: Prepare<Self>,
    ) -> impl Future<Output = Finished> + Send {
        attempt.run(prepare)
    }

    async fn unprotected(
        ticket: Ticket<DB>,
        buffered: Buffered,
        prepare: Prepare<Self>,
    ) -> (Response, Signal) {
        unprotected::answer(&ticket, buffered, prepare).await
    }
}

/// Answers an authorized request.
pub(crate) async fn accept<H: Mode>(request: Authorized<H>) -> Response {
    let started = Instant::now();
    let idempotency = request.idempotency.clone();
    let settings = &idempotency.shared.settings;
    let spec = request.spec;
    idempotency.register(spec);

    let key = match IdempotencyKey::from_headers(&request.parts.headers, settings.bare_keys) {
        Ok(Some(key)) => Some(key),
        Ok(None) if spec.key == KeyRequirement::Optional => None,
        refused => {
            let problem = match refused {
                Err(error) => Problem::new(Code::KeyInvalid).detail(error.to_string()),
                Ok(_) => Problem::new(Code::KeyMissing),
            };
            let code = Some(problem.code());
            Signal::Refused.emit_with(spec.name, "", started.elapsed(), code);
            return problem.into_response(&settings.problems);
        }
    };
    let digest = key.as_ref().map(IdempotencyKey::digest).unwrap_or_default();
    // A keyless request is written too, and must not be away from home either.
    let misdirected = |misdirected: Misdirected| {
        let signal = misdirected.signal;
        let code = Some(misdirected.problem.code());
        signal.emit_with(spec.name, &digest, started.elapsed(), code);
        misdirected.problem.into_response(&settings.problems)
    };
    if let Err(refused) = idempotency.admit(&request.scope, spec).await {
        return misdirected(refused);
    }
    let admitted = Instant::now();
    let rules = settings.rules(spec);
    let body = match buffer(request.body, &request.parts, rules.max_body).await {
        Ok(body) => body,
        Err(problem) => {
            let code = Some(problem.code());
            Signal::Refused.emit_with(spec.name, &digest, started.elapsed(), code);
            return problem.into_response(&settings.problems);
        }
    };
    // Nothing bounds how long a client takes over its body, and the account may have moved meanwhile.
    if admitted.elapsed() > region::ADMITTED_FOR
        && let Err(refused) = idempotency.admit(&request.scope, spec).await
    {
        return misdirected(refused);
    }
    let ticket = Ticket {
        idempotency: idempotency.clone(),
        spec,
        rules,
        digest,
        started,
        rebuild: request.rebuild,
        recovers: H::RECOVERS,
    };
    let buffered = Buffered {
        parts: request.parts,
        body,
    };
    match key {
        None => ticket.unprotected(buffered, request.prepare).await,
        Some(key) => {
            ticket
                .protected(buffered, request.prepare, request.scope, key)
                .await
        }
    }
}

/// Reads the body whole.
async fn buffer(body: axum::body::Body, parts: &Parts, limit: usize) -> Result<Bytes, Problem> {
    let too_large = || {
        Problem::new(Code::RequestTooLarge)
            .detail(format!("The request body is larger than {limit} bytes."))
    };
    let announced = parts
        .headers
        .get(http::header::CONTENT_LENGTH)
        .and_then(|length| length.to_str().ok()?.parse::<u64>().ok());
    if announced.is_some_and(|length| length > limit as u64) {
        return Err(too_large());
    }
    match Limited::new(body, limit).collect().await {
        Ok(collected) => Ok(collected.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => Err(too_large()),
        Err(_) => Err(Problem::new(Code::BodyUnreadable)),
    }
}

/// One request on its way to its answer.
pub(crate) struct Ticket<DB: Backend> {
    pub(crate) idempotency: Idempotency<DB>,
    pub(crate) spec: &'static Spec,
    pub(crate) rules: Rules,
    /// Of the key, for signals.
    pub(crate) digest: String,
    pub(crate) started: Instant,
    pub(crate) rebuild: Option<Rebuild<DB>>,
    /// Whether an operation outlives its attempt.
    pub(crate) recovers: bool,
}

impl<DB: Backend> Clone for Ticket<DB> {
    fn clone(&self) -> Self {
        Self {
            idempotency: self.idempotency.clone(),
            digest: self.digest.clone(),
            ..*self
        }
    }
}

/// What a finished attempt tells of itself.
#[derive(Debug)]
pub(crate) struct Finished {
    /// For all who wait.
    pub(crate) landed: Landed,
    /// For the request that ran: the handler's own answer, and when it expires.
    pub(crate) own: Option<(CapturedResponse, Option<i64>)>,
    pub(crate) signal: Signal,
    /// The key was let go.
    pub(crate) released: bool,
}

impl<DB: Backend> Ticket<DB> {
    async fn unprotected<H: Mode<Db = DB>>(
        self,
        buffered: Buffered,
        prepare: Prepare<H>,
    ) -> Response {
        let Some(permit) = self.permit() else {
            return self.overloaded();
        };
        let ticket = self.clone();
        let attempt = async move {
            let response = H::unprotected(ticket, buffered, prepare).await;
            drop(permit);
            response
        };
        match self.detached(attempt).await {
            Ok((response, signal)) => {
                self.emit(signal);
                response
            }
            Err(panic) => {
                faults::let_through(panic);
                self.end(Signal::Unprotected, &Problem::new(Code::HandlerPanicked))
            }
        }
    }

    async fn protected<H: Mode<Db = DB>>(
        self,
        buffered: Buffered,
        prepare: Prepare<H>,
        scope: ScopeKey,
        key: IdempotencyKey,
    ) -> Response {
        let spec = self.spec;
        let scope = if faults::planted(Plant::NoScope) {
            ScopeKey::of("")
        } else {
            scope
        };
        if !scope.is_storable() {
            return self.end(Signal::Refused, &Problem::new(Code::ScopeInvalid));
        }
        let operation = (spec.key_space == KeySpace::Operation).then_some(spec.name);
        let id = RecordId::new(&scope, operation, &key);
        let options = FingerprintOptions {
            headers: spec.fingerprint_headers,
            ignore: spec.fingerprint_ignore,
        };
        let fingerprint = buffered
            .fingerprint(Fingerprint::CURRENT, &options)
            .expect("the current version is known");

        let leader = match self.idempotency.shared.flights.join(id, fingerprint) {
            Joined::Leader(leader) => leader,
            Joined::Mismatch(_) if !faults::planted(Plant::NoFingerprint) => {
                return self.end(Signal::Mismatch, &Problem::new(Code::KeyReused));
            }
            Joined::Follower(follower) | Joined::Mismatch(follower) => {
                return self.wait(follower, id).await;
            }
        };
        let Some(permit) = self.permit() else {
            let refused = Landed::Refused(Problem::new(Code::Overloaded));
            leader.land(Arc::new(refused));
            return self.overloaded();
        };
        let ticket = Arc::new(self);
        let attempt = Attempt {
            ticket: ticket.clone(),
            buffered,
            operation_id: scope::operation_id(&scope, spec.name, &key),
            scope,
            id,
            fingerprint,
            claiming: leader.claiming(),
        };
        // Boxed where it is made: it is large, and would be copied on its way.
        let running = Box::pin(H::attempt(attempt, prepare));
        let follower = leader.follow();
        let emitting = ticket.clone();
        let task = async move {
            let finished = running.await;
            let code = match &finished.landed {
                Landed::Refused(problem) => Some(problem.code()),
                _ => None,
            };
            emitting.emit_with(finished.signal, code);
            if finished.released {
                emitting.emit(Signal::Released);
            }
            drop(permit);
            leader.land(Arc::new(finished.landed));
            finished.own
        };
        let own = match ticket.detached(task).await {
            Ok(own) => own,
            Err(panic) => {
                faults::let_through(panic);
                return ticket.end(Signal::StoreFailure, &Problem::new(Code::StoreUnavailable));
            }
        };
        faults::point("answer");
        match own {
            Some((response, expires_at)) => {
                faults::remember(&ticket.digest, &response);
                response.into_response(expires_at)
            }
            None => match follower.answer(None).await {
                Ok(landed) => ticket.answer(&landed).await.0,
                Err(_) => ticket.refuse(&Problem::new(Code::StoreUnavailable)),
            },
        }
    }

    /// A problem that names the operation where there is one to be asked about.
    pub(crate) fn problem(&self, code: Code, id: RecordId) -> Problem {
        let problem = Problem::new(code);
        let has_state = match code {
            Code::OutcomeUnknown => true,
            // A transaction's state is seen by nobody before it ends.
            Code::KeyInProgress => self.recovers,
            _ => false,
        };
        match &self.idempotency.shared.settings.status_link {
            Some(base) if has_state => {
                problem.status_link(base.join(&OperationId::of(id).to_string()))
            }
            _ => problem,
        }
    }

    /// Runs a future that no disconnect can drop.
    fn detached<T: Send + 'static>(
        &self,
        attempt: impl Future<Output = T> + Send + 'static,
    ) -> Detached<T> {
        Detached::new(&self.idempotency.shared.tasks, attempt)
    }

    fn permit(&self) -> Option<tokio::sync::OwnedSemaphorePermit> {
        let shared = &self.idempotency.shared;
        if shared.tasks.is_closed() {
            return None;
        }
        shared.in_flight.clone().try_acquire_owned().ok()
    }

    /// A duplicate of a request that runs in this process.
    async fn wait(self, follower: Follower<Landed>, id: RecordId) -> Response {
        let shared = &self.idempotency.shared;
        let Ok(permit) = shared.waiting.try_acquire() else {
            return self.overloaded();
        };
        let wait = self.rules.wait;
        let answer = match self.rules.in_flight {
            // Not for a handler; whether one runs is known soon.
            InFlight::Reject => follower.answer_unless_claimed(wait).await,
            InFlight::Wait => follower.answer(Some(wait)).await,
        };
        drop(permit);
        match answer {
            Ok(landed) => {
                let (response, signal, code) = self.answer(&landed).await;
                self.emit_with(signal, code);
                response
            }
            Err(NoAnswer::StillInFlight) => {
                let problem = self.problem(Code::KeyInProgress, id);
                self.end(Signal::PendingDuplicate, &problem)
            }
            Err(NoAnswer::Gone) => {
                self.end(Signal::StoreFailure, &Problem::new(Code::StoreUnavailable))
            }
        }
    }

    /// The answer of somebody else's attempt, and what it is to this request.
    async fn answer(&self, landed: &Landed) -> (Response, Signal, Option<Code>) {
        match landed {
            Landed::Completed(completed) => match self.replay(completed).await {
                Ok(response) => (response, Signal::Replayed, None),
                Err(problem) => {
                    let signal = match problem.code() {
                        Code::Overloaded => Signal::Overloaded,
                        _ => Signal::StoreFailure,
                    };
                    (self.refuse(&problem), signal, Some(problem.code()))
                }
            },
            Landed::Unstored(response) => {
                let response = response.shared(&self.idempotency.shared.settings.headers);
                (response.into_response(None), Signal::PendingDuplicate, None)
            }
            Landed::Refused(problem) => {
                let signal = match problem.code() {
                    Code::KeyReused => Signal::Mismatch,
                    Code::KeyExpired => Signal::Expired,
                    Code::OutcomeUnknown => Signal::Unresolved,
                    Code::StoreUnavailable | Code::StoreNotMigrated => Signal::StoreFailure,
                    Code::Overloaded => Signal::Overloaded,
                    _ => Signal::PendingDuplicate,
                };
                (self.refuse(problem), signal, Some(problem.code()))
            }
        }
    }

    /// A stored answer, sent again or built again.
    pub(crate) async fn replay(&self, completed: &Completed) -> Result<Response, Problem> {
        if let Some((headers, body)) = &completed.content {
            let stored = StoredResponse {
                status: completed.status,
                headers: headers.clone(),
                body: body.clone(),
            };
            return stored.into_response(completed.expires_at).map_err(|error| {
                tracing::error!(target: "idem", operation = self.spec.name, %error, "a stored answer can't be read");
                Problem::new(Code::StoreUnavailable)
            });
        }
        self.rebuild(completed).await
    }

    async fn rebuild(&self, completed: &Completed) -> Result<Response, Problem> {
        let settings = &self.idempotency.shared.settings;
        let status = http::StatusCode::from_u16(completed.status)
            .map_err(|_| Problem::new(Code::StoreUnavailable))?;
        let Some(rebuild) = self.rebuild else {
            // Stored by a handler that had `replay_with`, which this one has no more: the status is all.
            return StoredResponse::empty(status)
                .into_response(completed.expires_at)
                .map_err(|_| Problem::new(Code::StoreUnavailable));
        };
        // It runs code of the application's, as a handler does; not refused while draining, as what is in flight is answered.
        let in_flight = self.idempotency.shared.in_flight.clone();
        let Ok(permit) = in_flight.try_acquire_owned() else {
            return Err(Problem::new(Code::Overloaded));
        };
        let limit = tokio::time::Instant::now() + settings.store_timeout;
        let (idempotency, time) = (self.idempotency.clone(), self.rules.timeout);
        let replay = Replay::new(status, completed.resources.clone());
        // What it would write is rolled back: a replay has no effect. Detached, as every begin.
        let read = async move {
            let mut connection = idempotency.connection(limit).await?;
            let read = async |connection: &mut DB::Connection| {
                let mut reading = connection.begin().await?;
                let response = rebuild(&mut reading, &replay).await;
                reading.rollback().await?;
                Ok(response)
            };
            let read = tokio::time::timeout(time, idempotency.apart(&mut connection, read)).await;
            drop(permit);
            if !matches!(read, Ok(Ok(_))) {
                connection.close_on_drop();
            }
            match read {
                Ok(read) => read.map_err(StoreError::Database),
                Err(_) => Err(StoreError::TimedOut("an answer that is built again")),
            }
        };
        let Ok(read) = self.detached(read).await else {
            return Err(Problem::new(Code::HandlerPanicked));
        };
        let mut response = read.map_err(|error| {
            error.log(self.spec.name, "an answer could not be rebuilt");
            Problem::new(error.code())
        })?;
        if response.status().is_success() {
            *response.status_mut() = status;
        }
        crate::response::mark_replayed(&mut response, completed.expires_at);
        Ok(response)
    }

    /// How long it waits for its turn to write, where the engine has one writer.
    pub(crate) fn patience(&self) -> Duration {
        let settings = &self.idempotency.shared.settings;
        settings.writer_timeout.min(self.rules.timeout)
    }

    pub(crate) fn refuse(&self, problem: &Problem) -> Response {
        problem
            .clone()
            .into_response(&self.idempotency.shared.settings.problems)
    }

    fn overloaded(&self) -> Response {
        self.end(Signal::Overloaded, &Problem::new(Code::Overloaded))
    }

    /// Refuses the request, and says so.
    fn end(&self, signal: Signal, problem: &Problem) -> Response {
        self.emit_with(signal, Some(problem.code()));
        self.refuse(problem)
    }

    pub(crate) fn emit(&self, signal: Signal) {
        self.emit_with(signal, None);
    }

    fn emit_with(&self, signal: Signal, code: Option<Code>) {
        let elapsed = self.started.elapsed();
        signal.emit_with(self.spec.name, &self.digest, elapsed, code);
    }
}
