//! An alias of the transaction, the handle in any place, and handlers made by `macro_rules!`.
#![deny(warnings)]

#[path = "../support.rs"]
mod support;
use support::*;

type Db<'t> = &'t mut Tx<Sqlite>;
type Transaction = Tx<Sqlite>;

#[idempotent(scope = "account")]
async fn alias(account: Account, transaction: &mut Transaction, Json(new): Json<NewOrder>) -> Result<(), ApiError> {
    insert_order(transaction, &new).await?;
    let _ = account;
    Ok(())
}

#[idempotent(scope = "account")]
async fn last(account: Account, tx: &mut Tx<Sqlite>) -> Result<(), ApiError> {
    helper(tx, account).await
}

#[idempotent(scope = "account")]
async fn named<'t>(tx: &'t mut Tx<Sqlite>, account: Account) -> Result<(), ApiError> {
    helper(tx, account).await
}

async fn helper(tx: Db<'_>, account: Account) -> Result<(), ApiError> {
    let new = NewOrder {
        item: format!("{account:?}"),
    };
    Ok(insert_order(tx, &new).await?)
}

macro_rules! handler {
    ($name:ident, $db:ty, $binding:ident: $owner:ty, $scope:literal, $ttl:literal, $state:ty) => {
        #[idempotent(scope = $scope, ttl = $ttl, state = $state)]
        async fn $name(tx: &mut Tx<$db>, $binding: $owner, Json(new): Json<NewOrder>) -> Result<String, ApiError> {
            insert_order(tx, &new).await?;
            Ok(format!("{:?}", $binding))
        }
    };
}
handler!(made, Sqlite, account: Account, "account", "48h", AppState);

macro_rules! whole_handler {
    ($name:ident) => {
        #[idempotent(scope = "account.0")]
        async fn $name(tx: &mut Tx<Sqlite>, account: Account, Json(new): Json<NewOrder>) -> Result<String, ApiError> {
            insert_order(tx, &new).await?;
            Ok(format!("{account:?}"))
        }
    };
}
whole_handler!(whole);

macro_rules! passed_on {
    ($function:item) => {
        $function
    };
}
passed_on! {
    #[idempotent(scope = "account")]
    async fn passed(tx: &mut Tx<Sqlite>, account: Account) -> Result<(), ApiError> {
        helper(tx, account).await
    }
}

macro_rules! typed {
    ($handle:ty) => {
        #[idempotent(scope = "account")]
        async fn typed(tx: $handle, account: Account) -> Result<(), ApiError> {
            helper(tx, account).await
        }
    };
}
typed!(&mut Tx<Sqlite>);

fn main() {
    let _: Router<AppState> = Router::new()
        .route("/alias", post(alias))
        .route("/last", post(last))
        .route("/named", post(named))
        .route("/made", post(made))
        .route("/whole", post(whole))
        .route("/passed", post(passed))
        .route("/typed", post(typed));
}
