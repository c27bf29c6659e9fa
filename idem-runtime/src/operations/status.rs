//! What the owner of an operation is told of it.

use serde::Serialize;
use tokio::time::Instant;

use super::{OperationId, OperationsError};
use crate::backend::{Backend, Standing, State};
use crate::idempotency::Idempotency;
use crate::scope::{Scope, ScopeKey};

/// Where an operation stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "state", rename_all = "snake_case")]
#[non_exhaustive]
pub enum OperationStatus {
    /// It is worked on, or will be.
    InProgress,
    /// Nobody knows whether it took place, until an operator resolves it.
    Unknown,
    /// It is answered: the same request with the same key is given the answer.
    Completed {
        /// The answer's status code.
        status: u16,
    },
}

impl<DB: Backend> Idempotency<DB> {
    /// Where an operation stands, for its owner: what the route that
    /// [`status_link`](crate::IdempotencyBuilder::status_link) names answers. `None` when there is no such operation, when its
    /// retention is over, and when it is somebody else's: a stranger learns nothing, so answer 404 to all three.
    ///
    /// `owner` is what the handler's `scope` names. Nothing is run.
    ///
    /// ```
    /// # #[cfg(feature = "sqlite")] mod example {
    /// # use axum::Json;
    /// # use axum::extract::{Path, State};
    /// # use axum::http::StatusCode;
    /// # use idem_runtime::Idempotency;
    /// use idem_runtime::operations::OperationStatus;
    /// # use sqlx::Sqlite;
    ///
    /// async fn status(
    ///     State(idempotency): State<Idempotency<Sqlite>>,
    ///     Path((account, id)): Path<(u64, String)>, // the account from your authentication
    /// ) -> Result<Json<OperationStatus>, StatusCode> {
    ///     let id = id.parse().map_err(|_| StatusCode::NOT_FOUND)?;
    ///     match idempotency.status(id, &account).await {
    ///         Ok(Some(status)) => Ok(Json(status)),
    ///         Ok(None) => Err(StatusCode::NOT_FOUND),
    ///         Err(_) => Err(StatusCode::SERVICE_UNAVAILABLE),
    ///     }
    /// }
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`OperationsError::Store`].
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub async fn status(
        &self,
        id: OperationId,
        owner: &(impl Scope + ?Sized),
    ) -> Result<Option<OperationStatus>, OperationsError> {
        let (id, owner) = (id.record(), ScopeKey::of(owner));
        let limit = Instant::now() + self.shared.settings.store_timeout;
        let mut alone = self.reading(limit).await?;
        let found = alone.run(limit, async |connection: &mut DB::Connection| {
            DB::owned(connection, &id, &owner).await
        });
        let Some(record) = found.await? else {
            return Ok(None);
        };
        Ok(match (record.standing, record.state) {
            (Standing::Expired, _) => None,
            (_, State::Started) => Some(OperationStatus::InProgress),
            (_, State::Unknown) => Some(OperationStatus::Unknown),
            (_, State::Completed) => Some(OperationStatus::Completed {
                status: record.status,
            }),
        })
    }
}
