//! A unit test of the user's own function: what it returns has its own type, not a response's.

#[path = "../support.rs"]
mod support;
use support::*;

#[idempotent(scope = "account")]
async fn create(
    tx: &mut Tx<Sqlite>,
    account: Account,
    State(pricing): State<Pricing>,
    Json(new): Json<NewOrder>,
) -> Result<Json<Order>, ApiError> {
    insert_order(tx, &new).await?;
    let cents = pricing.cents * account.0.0;
    Ok(Json(Order { item: new.item, cents }))
}

#[idempotent(scope = "account")]
async fn cancel(_tx: &mut Tx<Sqlite>, Path(order): Path<u64>, account: Account) -> String {
    format!("{order} {account:?}")
}

async fn tested(tx: &mut Tx<Sqlite>) -> Result<(), ApiError> {
    let new = NewOrder { item: "book".into() };
    let arguments = (Account(AccountId(2)), State(Pricing { cents: 5 }), Json(new));
    let Json(order) = create.invoke(tx, arguments).await?;
    assert_eq!((order.item.as_str(), order.cents), ("book", 10));
    let text: String = cancel.invoke(tx, (Path(3), Account(AccountId(4)))).await;
    assert_eq!(text, "3 Account(AccountId(4))");
    Ok(())
}

fn main() {
    fn is_send<T: Send>(_: fn(&'static mut Tx<Sqlite>) -> T) {}
    is_send(tested);
}
