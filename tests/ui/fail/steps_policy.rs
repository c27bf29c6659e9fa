#![allow(unused)]

#[path = "../steps.rs"]
mod support;
use support::*;

#[idempotent(scope = "account", operation = "charges.create")]
async fn charge(
    steps: &mut Steps<Sqlite, ApiError>,
    account: Account,
    State(gateway): State<External<Gateway>>,
    Json(new): Json<NewCharge>,
) -> Result<Json<Charge>, ApiError> {
    let charge = steps
        .external("charge", &gateway, new)
        .call(async |gateway, key, input| gateway.charge(key, input).await)
        .await?;
    Ok(Json(charge))
}

fn main() {}
