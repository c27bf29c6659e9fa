#![allow(unused)]

#[path = "../support.rs"]
mod support;
use support::*;

struct Api<R>(R);

impl<R: Clone + Send + Sync + 'static> Api<R> {
    #[idempotent(scope = "account")]
    async fn method(&self, tx: &mut Tx<Sqlite>, account: Account) -> StatusCode {
        StatusCode::CREATED
    }

    #[idempotent(scope = "account")]
    async fn names_self(tx: &mut Tx<Sqlite>, account: Account) -> StatusCode {
        Self::answer()
    }

    #[idempotent(scope = "account")]
    async fn takes_self(tx: &mut Tx<Sqlite>, account: Account, State(api): State<Self>) -> StatusCode {
        StatusCode::CREATED
    }

    #[idempotent(scope = "account")]
    async fn names_generics(tx: &mut Tx<Sqlite>, account: Account, State(repo): State<R>) -> StatusCode {
        StatusCode::CREATED
    }

    fn answer() -> StatusCode {
        StatusCode::CREATED
    }
}

fn main() {}
