#![allow(unused)]

#[path = "../support.rs"]
mod support;
use support::*;

async fn send_mail() {}

#[idempotent(scope = "account")]
async fn create(tx: &mut Tx<Sqlite>, account: Account, Json(new): Json<NewOrder>) -> Result<StatusCode, ApiError> {
    tokio::spawn(send_mail());
    let (first, second) = tokio::join!(insert_order(tx, &new), async { tokio::task::spawn_blocking(|| ()) });
    let mut tasks = tokio::task::JoinSet::new();
    tasks.spawn(send_mail());
    std::thread::spawn(|| ());
    Ok(StatusCode::CREATED)
}

fn main() {
    let _: Router<AppState> = Router::new().route("/", post(create));
}
