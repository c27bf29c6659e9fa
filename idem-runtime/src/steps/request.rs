//! A request for a handler with recovery points: it claims its key, and runs the operation's first attempt.

use axum::response::Response;
use futures_util::FutureExt;
use tokio::time::Instant;

use super::attempt::{Again, Attempt, Ended};
use super::core::Clock;
use super::stop::Interrupt;
use super::{Journal, Steps, seal};
use crate::accept::{Buffered, Finished, Landed, Mode, Ticket};
use crate::atomic::{self, POLL, new_owner};
use crate::backend::operations::{Fence, Start, Started};
use crate::backend::{self, Backend, Claim, Record};
use crate::backoff::{Doubt, jitter};
use crate::call::{Authorized, Prepare};
use crate::faults;
use crate::idempotency::StoreError;
use crate::operation::InFlight;
use crate::options;
use crate::outbox::TraceContext;
use crate::problem::{Code, Problem};
use crate::telemetry::Signal;
use crate::tx::Handle;

impl<DB: Backend, E: 'static> Handle for Steps<DB, E> {
    type Db = DB;
    const RECOVERS: bool = true;

    async fn run(request: Authorized<Self>) -> Response {
        crate::accept::accept(request).await
    }
}

impl<DB: Backend, E: 'static> Mode for Steps<DB, E> {
    fn attempt(
        attempt: atomic::Attempt<DB>,
        prepare: Prepare<Self>,
    ) -> impl Future<Output = Finished> + Send {
        operate(attempt, prepare)
    }

    async fn unprotected(ticket: Ticket<DB>, _: Buffered, _: Prepare<Self>) -> (Response, Signal) {
        // The attribute refuses `key = "optional"` for these handlers.
        let problem = Problem::new(Code::KeyMissing);
        (ticket.refuse(&problem), Signal::Refused)
    }
}

/// Where a claim led.
enum Claimed {
    Won(Fence, Clock),
    Finished(Box<Finished>),
}

async fn operate<DB: Backend, E: 'static>(
    request: atomic::Attempt<DB>,
    mut prepare: Prepare<Steps<DB, E>>,
) -> Finished {
    let shared = request.ticket.idempotency.shared.clone();
    let mut in_flight = false;
    if DB::SINGLE_WRITER || shared.recent.contains(&request.id) {
        let idempotency = &request.ticket.idempotency;
        let looked = idempotency.look(&request.id, request.limit()).await;
        let judged = looked.and_then(|record| {
            // Where there is one writer, a claim would wait for a step's transaction only to learn this.
            in_flight = record.as_ref().is_some_and(Record::is_in_flight);
            match record {
                Some(record) => request.judge(&record, &Vec::new(), false),
                None => Ok(None),
            }
        });
        match judged {
            Ok(Some(finished)) => return finished,
            Ok(None) => {}
            Err(error) => return request.store_failure(&error),
        }
    }
    let mut ready = match prepare(&request.buffered.parts, &request.buffered.body).await {
        Ok(ready) => ready,
        Err(rejection) => return request.rejected(rejection).await,
    };
    let inputs = match ready.inputs.take().map(super::Inputs::encode) {
        Some(Ok(inputs)) => inputs,
        Some(Err(error)) => {
            tracing::error!(target: "idem", operation = request.ticket.spec.name, %error, "the arguments of a handler can't be stored");
            return request.refused(Code::StepNotStorable, Signal::Accepted);
        }
        None => unreachable!("a handler with recovery points says how its arguments are stored"),
    };
    let (fence, clock) = match claim(&request, &inputs, in_flight).await {
        Ok(Claimed::Won(fence, clock)) => (fence, clock),
        Ok(Claimed::Finished(finished)) => return *finished,
        Err(error) => return request.store_failure(&error),
    };
    drop(inputs);
    request.claiming.claimed();
    let attempt = Attempt {
        idempotency: request.ticket.idempotency.clone(),
        spec: request.ticket.spec,
        rules: request.ticket.rules,
        digest: request.ticket.digest.clone(),
        fence,
        operation_id: request.operation_id,
        journal: Journal::default(),
        clock,
        tries: 1,
        rebuilds: request.ticket.rebuild.is_some(),
        shutdown: None,
        trace: TraceContext::of(&request.buffered.parts.headers),
    };
    let buffered = request.buffered.clone();
    let mut first = Some(ready);
    let again: Again<DB, E> = Box::new(move || match first.take() {
        Some(ready) => std::future::ready(Ok(ready)).boxed(),
        None => {
            let prepared = prepare(&buffered.parts, &buffered.body);
            async move { prepared.await.map_err(rejected_now) }.boxed()
        }
    });
    let ended = attempt.run(again).await;
    finished(&request, ended).await
}

/// The extractors let the request in once: what they say now must not decide.
fn rejected_now(_: Response) -> Interrupt {
    let reason = "an extractor refused the request that it had let in";
    Interrupt::Later(std::time::Duration::ZERO, reason.to_owned())
}

