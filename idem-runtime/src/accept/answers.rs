//! What another attempt left is the answer of this request.

use axum::response::Response;
use sqlx::Connection;

use super::{Completed, Landed, Ticket};
use crate::backend::Backend;
use crate::idempotency::StoreError;
use crate::problem::{Code, Problem};
use crate::replay::Replay;
use crate::response::StoredResponse;
use crate::telemetry::Signal;

impl<DB: Backend> Ticket<DB> {
    /// The answer of somebody else's attempt, and what it is to this request.
    pub(super) async fn answer(&self, landed: &Landed) -> (Response, Signal, Option<Code>) {
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
}
