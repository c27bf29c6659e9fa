//! One message in one transaction: row → body → commit, again where the database asks for it.
//!
//! Begin, commit and rollback run in tasks of their own: a future that is dropped half way through one would leave its
//! connection in no known state. The body is the caller's, and runs where the caller polls it.

mod transaction;

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use tokio::time::{Instant, timeout};

use self::transaction::{Finish, commits, in_task, take, undo};
use super::errors::InboxError;
use super::identity::Identity;
use crate::atomic::{COMMIT, MAX_RUNS, POLL, new_owner};
use crate::backend::inbox::{Entry, Processed, Taken};
use crate::backend::{self, Backend};
use crate::backoff::jitter;
use crate::faults;
use crate::guard::Watch;
use crate::idempotency::Idempotency;
use crate::settle;
use crate::tx::Tx;

/// A message that is to be processed.
pub(crate) struct Attempt<DB: Backend, T> {
    idempotency: Idempotency<DB>,
    entry: Entry,
    identity: Identity,
    timeout: Duration,
    runs: u32,
    wait_until: Instant,
    /// What runs came to whose commits were not acknowledged, by the owner of their rows.
    unacknowledged: Vec<([u8; 16], T)>,
}

/// Where a begin led.
pub(crate) enum Begun<DB: Backend, T> {
    /// The message is this attempt's.
    Won(Tx<DB>),
    /// It was processed before.
    Duplicate,
    /// It was processed by an earlier run of this attempt, whose commit was not acknowledged.
    Own(T),
}

/// What a body says.
pub(crate) enum Body<T, E> {
    Done(T),
    /// The database asks for another run.
    Again,
    Failed(E),
}

impl<T, E: std::error::Error + 'static> Body<T, E> {
    /// By what the error's chain holds.
    pub(crate) fn of(outcome: Result<T, E>) -> Self {
        match outcome {
            Ok(value) => Self::Done(value),
            Err(error) if settle::asks_to_run_again(&error) => Self::Again,
            Err(error) => Self::Failed(error),
        }
    }
}

/// What a body did with its time.
pub(crate) enum Ran<T, E> {
    Body(Body<T, E>),
    Panicked,
    TimedOut,
    TookConnection,
}

/// How a message ended.
pub(crate) enum Ended<T, E> {
    Done(T),
    Failed(E),
}

impl<DB: Backend, T> Attempt<DB, T> {
    pub(crate) fn new(
        idempotency: &Idempotency<DB>,
        identity: Identity,
        ttl: Duration,
        timeout: Duration,
    ) -> Self {
        let settings = &idempotency.shared.settings;
        Self {
            entry: Entry {
                id: identity.record,
                consumer: identity.consumer.clone(),
                source: identity.source.clone(),
                owner: new_owner(),
                ttl,
                lock_namespace: settings.lock_namespace(),
            },
            wait_until: Instant::now() + settings.wait,
            idempotency: idempotency.clone(),
            identity,
            timeout,
            runs: 0,
            unacknowledged: Vec::new(),
        }
    }

