//! `FromRef` sub-states, tuples as answers, early returns, and `?` on an error of the user's own.

#[path = "../support.rs"]
mod support;
use support::*;

#[idempotent(scope = "account", ttl = "48h", state = AppState)]
async fn create(
    tx: &mut Tx<Sqlite>,
    account: Account,
    State(pricing): State<Pricing>,
    Json(new): Json<NewOrder>,
) -> Result<(StatusCode, [(&'static str, String); 1], Json<Order>), ApiError> {
    if new.item.is_empty() {
        return Err(ApiError);
    }
    insert_order(tx, &new).await?;
    let place = [("location", format!("/accounts/{}/orders", account.0.0))];
    let order = Order {
        item: new.item,
        cents: pricing.cents,
    };
    Ok((StatusCode::CREATED, place, Json(order)))
}

fn main() {
    let _: Router<AppState> = Router::new().route("/", post(create));
    assert_eq!(create.spec().name, "create");
    assert!(create.spec().function.ends_with("::create"));
    assert_eq!(create.spec().ttl.map(|ttl| ttl.as_secs()), Some(172_800));
}
