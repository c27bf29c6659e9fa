//! Optional and fallible extractors, the last argument from the parts, and fifteen arguments.

#[path = "../support.rs"]
mod support;
use support::*;

use axum::extract::{Extension, MatchedPath, OriginalUri, rejection::JsonRejection};
use axum::http::{HeaderMap, Method, Uri, Version};

#[derive(Clone, EffectFree)]
struct Flags;

#[idempotent(scope = "account", state = AppState)]
async fn optional(
    _tx: &mut Tx<Sqlite>,
    account: Account,
    flags: Option<Extension<Flags>>,
    path: Option<MatchedPath>,
    order: Option<Json<NewOrder>>,
) -> String {
    format!("{account:?} {} {} {}", flags.is_some(), path.is_some(), order.is_some())
}

#[idempotent(scope = "account", state = AppState)]
async fn fallible(
    _tx: &mut Tx<Sqlite>,
    account: Account,
    order: Result<Json<NewOrder>, JsonRejection>,
) -> String {
    format!("{account:?} {}", order.is_ok())
}

#[idempotent(scope = "account", state = AppState)]
async fn scope_last(_tx: &mut Tx<Sqlite>, method: Method, headers: HeaderMap, account: Account) -> String {
    format!("{account:?} {method} {}", headers.len())
}

#[idempotent(scope = "account", state = AppState)]
async fn parts_last(_tx: &mut Tx<Sqlite>, account: Account, headers: HeaderMap) -> String {
    format!("{account:?} {}", headers.len())
}

#[idempotent(scope = "account", state = AppState)]
async fn unread(_tx: &mut Tx<Sqlite>, account: Account, uri: Uri, _body: axum::body::Body) -> String {
    format!("{account:?} {uri}")
}

#[idempotent(scope = "account", state = AppState)]
async fn fifteen(
    _tx: &mut Tx<Sqlite>,
    account: Account,
    _2: Method,
    _3: Uri,
    _4: OriginalUri,
    _5: HeaderMap,
    _6: Version,
    _7: State<Pricing>,
    _8: State<Pricing>,
    _9: Option<Extension<Flags>>,
    _10: Path<u64>,
    _11: Query<Vec<(String, String)>>,
    _12: Account,
    _13: Account,
    _14: MatchedPath,
    Json(_15): Json<NewOrder>,
) -> String {
    format!("{account:?}")
}

fn main() {
    let _: Router<AppState> = Router::new()
        .route("/optional", post(optional))
        .route("/fallible", post(fallible))
        .route("/scope_last", post(scope_last))
        .route("/parts_last", post(parts_last))
        .route("/unread", post(unread))
        .route("/fifteen/{id}", post(fifteen));
}
