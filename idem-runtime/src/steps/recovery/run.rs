//! One operation that was taken over.

use std::time::Duration;

use futures_util::FutureExt;
use tokio_util::sync::CancellationToken;

use super::super::attempt::{self, Again, Attempt, Ended};
use super::super::core::{Clock, unseal};
use super::super::inputs::{self, Arguments};
use super::super::quotable::quotable;
use super::super::stop::Interrupt;
use super::super::{Journal, Steps};
use super::Recovered;
use crate::backend::Backend;
use crate::backend::operations::{Fence, OperationRow};
use crate::call::Ready;
use crate::idempotency::{Idempotency, StoreError};
use crate::operation::Operation;
use crate::operations::OperationId;
use crate::scope::{NotAScopeKey, ScopeKey};
use crate::telemetry;

/// How soon an operation is looked at again whose account has another home region.
const HOME_EVERY: Duration = Duration::from_secs(60);

/// Runs an operation's handler again, from its stored arguments and what its steps recorded.
pub(super) async fn recover<DB, S, O, E, M>(
    idempotency: Idempotency<DB>,
    state: S,
    row: OperationRow,
    stop: CancellationToken,
) -> Recovered
where
    DB: Backend,
    S: Send + Sync + 'static,
    O: Operation<Handle = Steps<DB, E>, Args: Arguments<S, M> + Send>,
    E: 'static,
{
    let spec = &O::SPEC;
    let id = OperationId::of(row.id);
    let journal = attempt::journal(&idempotency, &row);
    let opened = unseal(
        &idempotency,
        &row.id,
        b"inputs",
        &row.inputs,
        row.inputs_sealed,
    );
    let attempt = Attempt {
        rules: idempotency.shared.settings.rules(spec),
        spec,
        digest: String::new(),
        fence: Fence {
            id: row.id,
            attempt: row.attempt,
            owner: row.owner,
        },
        operation_id: row.operation_id,
        journal: Journal::default(),
        clock: Clock::new(row.now),
        tries: row.tries,
        rebuilds: O::REBUILD.is_some(),
        trace: None,
        shutdown: Some(stop),
        idempotency,
    };
    if let Err(reason) = at_home(&attempt.idempotency, &row.scope).await {
        tracing::warn!(target: "idem", operation = spec.name, %id, reason, "an operation is left alone here");
        return told(spec.name, id, attempt.put_back(HOME_EVERY).await);
    }
    let most = attempt.idempotency.shared.settings.max_attempts;
    if i64::from(row.tries) > i64::from(most) {
        let reason = format!(
            "{most} attempts did not end it; the last did not say why: its process may have died"
        );
        return told(
            spec.name,
            id,
            attempt.stopped(Interrupt::Unknown(reason)).await,
        );
    }
    let inputs = match opened.map(|bytes| inputs::decode(&bytes)) {
        Ok(Ok(inputs)) => inputs,
        Ok(Err(error)) => {
            let error = quotable(&attempt.idempotency, error);
            let reason = format!("the stored arguments can't be read: {error}");
            return told(
                spec.name,
                id,
                attempt.stopped(Interrupt::Unknown(reason)).await,
            );
        }
        Err(error) => {
            return told(spec.name, id, stopped_at(attempt, "arguments", error).await);
        }
    };
    let journal = match journal {
        Ok(journal) => journal,
        Err(error) => {
            return told(spec.name, id, stopped_at(attempt, "steps", error).await);
        }
    };
    if row.definition != spec.definition && !journal.steps.is_empty() {
        let reason = format!(
            "it was begun by definition {} of its handler, and this is definition {}",
            row.definition, spec.definition
        );
        return told(
            spec.name,
            id,
            attempt.stopped(Interrupt::Unknown(reason)).await,
        );
    }
    let attempt = Attempt { journal, ..attempt };
    let idempotency = attempt.idempotency.clone();
    let again: Again<DB, E> = Box::new(move || {
        let loaded = <O::Args as Arguments<S, M>>::load(&inputs, &state)
            .map(Ready::again::<O>)
            .map_err(|error| {
                let error = quotable(&idempotency, error);
                Interrupt::Unknown(format!("the stored arguments can't be used: {error}"))
            });
        std::future::ready(loaded).boxed()
    });
    told(spec.name, id, attempt.run(again).await)
}

/// Whether the operation's account may be written here: another region's worker may have the operation too, when an account
/// moved.
async fn at_home<DB: Backend>(idempotency: &Idempotency<DB>, scope: &str) -> Result<(), String> {
    if idempotency.shared.settings.home.is_none() {
        return Ok(());
    }
    let scope: ScopeKey = scope
        .parse()
        .map_err(|error: NotAScopeKey| error.to_string())?;
    let at_home = idempotency.expect_home(&scope).await;
    at_home.map_err(|error| error.to_string())
}

/// What is stored will not change by itself; a cipher's service may come back.
async fn stopped_at<DB: Backend>(attempt: Attempt<DB>, what: &str, error: StoreError) -> Ended {
    let reason = |error: String| format!("the stored {what} can't be read: {error}");
    let why = match error {
        StoreError::Cipher(_) => Interrupt::Later(Duration::ZERO, reason(error.to_string())),
        _ => Interrupt::Unknown(reason(quotable(&attempt.idempotency, error))),
    };
    attempt.stopped(why).await
}

fn told(operation: &'static str, id: OperationId, ended: Ended) -> Recovered {
    let recovered = match ended {
        Ended::Completed(..) => Recovered::Completed,
        Ended::Released(_) | Ended::Refused(_) => Recovered::Released,
        Ended::Later | Ended::Store(_) => Recovered::Later,
        Ended::Unknown => Recovered::Unknown,
        Ended::Elsewhere => Recovered::Elsewhere,
    };
    telemetry::recovered(operation, id, recovered.as_str());
    recovered
}
