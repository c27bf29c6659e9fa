#![allow(unused)]

#[path = "../support.rs"]
mod support;
use idem_runtime::routing::{self, IfMatch};
use idem_runtime::repeat_safe;
use std::rc::Rc;
use support::*;

#[repeat_safe]
async fn nothing(account: Account) -> StatusCode {
    StatusCode::OK
}

#[repeat_safe(clientid, wy = "the client chooses the id")]
async fn misspelt(account: Account) -> StatusCode {
    StatusCode::OK
}

#[repeat_safe(client_id, conditional = true, why = " ", scope = "account")]
async fn several(account: Account) -> StatusCode {
    StatusCode::OK
}

#[repeat_safe(precondition, why = "a new revision matches no more")]
async fn unseen(account: Account, Json(new): Json<NewOrder>) -> StatusCode {
    StatusCode::OK
}

#[repeat_safe(precondition, why = "a new revision matches no more")]
async fn optional(seen: Option<IfMatch>, Json(new): Json<NewOrder>) -> StatusCode {
    StatusCode::OK
}

#[repeat_safe(client_id, why = "the client chooses the id")]
fn transaction(tx: &mut Tx<Sqlite>, account: &Account) -> StatusCode {
    StatusCode::OK
}

#[repeat_safe(client_id, why = "the client chooses the id")]
#[idempotent(scope = "account")]
async fn both(account: Account) -> StatusCode {
    StatusCode::OK
}

#[repeat_safe(client_id, why = "the client chooses the id")]
async fn no_answer(account: Account) -> Account {
    account
}

async fn elsewhere() {}

#[repeat_safe(client_id, why = "the client chooses the id")]
async fn not_send(account: Account) -> StatusCode {
    let shared = Rc::new(account);
    elsewhere().await;
    drop(shared);
    StatusCode::OK
}

// None of them is a second error where it is routed to.
fn main() {
    let _: routing::Router<AppState> = routing::Router::new()
        .route("/nothing", routing::put(nothing))
        .route("/misspelt", routing::put(misspelt))
        .route("/several", routing::put(several))
        .route("/unseen", routing::put(unseen))
        .route("/optional", routing::put(optional))
        .route("/transaction", routing::put(transaction))
        .route("/both", routing::put(both))
        .route("/no_answer", routing::put(no_answer))
        .route("/not_send", routing::put(not_send));
}
