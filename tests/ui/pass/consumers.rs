//! What a consumer may look like.

#[path = "../support.rs"]
mod support;
use idem_runtime::inbox::{ConsumerHandler, FromMessage, Incoming, Message, Unreadable};
use idem_runtime::{consumer, inbox};
use std::time::Duration;
use support::*;

#[derive(Clone, Deserialize)]
struct OrderPlaced {
    item: String,
}

/// An argument of the application's own.
#[derive(EffectFree)]
struct Tenant(String);

impl<S> FromMessage<S> for Tenant {
    fn from_message(message: &Incoming, _: &S) -> Result<Self, Unreadable> {
        let tenant = message.header("tenant").ok_or_else(|| Unreadable("no tenant".to_owned()))?;
        Ok(Self(tenant.to_owned()))
    }
}

#[derive(Debug, Disposition)]
enum LedgerError {
    #[disposition(rejection)]
    UnknownAccount,
    #[disposition(source)]
    Database(sqlx::Error),
}

impl From<sqlx::Error> for LedgerError {
    fn from(error: sqlx::Error) -> Self {
        Self::Database(error)
    }
}

/// Keeps the ledger.
#[consumer(source = "orders", ttl = "7d")]
pub async fn on_order(
    tx: &mut Tx<Sqlite>,
    order: Message<OrderPlaced>,
    State(pricing): State<Pricing>,
) -> Result<(), LedgerError> {
    if pricing.cents == 0 {
        return Err(LedgerError::UnknownAccount);
    }
    insert_order(tx, &NewOrder { item: order.item.clone() }).await?;
    Ok(())
}

#[consumer(source = "orders", name = "mail", id = "data.id", timeout = "5s", state = AppState)]
async fn other_place(Message { payload, .. }: Message<OrderPlaced>, tx: &mut Tx<Sqlite>, tenant: Tenant) -> sqlx::Result<u64> {
    let _ = tenant.0;
    insert_order(tx, &NewOrder { item: payload.item }).await?;
    Ok(1)
}

#[consumer(source = "raw", id = "broker")]
async fn unread(tx: &mut Tx<Sqlite>, message: Incoming) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let item = String::from_utf8(message.payload().to_vec())?;
    Ok(insert_order(tx, &NewOrder { item }).await?)
}

#[consumer(source = "raw")]
async fn infallible(tx: &mut Tx<Sqlite>, _: Incoming) {
    let _ = tx;
}

#[consumer(source = "raw", name = "generic")]
async fn generic<T: Into<String> + serde::de::DeserializeOwned + EffectFree>(tx: &mut Tx<Sqlite>, message: Message<T>) -> sqlx::Result<()> {
    insert_order(tx, &NewOrder { item: message.into_payload().into() }).await
}

struct Associated;

impl Associated {
    #[consumer(source = "raw", name = "associated")]
    async fn on_raw(tx: &mut Tx<Sqlite>, _: Incoming) {
        let _ = tx;
    }
}

fn registered(state: AppState) -> inbox::Consumers<Sqlite, AppState> {
    state
        .idempotency
        .clone()
        .consumers(state)
        .register(on_order)
        .register(other_place)
        .register(unread)
        .register(infallible)
        .register(generic::<String>)
        .register(Associated::on_raw)
        .concurrency(4)
}

async fn in_a_unit_test(tx: &mut Tx<Sqlite>) {
    let order = OrderPlaced { item: "book".to_owned() };
    let message = Message::new(order, Incoming::new("orders", ""));
    let _ = on_order.invoke(tx, (message, State(Pricing { cents: 1 }))).await;
}

fn main() {
    let spec = on_order.spec();
    assert_eq!((spec.name, spec.source), ("on_order", "orders"));
    assert_eq!(spec.ttl, Some(Duration::from_secs(7 * 24 * 60 * 60)));
    assert_eq!(unread.spec().id, inbox::MessageIdentity::Broker);
    assert_eq!(other_place.spec().id, inbox::MessageIdentity::Field("/data/id"));
    let _ = (registered, in_a_unit_test);
}
