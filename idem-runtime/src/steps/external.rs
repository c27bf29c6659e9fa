//! A call of another service, once or as often as is safe.

use std::future::poll_fn;
use std::marker::PhantomData;
use std::ops::AsyncFnOnce;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use tokio::time::Instant;

use super::journal::{self, Call, Entry, Kind, StepState};
use super::outcome::{CallFailure, Classify, Reconciled, StepData};
use super::stop::Interrupt;
use super::{Core, DownstreamKey, Entered, Steps};
use crate::atomic::jitter;
use crate::backend::{self, Backend};
use crate::capability::External;
use crate::faults::{self, Plant};
use crate::problem::Code;

/// How often one attempt calls on after an unknown outcome, where that is safe.
const CALLS: u32 = 3;
/// The first pause after an unknown outcome; it doubles.
const PAUSE: Duration = Duration::from_millis(100);
/// When the provider could not be asked, how much later it is.
const ASK_AGAIN: Duration = Duration::from_secs(5);

/// What an external step that was refused for the moment does: [`Retry::times`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retry {
    times: u32,
    pause: Duration,
}

impl Retry {
    /// Calls again at most so often, after 200 milliseconds and then twice as long each time, a half of it more or less.
    #[must_use]
    pub const fn times(times: u32) -> Self {
        Self {
            times,
            pause: Duration::from_millis(200),
        }
    }

    /// The pause before the first repeat.
    #[must_use]
    pub const fn pause(mut self, pause: Duration) -> Self {
        self.pause = pause;
        self
    }
}

/// Marks a step that does not say what follows a lost answer.
#[derive(Debug)]
pub enum Undeclared {}
/// Marks one that does.
#[derive(Debug)]
pub enum Declared {}

/// What follows a lost answer is declared.
#[diagnostic::on_unimplemented(
    message = "this external step does not say what follows a lost answer",
    label = "add `.key_lifetime(..)`, `.reconcile(..)` or `.at_most_once()` before `.call(..)`",
    note = "`key_lifetime`: the service honours the key for so long, and calling again with it is safe",
    note = "`reconcile`: the service can be asked whether the call took place",
    note = "`at_most_once`: neither; after a lost answer the operation is kept as unknown"
)]
pub trait Policy {}
impl Policy for Declared {}

/// No `reconcile`.
#[derive(Clone, Copy, Debug)]
pub struct NoReconcile;
/// With `reconcile`.
#[derive(Clone, Copy, Debug)]
pub struct With<F>(F);

/// How a step asks its provider, if it can.
pub trait Reconcile<C: ?Sized, T, X> {
    /// `None`: it can't ask.
    fn ask(
        &self,
        client: &C,
        key: &DownstreamKey,
    ) -> impl Future<Output = Option<Result<Reconciled<T>, X>>>;
}

impl<C: ?Sized, T, X> Reconcile<C, T, X> for NoReconcile {
    async fn ask(&self, _: &C, _: &DownstreamKey) -> Option<Result<Reconciled<T>, X>> {
        None
    }
}

impl<C: ?Sized, T, X, F> Reconcile<C, T, X> for With<F>
where
    F: AsyncFnOnce(&C, &DownstreamKey) -> Result<Reconciled<T>, X> + Clone,
{
    async fn ask(&self, client: &C, key: &DownstreamKey) -> Option<Result<Reconciled<T>, X>> {
        Some(self.0.clone()(client, key).await)
    }
}

/// An external step, before its call. Made by [`Steps::external`].
#[must_use = "an external step does nothing until `.call(..)`"]
pub struct ExternalStep<'s, DB: Backend, E, C: ?Sized, I, P, R> {
    steps: &'s mut Steps<DB, E>,
    name: &'static str,
    client: &'s External<C>,
    input: I,
    lifetime: Option<Duration>,
    reconcile: R,
    timeout: Duration,
    in_flight_limit: Option<Duration>,
    retry: Retry,
    policy: PhantomData<P>,
}

