//! The transaction kept beyond its handler.
#![allow(unused)]

#[path = "../support.rs"]
mod support;
use support::*;

use std::sync::Mutex;

static KEPT: Mutex<Option<&'static mut Tx<Sqlite>>> = Mutex::new(None);

#[idempotent(scope = "account")]
async fn in_a_static(tx: &mut Tx<Sqlite>, account: Account) -> StatusCode {
    *KEPT.lock().unwrap() = Some(tx);
    StatusCode::CREATED
}

#[idempotent(scope = "account")]
async fn in_a_boxed_future(tx: &mut Tx<Sqlite>, account: Account, Json(new): Json<NewOrder>) -> StatusCode {
    let later: Box<dyn Future<Output = ()> + Send + 'static> = Box::new(async move {
        let _ = insert_order(tx, &new).await;
    });
    StatusCode::CREATED
}

#[idempotent(scope = "account")]
async fn in_a_scoped_thread(tx: &mut Tx<Sqlite>, account: Account) -> StatusCode {
    let handle = std::thread::Builder::new();
    #[allow(clippy::disallowed_methods, reason = "to see what rustc says")]
    handle.spawn(move || drop(tx));
    StatusCode::CREATED
}

#[idempotent(scope = "account")]
async fn out_of_a_savepoint(tx: &mut Tx<Sqlite>, account: Account) -> Result<StatusCode, ApiError> {
    let mut part = None;
    tx.savepoint(async |inner| {
        part = Some(inner);
        Ok::<_, ApiError>(())
    })
    .await?;
    Ok(StatusCode::CREATED)
}

#[idempotent(scope = "account")]
async fn beside_a_savepoint(tx: &mut Tx<Sqlite>, account: Account, Json(new): Json<NewOrder>) -> Result<StatusCode, ApiError> {
    tx.savepoint(async |_| {
        insert_order(tx, &new).await?;
        Ok::<_, ApiError>(())
    })
    .await?;
    Ok(StatusCode::CREATED)
}

fn main() {}
