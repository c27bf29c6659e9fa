//! What no type refuses, and should: handles that a field holds which serde skips. `docs/what-does-not-compile.md` lists them as a hole;
//! whoever closes it moves these to `ui/leaks`. What a handler itself does with most of them clippy finds: `clippy/src/held.rs`.
#![deny(warnings)]
#![allow(dead_code)]

#[path = "../support.rs"]
mod support;
use support::*;

use axum::extract::Form;
use sqlx::SqlitePool;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, OnceLock, RwLock};
use tokio::sync::mpsc::Sender;

static MAIL: OnceLock<Sender<String>> = OnceLock::new();

fn mail() -> Option<Sender<String>> {
    MAIL.get().cloned()
}

#[derive(Deserialize)]
struct Mailing {
    item: String,
    #[serde(skip, default = "mail")]
    mail: Option<Sender<String>>,
}

macro_rules! holding {
    ($($name:ident: $ty:ty),* $(,)?) => {
        $(
            mod $name {
                use super::*;

                #[derive(Deserialize)]
                pub struct Holding {
                    #[serde(skip)]
                    pub handle: $ty,
                }

                #[idempotent(scope = "account")]
                pub async fn handler(_tx: &mut Tx<Sqlite>, account: Account, holding: Form<Holding>) -> StatusCode {
                    let _ = holding;
                    StatusCode::CREATED
                }
            }
        )*
    };
}
holding!(
    runtime: Option<tokio::runtime::Handle>,
    file: Option<Arc<std::fs::File>>,
    socket: Option<Arc<tokio::net::TcpStream>>,
    unix: Option<Arc<std::os::unix::net::UnixStream>>,
    channel: Option<std::sync::mpsc::Sender<String>>,
    unbounded: Option<tokio::sync::mpsc::UnboundedSender<String>>,
    notify: Arc<tokio::sync::Notify>,
    abort: Option<tokio::task::AbortHandle>,
    tracker: tokio_util::task::TaskTracker,
    program: Option<Arc<std::process::Child>>,
    count: Arc<AtomicU64>,
    pool: Arc<Mutex<Option<SqlitePool>>>,
    lock: Arc<RwLock<u8>>,
);

#[idempotent(scope = "account")]
async fn mailing(_tx: &mut Tx<Sqlite>, account: Account, Json(new): Json<Mailing>) -> StatusCode {
    let _ = new;
    StatusCode::CREATED
}

fn main() {
    let _: Router<AppState> = Router::new().route("/mailing", post(mailing));
}