impl<DB: Backend, E> Steps<DB, E> {
    /// Begins a call of another service. `input` is what the call depends on: it is stored before the call, and every
    /// attempt sends what was stored.
    ///
    /// ```
    /// # #[cfg(feature = "sqlite")] mod example {
    /// # use idem_runtime::{External, steps::{CallFailure, Classify, DownstreamKey, Reconciled, Steps}};
    /// # use serde::{Deserialize, Serialize};
    /// # use std::time::Duration;
    /// # use sqlx::Sqlite;
    /// # #[derive(Serialize, Deserialize)] struct ChargeRequest { cents: i64 }
    /// # #[derive(Serialize, Deserialize)] struct Charge { id: String }
    /// # #[derive(Debug, Serialize, Deserialize)] struct Declined;
    /// # struct GatewayError;
    /// # impl Classify for GatewayError {
    /// #     type Refusal = Declined;
    /// #     fn classify(self) -> CallFailure<Declined> { CallFailure::Refused(Declined) }
    /// # }
    /// # struct Gateway;
    /// # impl Gateway {
    /// #     async fn charge(&self, _: &DownstreamKey, _: &ChargeRequest) -> Result<Charge, GatewayError> { todo!() }
    /// #     async fn find(&self, _: &DownstreamKey) -> Result<Reconciled<Charge>, GatewayError> { todo!() }
    /// # }
    /// async fn charge(steps: &mut Steps<Sqlite, Declined>, gateway: &External<Gateway>) -> Result<Charge, Declined> {
    ///     steps
    ///         .external("charge", gateway, ChargeRequest { cents: 1250 })
    ///         .key_lifetime(Duration::from_secs(24 * 3600))
    ///         .reconcile(async |gateway: &Gateway, key: &DownstreamKey| gateway.find(key).await)
    ///         .call(async |gateway: &Gateway, key: &DownstreamKey, input: &ChargeRequest| gateway.charge(key, input).await)
    ///         .await
    /// }
    /// # }
    /// ```
    pub fn external<'s, C: ?Sized, I: StepData>(
        &'s mut self,
        name: &'static str,
        client: &'s External<C>,
        input: I,
    ) -> ExternalStep<'s, DB, E, C, I, Undeclared, NoReconcile> {
        ExternalStep {
            steps: self,
            name,
            client,
            input,
            lifetime: None,
            reconcile: NoReconcile,
            timeout: Duration::from_secs(30),
            in_flight_limit: None,
            retry: Retry::times(0),
            policy: PhantomData,
        }
    }
}

