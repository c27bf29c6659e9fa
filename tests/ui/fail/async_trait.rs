#![allow(unused)]

#[path = "../support.rs"]
mod support;
use support::*;

struct Api;

#[async_trait::async_trait]
impl Orders for Api {
    #[idempotent(scope = "account")]
    async fn create(tx: &mut Tx<Sqlite>, account: Account) -> StatusCode {
        StatusCode::CREATED
    }
}

#[async_trait::async_trait]
trait Orders {
    async fn create(tx: &mut Tx<Sqlite>, account: Account) -> StatusCode;
}

fn main() {}
