//! Associated functions, and functions in modules.

#[path = "../support.rs"]
mod support;
use support::*;

struct Api;

impl Api {
    /// Creates an order.
    #[idempotent(scope = "account", authorize = may_create)]
    pub async fn create(
        tx: &mut Tx<Sqlite>,
        account: Account,
        Json(new): Json<NewOrder>,
    ) -> Result<StatusCode, ApiError> {
        insert_order(tx, &new).await?;
        let _ = account;
        Ok(StatusCode::CREATED)
    }
}

async fn may_create(account: &Account) -> Result<(), (StatusCode, &'static str)> {
    match account.0.0 {
        0 => Err((StatusCode::FORBIDDEN, "not you")),
        _ => Ok(()),
    }
}

mod orders {
    use crate::support::*;

    #[idempotent(scope = "id", operation = "orders.cancel", authorize = super::may_cancel)]
    pub(crate) async fn cancel(Path(order): Path<u64>, tx: &mut Tx<Sqlite>, Account(id): Account) {
        let _ = (order, tx, id);
    }
}

async fn may_cancel(_: &Path<u64>, _: &Account) -> Result<(), ApiError> {
    Ok(())
}

fn main() {
    let _: Router<AppState> = Router::new()
        .route("/", post(Api::create))
        .route("/{order}", post(orders::cancel));
    assert_eq!(orders::cancel.spec().name, "orders.cancel");
    assert!(orders::cancel.spec().function.ends_with("orders::cancel"));
}
