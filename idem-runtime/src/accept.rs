//! From an authorized request to its answer: key, body, fingerprint, and who runs.

mod answers;
mod buffered;
mod mode;

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::response::Response;
use bytes::Bytes;

use crate::atomic::Attempt;
use crate::backend::Backend;
use crate::call::{Authorized, Prepare, Rebuild};
use crate::detach::Detached;
use crate::faults::{self, Plant};
use crate::fingerprint::{Fingerprint, FingerprintOptions};
use crate::flight::{Follower, Joined, NoAnswer};
use crate::idempotency::{Idempotency, Rules};
use crate::key::IdempotencyKey;
use crate::operation::{InFlight, KeyRequirement, KeySpace, Spec};
use crate::operations::OperationId;
use crate::problem::{Code, Problem};
use crate::region::{self, Misdirected};
use crate::response::CapturedResponse;
use crate::scope::{self, RecordId, ScopeKey};
use crate::telemetry::Signal;

pub(crate) use self::buffered::Buffered;
use self::buffered::buffer;
pub(crate) use self::mode::Mode;

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