/// Claims the key, or finds out what has it. Waits for another's answer up to the operation's `wait`. `in_flight`: there is
/// another.
async fn claim<DB: Backend>(
    request: &atomic::Attempt<DB>,
    inputs: &[u8],
    mut in_flight: bool,
) -> Result<Claimed, StoreError> {
    let ticket = &request.ticket;
    let idempotency = &ticket.idempotency;
    let settings = &idempotency.shared.settings;
    let options = options::encode(ticket.spec);
    let owner = new_owner();
    let claim = Claim {
        id: &request.id,
        scope: &request.scope,
        operation: ticket.spec.name,
        fingerprint: &request.fingerprint,
        fingerprint_options: options.as_deref(),
        owner,
        lock_namespace: settings.lock_namespace(),
    };
    let sealed = seal(idempotency, &request.id, b"inputs", inputs)?;
    let start = Start {
        operation_id: request.operation_id,
        definition: ticket.spec.definition,
        inputs: &sealed.bytes,
        sealed: sealed.is_sealed,
        lease: settings.lease,
    };
    let fence = Fence {
        id: request.id,
        attempt: 1,
        owner,
    };
    let in_progress = || {
        Claimed::Finished(Box::new(
            request.refused(Code::KeyInProgress, Signal::PendingDuplicate),
        ))
    };
    let wait_until = Instant::now() + ticket.rules.wait;
    let mut pause = POLL.0;
    let mut doubt = Doubt::of::<DB>();
    loop {
        let started = if std::mem::take(&mut in_flight) {
            Ok(Started::InFlight)
        } else {
            let limit = request.limit();
            faults::point("claim.before");
            let mut alone = idempotency.alone_within(limit, ticket.patience()).await?;
            let started = alone.run(limit, async |connection: &mut DB::Connection| {
                DB::start(connection, &claim, &start).await
            });
            let started = started.await;
            drop(alone);
            faults::point("claim.after");
            started
        };
        match started {
            Ok(Started::Won { now, .. }) => return Ok(Claimed::Won(fence, Clock::new(now))),
            Ok(Started::Held(record)) => {
                if let Some(finished) = request.judge(&record, &Vec::new(), false)? {
                    return Ok(Claimed::Finished(Box::new(finished)));
                }
            }
            Ok(Started::InFlight) if !doubt.is_over() => {
                doubt.pause().await;
                continue;
            }
            Ok(Started::InFlight) => {}
            Err(StoreError::Database(error)) if backend::asks_to_run_again(&error) => {}
            // It may have been committed all the same.
            Err(error) => {
                return match begun(request, &fence).await {
                    Ok(Some(clock)) => Ok(Claimed::Won(fence, clock)),
                    _ => Err(error),
                };
            }
        }
        if ticket.rules.in_flight == InFlight::Reject || Instant::now() >= wait_until {
            return Ok(in_progress());
        }
        tokio::time::sleep(jitter(pause)).await;
        pause = (pause * 2).min(POLL.1);
        // A look costs less than a claim.
        while let Some(record) = idempotency.look(&request.id, request.limit()).await? {
            match request.judge(&record, &Vec::new(), false)? {
                Some(finished) => return Ok(Claimed::Finished(Box::new(finished))),
                None if !record.is_in_flight() => break,
                None if Instant::now() >= wait_until => return Ok(in_progress()),
                None => {}
            }
            tokio::time::sleep(jitter(pause)).await;
            pause = (pause * 2).min(POLL.1);
        }
    }
}

/// Whether a claim of which nothing was heard took place.
async fn begun<DB: Backend>(
    request: &atomic::Attempt<DB>,
    fence: &Fence,
) -> Result<Option<Clock>, StoreError> {
    let limit = request.limit();
    let mut alone = request.ticket.idempotency.alone(limit).await?;
    let row = alone.run(limit, async |connection: &mut DB::Connection| {
        DB::inspect(connection, &fence.id).await
    });
    let row = row.await?;
    Ok(row
        .filter(|row| (row.attempt, row.owner) == (fence.attempt, fence.owner))
        .map(|row| Clock::new(row.now)))
}

/// What an ended attempt is to its request.
async fn finished<DB: Backend>(request: &atomic::Attempt<DB>, ended: Ended) -> Finished {
    match ended {
        Ended::Completed(completed, response) => {
            request.ticket.idempotency.shared.recent.insert(&request.id);
            let expires_at = completed.expires_at;
            Finished {
                landed: Landed::Completed(completed),
                own: Some((response, expires_at)),
                signal: Signal::Accepted,
                released: false,
            }
        }
        Ended::Released(response) => Finished::unstored(response),
        Ended::Refused(problem) => Finished {
            released: true,
            ..Finished::refused(problem, Signal::Accepted)
        },
        Ended::Unknown => match request.look(request.limit(), &Vec::new(), false).await {
            Ok(Some(finished)) => finished,
            Ok(None) => request.refused(Code::OutcomeUnknown, Signal::Unresolved),
            Err(error) => request.late_failure(&error),
        },
        // Somebody else has it, or will: the request is answered as any other that comes now.
        Ended::Elsewhere | Ended::Later => {
            match request.look(request.limit(), &Vec::new(), true).await {
                Ok(Some(finished)) => finished,
                Ok(None) => request.refused(Code::KeyInProgress, Signal::PendingDuplicate),
                Err(error) => request.late_failure(&error),
            }
        }
        Ended::Store(error) => request.late_failure(&error),
    }
}
