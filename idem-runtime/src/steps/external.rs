//! A call of another service, once or as often as is safe.

mod policy;
mod record;

use std::future::Ready;
use std::marker::PhantomData;
use std::ops::AsyncFnOnce;
use std::time::Duration;

use tokio::time::Instant;

use self::policy::Missing;
pub(super) use self::policy::{Declared, NoReconcile, Reconcile, Undeclared, With};
pub use self::policy::{Policy, Retry};
use self::record::{Begun, Rules, Source, begin, done, guarded, intend_again, put_off, refuse};
use super::journal::Format;
use super::outcome::{CallFailure, Classify, Reconciled, StepData};
use super::stop::Interrupt;
use super::{DownstreamKey, RunsAgain, Steps};
use crate::backend::Backend;
use crate::backoff::jitter;
use crate::capability::External;
use crate::faults;

/// How often one attempt calls on after an unknown outcome, where that is safe.
const CALLS: u32 = 3;
/// The first pause after an unknown outcome; it doubles.
const PAUSE: Duration = Duration::from_millis(100);
/// When the provider could not be asked, how much later it is.
const ASK_AGAIN: Duration = Duration::from_secs(5);
/// The longest pause that a handler waits for a service; after a longer one it is run again.
const WAIT_HERE: Duration = Duration::from_secs(2);

/// An external step, before its call. Made by [`Steps::external`].
#[must_use = "an external step does nothing until `.call(..)`"]
pub struct ExternalStep<'s, DB: Backend, E, C: ?Sized, I, P, R> {
    steps: &'s mut Steps<DB, E>,
    name: &'static str,
    client: &'s External<C>,
    input: I,
    format: Format<I>,
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
    /// #     async fn charge(&self, _: &DownstreamKey, _: &ChargeRequest) -> Result<Charge, GatewayError> { Ok(Charge { id: "ch_1".to_owned() }) }
    /// #     async fn find(&self, _: &DownstreamKey) -> Result<Reconciled<Charge>, GatewayError> { Ok(Reconciled::Absent) }
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
            format: Format::JSON,
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
        F: AsyncFnOnce(&C, &DownstreamKey) -> Result<Reconciled<T>, X> + RunsAgain,
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
            format: self.format,
            lifetime: self.lifetime,
            reconcile: reconcile(self.reconcile),
            timeout: self.timeout,
            in_flight_limit: self.in_flight_limit,
            retry: self.retry,
            policy: PhantomData,
        }
    }
}

/// The one method that a step without a word on lost answers has no right to, so that the compiler tells that once: the future of
/// an async function would carry the bound, and be told it again where it is made and where it is awaited.
impl<DB: Backend, E, C: ?Sized, I, P: Missing, R> ExternalStep<'_, DB, E, C, I, P, R> {
    #[doc(hidden)]
    pub fn call<T, X, F>(self, _: F) -> Ready<Result<T, X::Refusal>>
    where
        F: AsyncFnOnce(&C, &DownstreamKey, &I) -> Result<T, X> + RunsAgain,
        P: Policy,
        X: Classify,
    {
        unreachable!("nothing is both declared and missing")
    }
}

impl<DB: Backend, E, C: ?Sized, I, R> ExternalStep<'_, DB, E, C, I, Declared, R> {
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
        F: AsyncFnOnce(&C, &DownstreamKey, &I) -> Result<T, X> + RunsAgain,
        T: StepData,
        X: Classify,
        R: Reconcile<C, T, X>,
    {
        let limit = self
            .in_flight_limit
            .unwrap_or(self.timeout.saturating_mul(2));
        let rules = Rules {
            name: self.name,
            lifetime: self.lifetime,
            timeout: self.timeout,
            // No call could begin early enough for a shorter one.
            limit: limit.max(self.timeout.saturating_add(self.timeout / 2)),
        };
        let core = &mut self.steps.core;
        let client = self.client.open();
        let (key, input, mut resumed, mut refused) =
            match begin(core, &rules, &self.input, &self.format).await {
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
                    refused,
                } => (key, input, resumed, refused),
            };
        let mut intended = Instant::now();
        let mut unknown = 0;
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
                            return done(core, &rules, value, Source::Question).await;
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
                Some(Ok(value)) => return done(core, &rules, value, Source::Answer).await,
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
                    let doubled = self
                        .retry
                        .pause
                        .saturating_mul(2_u32.saturating_pow(refused));
                    let pause = jitter(doubled).max(after.unwrap_or_default());
                    refused += 1;
                    // What is recorded now is known to whoever comes after this attempt.
                    if pause > WAIT_HERE || !rules.honours_key(core) {
                        put_off(core, refused).await;
                    }
                    if pause > WAIT_HERE {
                        let reason =
                            format!("the service of step `{}` is to be called later", rules.name);
                        return core.halt(Interrupt::Later(pause, reason)).await;
                    }
                    tokio::time::sleep(pause).await;
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
