#![allow(unused)]

#[path = "../steps.rs"]
mod support;
use support::*;

#[derive(serde::Deserialize)]
struct OnlyRead {
    amount: i64,
}

#[idempotent(scope = "account", operation = "charges.create")]
async fn charge(
    steps: &mut Steps<Sqlite, ApiError>,
    account: Account,
    Json(new): Json<OnlyRead>,
) -> Result<(), ApiError> {
    Ok(())
}

fn main() {}
