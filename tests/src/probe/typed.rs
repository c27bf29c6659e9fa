//! A body with a type, whose validation can be tightened as a deploy does.

use axum::Json;
use axum::extract::{FromRequest, Request};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use idem_runtime::EffectFree;
use serde::Deserialize;

#[derive(Debug, Deserialize, EffectFree)]
pub(crate) struct Typed {
    pub(crate) n: u32,
}

/// `Json<Typed>`, unless `X-Probe-Tighten` is there: then every body is refused.
#[derive(EffectFree)]
pub(crate) struct Validated(pub(crate) Typed);

impl<S: Send + Sync> FromRequest<S> for Validated {
    type Rejection = Response;

    async fn from_request(request: Request, state: &S) -> Result<Validated, Response> {
        if request.headers().contains_key("x-probe-tighten") {
            return Err((StatusCode::UNPROCESSABLE_ENTITY, "tightened").into_response());
        }
        let Json(typed) = Json::from_request(request, state)
            .await
            .map_err(IntoResponse::into_response)?;
        Ok(Validated(typed))
    }
}