    /// Takes the message, or says that it is processed.
    pub(crate) async fn begin(&mut self) -> Result<Begun<DB, T>, InboxError> {
        // Where one writer at a time is all there is, a duplicate must not wait for its turn.
        if DB::SINGLE_WRITER && self.runs == 0 {
            let limit = self.limit();
            let id = self.entry.id;
            let mut alone = self.idempotency.reading(limit).await?;
            let look = async |connection: &mut DB::Connection| DB::processed(connection, &id).await;
            if let Some(held) = alone.run(limit, look).await? {
                return self.held(&held);
            }
        }
        let mut pause = POLL.0;
        loop {
            self.entry.owner = new_owner();
            let taken = take(
                self.idempotency.clone(),
                self.entry.clone(),
                self.identity.operation_id,
                self.limit(),
            );
            match in_task(taken).await {
                Ok((Taken::Won, Some(tx))) => return Ok(Begun::Won(tx)),
                Ok((Taken::Held(held), _)) => return self.held(&held),
                Ok(_) if Instant::now() >= self.wait_until => return Err(InboxError::InFlight),
                Ok(_) => {
                    tokio::time::sleep(jitter(pause)).await;
                    pause = (pause * 2).min(POLL.1);
                }
                Err(InboxError::Database(error)) if backend::asks_to_run_again(&error) => {
                    self.run_again().await?;
                }
                // What the row says is worth some time: the caller would run again what is done.
                Err(error)
                    if !self.unacknowledged.is_empty() && Instant::now() < self.wait_until =>
                {
                    tracing::warn!(target: "idem", consumer = self.entry.consumer, %error, "a commit's outcome can't be read yet");
                    tokio::time::sleep(jitter(pause)).await;
                    pause = (pause * 2).min(POLL.1);
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Runs a body within its time, watched.
    pub(crate) async fn watched<E>(&self, body: impl Future<Output = Body<T, E>>) -> Ran<T, E> {
        let watch = Arc::new(Watch::default());
        let bounded = timeout(self.timeout, watch.scope(body));
        let ran = match AssertUnwindSafe(bounded).catch_unwind().await {
            Ok(Ok(body)) => Ran::Body(body),
            Ok(Err(_)) => Ran::TimedOut,
            Err(panic) => {
                faults::let_through(panic);
                Ran::Panicked
            }
        };
        faults::point("consumer.after");
        if watch.took_connection() {
            Ran::TookConnection
        } else {
            ran
        }
    }

    /// Commits or rolls back. `None`: it begins anew.
    pub(crate) async fn end<E>(
        &mut self,
        tx: Tx<DB>,
        ran: Ran<T, E>,
    ) -> Result<Option<Ended<T, E>>, InboxError> {
        let commit = matches!(ran, Ran::Body(Body::Done(_)));
        let (cancel, took) = (
            matches!(ran, Ran::TimedOut),
            matches!(ran, Ran::TookConnection),
        );
        let finish = if commit {
            in_task(commits(self.idempotency.clone(), tx, self.entry.clone())).await
        } else {
            let idempotency = self.idempotency.clone();
            in_task(undo(idempotency, tx, self.entry.clone(), cancel)).await
        };
        let lost = match finish {
            _ if took => Some(InboxError::EffectOutsideTransaction),
            Ok(Finish::Failed(InboxError::TransactionEnded)) => Some(InboxError::TransactionEnded),
            _ => None,
        };
        if let Some(lost) = lost {
            self.keep_unknown(&lost).await;
            return Err(lost);
        }
        match (finish?, ran) {
            (Finish::Committed, Ran::Body(Body::Done(value))) => Ok(Some(Ended::Done(value))),
            (Finish::Unacknowledged, Ran::Body(Body::Done(value))) => {
                self.unacknowledged.push((self.entry.owner, value));
                // The body had its time; the row has its own.
                let wait = self.idempotency.shared.settings.wait;
                self.wait_until = Instant::now() + wait.max(COMMIT);
                self.run_again().await?;
                Ok(None)
            }
            (Finish::Failed(error), _) => Err(error),
            (_, Ran::Body(Body::Failed(error))) => Ok(Some(Ended::Failed(error))),
            (_, Ran::Panicked) => Err(InboxError::Panicked),
            (_, Ran::TimedOut) => Err(InboxError::TimedOut(self.timeout)),
            _ => {
                self.run_again().await?;
                Ok(None)
            }
        }
    }

    /// What a row says to this attempt.
    fn held(&mut self, held: &Processed) -> Result<Begun<DB, T>, InboxError> {
        let own = self
            .unacknowledged
            .iter()
            .position(|(owner, _)| owner[..] == held.owner[..]);
        match own {
            Some(own) => Ok(Begun::Own(self.unacknowledged.swap_remove(own).1)),
            None if held.unknown => Err(InboxError::OutcomeUnknown),
            None => Ok(Begun::Duplicate),
        }
    }

    /// Counts a run that the database did not let pass, and pauses.
    async fn run_again(&mut self) -> Result<(), InboxError> {
        self.runs += 1;
        if self.runs >= MAX_RUNS {
            return Err(InboxError::SerializationFailure(MAX_RUNS));
        }
        tokio::time::sleep(jitter(POLL.0 * self.runs)).await;
        Ok(())
    }

    /// Something may be durable that is not in the transaction: a redelivery must not double it.
    async fn keep_unknown(&self, why: &InboxError) {
        let consumer = &self.entry.consumer;
        tracing::error!(target: "idem", consumer, %why, "an effect may have missed the transaction; the message is kept as unknown");
        let (idempotency, entry, limit) =
            (self.idempotency.clone(), self.entry.clone(), self.limit());
        let kept = in_task(async move {
            let mut alone = idempotency.alone(limit).await?;
            let kept = alone.run(limit, async |connection: &mut DB::Connection| {
                DB::keep_unknown(connection, &entry).await
            });
            Ok(kept.await?)
        });
        if let Err(error) = kept.await {
            tracing::error!(target: "idem", consumer, %error, "the message could not be kept as unknown: a redelivery would run again");
        }
    }

    fn limit(&self) -> Instant {
        Instant::now() + self.idempotency.shared.settings.store_timeout
    }
}
