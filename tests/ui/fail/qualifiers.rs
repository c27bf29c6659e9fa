#![allow(unused)]

#[path = "../support.rs"]
mod support;
use support::*;

#[idempotent(scope = "account")]
fn sync(tx: &mut Tx<Sqlite>, account: Account) -> StatusCode {
    StatusCode::CREATED
}

#[idempotent(scope = "account")]
async unsafe fn dangerous(tx: &mut Tx<Sqlite>, account: Account) -> StatusCode {
    StatusCode::CREATED
}

#[idempotent(scope = "account")]
async extern "C" fn foreign(tx: &mut Tx<Sqlite>, account: Account) -> StatusCode {
    StatusCode::CREATED
}

#[idempotent(scope = "account")]
struct NoFunction;

fn main() {
    let _: Router<AppState> = Router::new().route("/sync", post(sync)).route("/dangerous", post(dangerous));
    let _ = NoFunction;
}
