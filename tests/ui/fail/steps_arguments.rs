#![allow(unused)]

#[path = "../steps.rs"]
mod support;
use support::*;

#[idempotent(scope = "account")]
async fn unnamed(steps: &mut Steps<Sqlite, ApiError>, account: Account) {}

#[idempotent(scope = "account", operation = "a", key = "optional", expired = "execute")]
async fn without_a_key(steps: &mut Steps<Sqlite, ApiError>, account: Account) {}

#[idempotent(scope = "account", definition = 2)]
async fn without_steps(tx: &mut Tx<Sqlite>, account: Account) {}

#[idempotent(scope = "account", operation = "b", definition = 0)]
async fn undefined(steps: &mut Steps<Sqlite, ApiError>, account: Account) {}

#[idempotent(scope = "account", operation = "c")]
async fn same_names(steps: &mut Steps<Sqlite, ApiError>, account: Account) -> Result<(), ApiError> {
    steps.atomic("write", async |_| Ok(())).await?;
    if account.0 > 1 {
        steps.atomic("write", async |_| Ok(())).await?;
    }
    Ok(())
}

fn main() {}
