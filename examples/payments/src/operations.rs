//! What a client sees of payments that have not ended.

use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use idem_runtime::Idempotency;
use idem_runtime::operations::{List, OperationId, OperationState};
use serde::Serialize;

use crate::auth::Account;
use crate::database::Db;
use crate::errors::ApiError;

/// A payment that has not ended.
#[derive(Clone, Debug, Serialize)]
pub struct Unfinished {
    pub id: OperationId,
    pub operation: String,
    /// `started`: it goes on by itself. `unknown`: somebody is looking at it. Either way the same key gets its answer later.
    pub state: OperationState,
    /// In milliseconds since 1970.
    pub since: i64,
}

/// `GET /operations`: the account's payments that have not ended. The reasons are for operators and stay there.
pub async fn list(
    account: Account,
    State(idempotency): State<Idempotency<Db>>,
) -> Result<Json<Vec<Unfinished>>, ApiError> {
    let operations = idempotency.operations();
    let unfinished = operations.list(&List::all().scope(&account)).await?;
    let unfinished = unfinished.into_iter().map(|operation| Unfinished {
        id: operation.id,
        operation: operation.operation,
        state: operation.state,
        since: operation.created_at,
    });
    Ok(Json(unfinished.collect()))
}

/// `GET /operations/{id}`: where one payment stands, for its owner. An answer whose outcome is unknown links here.
pub async fn status(
    account: Account,
    State(idempotency): State<Idempotency<Db>>,
    Path(id): Path<String>,
) -> Result<Response, ApiError> {
    let Ok(id) = id.parse::<OperationId>() else {
        return Ok(StatusCode::NOT_FOUND.into_response());
    };
    // Somebody else's is not there either.
    Ok(match idempotency.status(id, &account).await? {
        Some(status) => Json(status).into_response(),
        None => StatusCode::NOT_FOUND.into_response(),
    })
}
