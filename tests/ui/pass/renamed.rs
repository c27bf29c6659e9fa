//! The runtime under another name, and its macros through a re-export.

extern crate idem_runtime as renamed; // what a renamed dependency is

#[path = "../support.rs"]
mod support;
use support::{Account, AppState, IntoResponse, Json, NewOrder, Response, Router, Sqlite, StatusCode, insert_order, post};

mod idem {
    pub use renamed::*;
}

#[renamed::idempotent(scope = "account", crate = "::renamed")]
async fn quoted(tx: &mut renamed::Tx<Sqlite>, account: Account, Json(new): Json<NewOrder>) -> Result<String, Failed> {
    insert_order(tx, &new).await?;
    Ok(format!("{account:?}"))
}

#[idem::idempotent(scope = "tenant", crate = crate::idem)]
async fn bare(tx: &mut idem::Tx<Sqlite>, tenant: Tenant, Json(new): Json<NewOrder>) -> Result<String, Failed> {
    insert_order(tx, &new).await?;
    Ok(tenant.0)
}

#[derive(idem::EffectFree, idem::Scope)]
#[effect_free(crate = "crate::idem")]
#[scope(crate = "crate::idem")]
struct Tenant(String);

impl<S: Send + Sync> axum::extract::FromRequestParts<S> for Tenant {
    type Rejection = StatusCode;

    async fn from_request_parts(_: &mut axum::http::request::Parts, _: &S) -> Result<Self, StatusCode> {
        Ok(Tenant("acme".into()))
    }
}

#[derive(idem::Disposition)]
#[disposition(crate = "crate::idem")]
#[disposition(transient)]
struct Failed;

impl From<sqlx::Error> for Failed {
    fn from(_: sqlx::Error) -> Self {
        Failed
    }
}

impl IntoResponse for Failed {
    fn into_response(self) -> Response {
        StatusCode::SERVICE_UNAVAILABLE.into_response()
    }
}

fn main() {
    let _: Router<AppState> = Router::new().route("/quoted", post(quoted)).route("/bare", post(bare));
}
