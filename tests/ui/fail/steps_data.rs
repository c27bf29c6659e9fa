#![allow(unused)]

#[path = "../steps.rs"]
mod support;
use support::*;

struct Receipt {
    order: i64,
}

#[idempotent(scope = "account", operation = "charges.create")]
async fn result(steps: &mut Steps<Sqlite, ApiError>, account: Account) -> Result<(), ApiError> {
    let receipt = steps.atomic("settle", async |_| Ok(Receipt { order: 1 })).await?;
    Ok(())
}

#[idempotent(scope = "account", operation = "charges.answer")]
async fn answer(steps: &mut Steps<Sqlite, ApiError>, account: Account) -> Result<Json<Charge>, ApiError> {
    steps.atomic("settle", async |_| Ok(Json(Charge { id: String::new() }))).await
}

#[idempotent(scope = "account", operation = "charges.input")]
async fn input(
    steps: &mut Steps<Sqlite, ApiError>,
    account: Account,
    State(gateway): State<External<Gateway>>,
) -> Result<(), ApiError> {
    steps
        .external("notify", &gateway, Receipt { order: 1 })
        .at_most_once()
        .call(async |gateway, key, _| -> Result<(), Unclassified> { Ok(gateway.notify(key).await?) })
        .await?;
    Ok(())
}

fn main() {}
