#![allow(unused)]

#[path = "../steps.rs"]
mod support;
use support::*;

#[idempotent(scope = "account", operation = "notices.send")]
async fn notify(
    steps: &mut Steps<Sqlite, ApiError>,
    account: Account,
    State(gateway): State<External<Gateway>>,
) -> Result<(), ApiError> {
    let sent = steps
        .external("notify", &gateway, 1)
        .at_most_once()
        .call(async |gateway, key, _| gateway.notify(key).await)
        .await;
    Ok(())
}

fn main() {}