impl<'s, DB: Backend, E, C: ?Sized, I, P, R> ExternalStep<'s, DB, E, C, I, P, R> {
    /// For so long after the first call the service honours the key: calling again with it has no second effect.
    pub fn key_lifetime(self, lifetime: Duration) -> ExternalStep<'s, DB, E, C, I, Declared, R> {
        let mut step = self.declared(|reconcile| reconcile);
        step.lifetime = Some(lifetime);
        step
    }

    /// The service can be asked whether a call with the key took place.
    pub fn reconcile<T, X, F>(self, ask: F) -> ExternalStep<'s, DB, E, C, I, Declared, With<F>>
    where
        F: AsyncFnOnce(&C, &DownstreamKey) -> Result<Reconciled<T>, X> + Clone,
    {
        self.declared(|_| With(ask))
    }

    /// The service neither honours the key nor can be asked: after a lost answer the operation is kept as *unknown*, and
    /// nothing calls the service again until an operator resolves it.
    pub fn at_most_once(self) -> ExternalStep<'s, DB, E, C, I, Declared, R> {
        self.declared(|reconcile| reconcile)
    }

    /// How long one call may take: 30 seconds unless said. A call that takes longer is dropped, and its outcome unknown.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// How long after it was sent a request may still arrive: twice the time-out unless said. Until then the service's word
    /// that there was no call is not believed; and no call begins so late that it could end after it.
    pub fn in_flight_limit(mut self, limit: Duration) -> Self {
        self.in_flight_limit = Some(limit);
        self
    }

    /// What follows [`CallFailure::NotYet`]. Unless said, the step ends with the refusal.
    pub fn retry(mut self, retry: Retry) -> Self {
        self.retry = retry;
        self
    }

    fn declared<Q, S>(self, reconcile: impl FnOnce(R) -> S) -> ExternalStep<'s, DB, E, C, I, Q, S> {
        ExternalStep {
            steps: self.steps,
            name: self.name,
            client: self.client,
            input: self.input,
            lifetime: self.lifetime,
            reconcile: reconcile(self.reconcile),
            timeout: self.timeout,
            in_flight_limit: self.in_flight_limit,
            retry: self.retry,
            policy: PhantomData,
        }
    }

    /// Calls the service, and records what became of it. The first result that is recorded is returned to every run of the
    /// handler.
    ///
    /// # Errors
    ///
    /// What the service refused with. A lost answer is never returned: the handler is stopped, and run again when more is
    /// known, or the operation is kept as *unknown*.
    ///
    /// # Cancel safety
    ///
    /// Not cancel safe: when the future is dropped half way, the call's outcome is unknown, and the next step stops the
    /// handler, which is then run again later.
    pub async fn call<T, X, F>(self, call: F) -> Result<T, X::Refusal>
    where
        F: AsyncFnOnce(&C, &DownstreamKey, &I) -> Result<T, X> + Clone,
        P: Policy,
        I: StepData,
        T: StepData,
        X: Classify,
        R: Reconcile<C, T, X>,
    {
        let limit = self.in_flight_limit.unwrap_or(self.timeout * 2);
        let rules = Rules {
            name: self.name,
            lifetime: self.lifetime,
            timeout: self.timeout,
            // No call could begin early enough for a shorter one.
            limit: limit.max(self.timeout + self.timeout / 2),
        };
        let core = &mut self.steps.core;
        let client = self.client.open();
        let (key, input, mut resumed) = match begin(core, &rules, &self.input).await {
            Begun::Done => {
                let value = core.recorded(rules.name).await;
                core.leave();
                return Ok(value);
            }
            Begun::Refused => {
                let refusal = core.recorded(rules.name).await;
                core.leave();
                return Err(refusal);
            }
            Begun::Call {
                key,
                input,
                resumed,
            } => (key, input, resumed),
        };
        let mut intended = Instant::now();
        let mut unknown = 0;
        let mut refused = 0;
        loop {
            if resumed {
                if rules.honours_key(core) {
                    // Also the proof that the operation is still this attempt's.
                    intend_again(core).await;
                } else {
                    // Before the question: what arrives while it is asked is not in the answer.
                    let in_flight = rules.still_in_flight(core);
                    faults::point("reconcile.before");
                    match guarded(rules.timeout, self.reconcile.ask(client, &key)).await {
                        Some(None) => {
                            let reason = rules.lost(core);
                            return core.halt(Interrupt::Unknown(reason)).await;
                        }
                        Some(Some(Ok(Reconciled::Found(value)))) => {
                            return done(core, &rules, value).await;
                        }
                        Some(Some(Ok(Reconciled::Absent))) => {
                            if let Some(left) = in_flight {
                                let reason = format!(
                                    "the request of step `{}` may still arrive",
                                    rules.name
                                );
                                return core.halt(Interrupt::Later(left, reason)).await;
                            }
                            intend_again(core).await;
                        }
                        Some(Some(Ok(Reconciled::CannotTell(reason)))) => {
                            let reason = format!(
                                "whether step `{}` took place can't be told: {reason}",
                                rules.name
                            );
                            return core.halt(Interrupt::Unknown(reason)).await;
                        }
                        Some(Some(Err(_))) | None => {
                            let reason =
                                format!("the service of step `{}` could not be asked", rules.name);
                            return core.halt(Interrupt::Later(ASK_AGAIN, reason)).await;
                        }
                    }
                }
                intended = Instant::now();
            }
            faults::point("call.before");
            // A process that was stopped between the record and the call must not call any more: its request would arrive too
            // late, or beside another owner's.
            if intended.elapsed() > ((rules.limit - rules.timeout) / 2).min(core.lease / 2) {
                let reason = format!("step `{}` was held up before its call", rules.name);
                return core.halt(Interrupt::Later(Duration::ZERO, reason)).await;
            }
            let calling = (!rules.honours_key(core)).then(|| core.progress.calling());
            let answer = guarded(rules.timeout, call.clone()(client, &key, &input)).await;
            faults::point("call.after");
            let failure = match answer {
                Some(Ok(value)) => return done(core, &rules, value).await,
                Some(Err(error)) => error.classify(),
                None => CallFailure::Unknown(format!("no answer within {:?}", rules.timeout)),
            };
            if !matches!(failure, CallFailure::Refused(_)) {
                drop(calling);
            }
            match failure {
                CallFailure::Refused(refusal) => return refuse(core, &rules, refusal).await,
                // It speaks for its own call, and not for one before it of which nothing was heard.
                CallFailure::NotYet { after, .. } if resumed && rules.lifetime.is_some() => {
                    let pause = after.unwrap_or_default().max(PAUSE * 2_u32.pow(CALLS));
                    let reason = format!(
                        "the service of step `{}` could not be called again",
                        rules.name
                    );
                    return core.halt(Interrupt::Later(pause, reason)).await;
                }
                CallFailure::NotYet { refusal, after } => {
                    if refused >= self.retry.times {
                        return refuse(core, &rules, refusal).await;
                    }
                    let pause = self.retry.pause * 2_u32.saturating_pow(refused);
                    refused += 1;
                    tokio::time::sleep(jitter(pause).max(after.unwrap_or_default())).await;
                    // It did not happen: this is a first call again.
                    intend_again(core).await;
                    intended = Instant::now();
                    resumed = false;
                }
                CallFailure::Unknown(reason) => {
                    tracing::warn!(target: "idem", operation = core.operation, step = rules.name, reason, "an outcome is unknown");
                    unknown += 1;
                    if unknown >= CALLS {
                        let pause = PAUSE * 2_u32.saturating_pow(CALLS);
                        return core.halt(Interrupt::Later(pause, reason)).await;
                    }
                    if rules.honours_key(core) {
                        tokio::time::sleep(jitter(PAUSE * 2_u32.pow(unknown))).await;
                    }
                    resumed = true;
                }
            }
        }
    }
}

