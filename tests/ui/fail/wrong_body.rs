#![allow(unused)]

#[path = "../support.rs"]
mod support;
use support::*;

#[idempotent(scope = "account")]
async fn create(tx: &mut Tx<Sqlite>, account: Account, Json(new): Json<NewOrder>) -> Result<Json<Order>, ApiError> {
    let order: Order = insert_order(tx, &new).await?;
    Ok(Json(oder))
}

fn main() {
    let _: Router<AppState> = Router::new().route("/", post(create));
}
