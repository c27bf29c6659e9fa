#![allow(unused)]

#[path = "../steps.rs"]
mod support;
use support::*;

/// An extractor that a stored request could not make again.
#[derive(Clone, EffectFree, Scope)]
struct Session(u64);

impl<S: Send + Sync> FromRequestParts<S> for Session {
    type Rejection = StatusCode;

    async fn from_request_parts(_: &mut Parts, _: &S) -> Result<Self, StatusCode> {
        Ok(Session(1))
    }
}

#[idempotent(scope = "session", operation = "charges.create")]
async fn charge(
    steps: &mut Steps<Sqlite, ApiError>,
    session: Session,
    headers: HeaderMap,
    State(gateway): State<External<Gateway>>,
) -> Result<(), ApiError> {
    Ok(())
}

/// A step may run again, and so its closure can't change what is around it.
#[idempotent(scope = "account", operation = "charges.count")]
async fn changed(steps: &mut Steps<Sqlite, ApiError>, account: Account) -> Result<(), ApiError> {
    let mut total = 0;
    steps
        .atomic("count", async |_| {
            total += 1;
            Ok(())
        })
        .await?;
    Ok(())
}

fn main() {}