/// What holds for one step.
struct Rules {
    name: &'static str,
    lifetime: Option<Duration>,
    timeout: Duration,
    limit: Duration,
}

impl Rules {
    /// Whether the service still honours the key when a call that begins now arrives.
    fn honours_key<DB: Backend>(&self, core: &mut Core<DB>) -> bool {
        if faults::planted(Plant::LostIsNothing) {
            return true;
        }
        let Some(lifetime) = self.lifetime else {
            return false;
        };
        let age = age(core, |call| call.first_at);
        age < backend::millis(lifetime.saturating_sub(self.limit))
    }

    /// How long the last request may still arrive.
    fn still_in_flight<DB: Backend>(&self, core: &mut Core<DB>) -> Option<Duration> {
        if faults::planted(Plant::AbsentBelieved) {
            return None;
        }
        let left = backend::millis(self.limit) - age(core, |call| call.last_at);
        // A second more than the clock's own: a limit that is over for this process must be over for all.
        u64::try_from(left)
            .ok()
            .map(|left| Duration::from_millis(left.saturating_add(1)))
    }

    fn lost<DB: Backend>(&self, core: &mut Core<DB>) -> String {
        let seconds = age(core, |call| call.first_at) / 1000;
        match self.lifetime {
            Some(_) => format!(
                "the outcome of step `{}` is unknown, and its key may be forgotten: it was first sent {seconds} s ago",
                self.name
            ),
            None => format!(
                "the outcome of step `{}` is unknown, and it says `at_most_once`",
                self.name
            ),
        }
    }
}

/// How long ago something was, in milliseconds.
fn age<DB: Backend>(core: &mut Core<DB>, of: impl FnOnce(&Call) -> i64) -> i64 {
    let now = core.clock.now();
    let at = core.entry().and_then(|entry| entry.call.as_ref()).map(of);
    now - at.unwrap_or(now)
}

enum Begun<I> {
    Done,
    Refused,
    Call {
        key: DownstreamKey,
        input: I,
        /// It was begun by an earlier attempt, or an earlier run.
        resumed: bool,
    },
}

