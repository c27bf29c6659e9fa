//! Generic handlers: over a repository, and over a constant.

#[path = "../support.rs"]
mod support;
use support::*;

use std::sync::Arc;

trait Repo: EffectFree + Send + Sync + 'static {
    type Row: Serialize + Send + From<String>;
}

#[derive(EffectFree)]
struct Orders;

impl Repo for Orders {
    type Row = String;
}

#[derive(Clone, FromRef)]
struct Shop {
    idempotency: Idempotency<Sqlite>,
    repo: Arc<Orders>,
}

#[idempotent(scope = "account")]
async fn create<R, const N: usize>(
    tx: &mut Tx<Sqlite>,
    account: Account,
    State(_repo): State<Arc<R>>,
    Json(new): Json<Vec<NewOrder>>,
) -> Result<Json<Vec<R::Row>>, StatusCode>
where
    R: Repo,
{
    if new.len() > N {
        return Err(StatusCode::UNPROCESSABLE_ENTITY);
    }
    let _ = (tx, account);
    Ok(Json(new.into_iter().map(|new| new.item.into()).collect()))
}

#[idempotent(scope = "account")]
async fn unsized_repo<R: Repo + ?Sized>(
    _tx: &mut Tx<Sqlite>,
    account: Account,
    State(_): State<Arc<R>>,
) -> impl IntoResponse {
    account.0.0.to_string()
}

fn main() {
    let _: Router<Shop> = Router::new()
        .route("/", post(create::<Orders, 3>))
        .route("/unsized", post(unsized_repo::<Orders>));
}
