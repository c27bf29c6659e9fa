#![allow(unused)]

#[path = "../steps.rs"]
mod support;
use support::*;

#[idempotent(scope = "account", operation = "charges.create")]
async fn called(
    steps: &mut Steps<Sqlite, ApiError>,
    account: Account,
    State(gateway): State<External<Gateway>>,
    Json(new): Json<NewCharge>,
) -> Result<(), ApiError> {
    gateway.charge(&new).await;
    Ok(())
}

#[idempotent(scope = "account", operation = "charges.within")]
async fn within(
    steps: &mut Steps<Sqlite, ApiError>,
    account: Account,
    State(gateway): State<External<Gateway>>,
    Json(new): Json<NewCharge>,
) -> Result<Json<Charge>, ApiError> {
    let charge = steps
        .external("charge", &gateway, new)
        .at_most_once()
        .call(async |_, key, input| gateway.charge(key, input).await)
        .await?;
    Ok(Json(charge))
}

fn main() {}
