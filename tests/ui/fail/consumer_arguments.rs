#![allow(unused)]

#[path = "../support.rs"]
mod support;
use idem_runtime::inbox::{Incoming, Message};
use idem_runtime::consumer;
use support::*;

struct NotRead;

#[derive(Deserialize)]
struct OrderPlaced {
    item: String,
}

#[consumer(source = "orders")]
async fn unread(tx: &mut Tx<Sqlite>, order: Message<NotRead>) {}

#[consumer(source = "orders")]
async fn of_a_request(tx: &mut Tx<Sqlite>, order: Message<OrderPlaced>, account: Account) {}

#[derive(Clone, EffectFree)]
struct Rates;

#[consumer(source = "orders")]
async fn not_in_the_state(tx: &mut Tx<Sqlite>, order: Incoming, State(rates): State<Rates>) {}

#[consumer(source = "orders")]
async fn other_database(tx: &mut Tx<Postgres>, order: Incoming) {}

fn main() {}
fn registered(state: AppState) {
    let consumers = state.idempotency.clone().consumers(state);
    let consumers = consumers.register(of_a_request);
    let consumers = consumers.register(not_in_the_state);
    let consumers = consumers.register(other_database);
}
