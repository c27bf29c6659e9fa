#![allow(unused)]

#[path = "../support.rs"]
mod support;
use support::*;

/// No `Scope`.
#[derive(Clone)]
#[derive(EffectFree)]
struct Session {
    user: Option<u64>,
}

impl<S: Send + Sync> FromRequestParts<S> for Session {
    type Rejection = StatusCode;

    async fn from_request_parts(_: &mut Parts, _: &S) -> Result<Self, StatusCode> {
        Ok(Session { user: None })
    }
}

#[idempotent(scope = "session")]
async fn create(tx: &mut Tx<Sqlite>, session: Session, Json(new): Json<NewOrder>) -> StatusCode {
    StatusCode::CREATED
}

#[idempotent(scope = "session.user")]
async fn optional(tx: &mut Tx<Sqlite>, session: Session, Json(new): Json<NewOrder>) -> StatusCode {
    StatusCode::CREATED
}

#[idempotent(scope = "session.usr")]
async fn no_field(tx: &mut Tx<Sqlite>, session: Session, Json(new): Json<NewOrder>) -> StatusCode {
    StatusCode::CREATED
}

fn main() {
    let _: Router<AppState> = Router::new()
        .route("/create", post(create))
        .route("/optional", post(optional))
        .route("/no_field", post(no_field));
}