/// Comes to the step, and records that it is begun if it is not.
async fn begin<DB: Backend, I: StepData>(
    core: &mut Core<DB>,
    rules: &Rules,
    input: &I,
) -> Begun<I> {
    let entered = core.enter(rules.name, Kind::External).await;
    let stored = journal::through_storage(input)
        .and_then(|(stored, input)| Ok((journal::digest_of(&stored)?, stored, input)));
    let (digest, stored, input) = match stored {
        Ok(stored) => stored,
        Err(error) => {
            let reason = format!(
                "the input of step `{}` can't be stored: {error}",
                rules.name
            );
            return core
                .halt(Interrupt::Fault(Code::StepNotStorable, reason))
                .await;
        }
    };
    if let Entered::Recorded(state) = entered {
        let call = core.entry().and_then(|entry| entry.call.clone());
        let Some(call) = call.filter(|call| call.digest == digest) else {
            let reason = format!(
                "step `{}` has another input than when it was begun",
                rules.name
            );
            return core.halt(Interrupt::Unknown(reason)).await;
        };
        return match state {
            StepState::Done => Begun::Done,
            StepState::Refused => Begun::Refused,
            StepState::Begun | StepState::Failed => {
                let sent = call.input.as_deref().map(journal::read::<I>);
                let Some(Ok(input)) = sent else {
                    let reason = format!(
                        "the input that step `{}` was begun with can't be read now",
                        rules.name
                    );
                    return core.halt(Interrupt::Unknown(reason)).await;
                };
                let key = if faults::planted(Plant::KeyOfAttempt) {
                    DownstreamKey::derive(core.operation_id, rules.name, u32::MAX)
                } else {
                    DownstreamKey::stored(call.key)
                };
                Begun::Call {
                    key,
                    input,
                    resumed: true,
                }
            }
        };
    }
    let ordinal = core.journal.ordinal(rules.name, core.taken);
    let key = DownstreamKey::derive(core.operation_id, rules.name, ordinal);
    let now = core.clock.now();
    core.journal.steps.push(Entry {
        name: rules.name.to_owned(),
        kind: Kind::External,
        state: StepState::Begun,
        value: None,
        call: Some(Call {
            key: key.as_uuid(),
            input: Some(stored),
            limit: backend::millis(rules.limit),
            digest,
            first_at: now,
            last_at: now,
        }),
        decided: false,
    });
    core.dirty = true;
    if !faults::planted(Plant::IntentLater) {
        core.flush().await;
    }
    Begun::Call {
        key,
        input,
        resumed: false,
    }
}

/// Records that the service will be called, once more or anew.
async fn intend_again<DB: Backend>(core: &mut Core<DB>) {
    let now = core.clock.now();
    if let Some(call) = core.entry().and_then(|entry| entry.call.as_mut()) {
        call.last_at = now;
    }
    core.dirty = true;
    core.flush().await;
}

async fn done<DB: Backend, T: StepData, R>(
    core: &mut Core<DB>,
    rules: &Rules,
    value: T,
) -> Result<T, R> {
    let (stored, value) = match journal::through_storage(&value) {
        Ok(stored) => stored,
        Err(error) => {
            let reason = format!(
                "step `{}` took place, and its result can't be stored: {error}",
                rules.name
            );
            return core.halt(Interrupt::Unknown(reason)).await;
        }
    };
    end(core, rules, StepState::Done, stored).await;
    Ok(value)
}

async fn refuse<DB: Backend, T, R: StepData>(
    core: &mut Core<DB>,
    rules: &Rules,
    refusal: R,
) -> Result<T, R> {
    let (stored, refusal) = match journal::through_storage(&refusal) {
        Ok(stored) => stored,
        Err(error) => {
            let reason = format!(
                "step `{}` was refused, and the refusal can't be stored: {error}",
                rules.name
            );
            return core.halt(Interrupt::Unknown(reason)).await;
        }
    };
    end(core, rules, StepState::Refused, stored).await;
    Err(refusal)
}

async fn end<DB: Backend>(
    core: &mut Core<DB>,
    rules: &Rules,
    state: StepState,
    value: Box<serde_json::value::RawValue>,
) {
    if let Some(entry) = core.entry() {
        entry.end(state, value);
    }
    core.dirty = true;
    // Where the service honours the key, a call that is not recorded is called again and changes nothing.
    if !(state == StepState::Done && rules.honours_key(core)) {
        core.late = (state == StepState::Done).then_some(rules.name);
        core.flush().await;
        core.late = None;
    }
    core.leave();
}

/// Runs a call for so long. When the time is over it is not polled again: a process that was stopped meanwhile must not
/// send what it had not sent yet. `None`: the time is over.
async fn guarded<T>(time: Duration, call: impl Future<Output = T>) -> Option<T> {
    let end = Instant::now() + time;
    let mut call = pin!(call);
    let mut sleep = pin!(tokio::time::sleep_until(end));
    poll_fn(|context| {
        if Instant::now() >= end || sleep.as_mut().poll(context).is_ready() {
            return Poll::Ready(None);
        }
        call.as_mut().poll(context).map(Some)
    })
    .await
}
