//! Extractors of axum-extra, under the runtime's feature of that name: alone, in one another, optional and as a `Result`.
#![deny(warnings)]
#![allow(dead_code, deprecated)]

#[path = "../support.rs"]
mod support;
use support::{Account, EffectFree, FromRef, Idempotency, IntoResponse, NewOrder, Response, Router, Sqlite, StatusCode, Tx, idempotent, post};

use axum::{Json, extract::rejection::JsonRejection};
use axum_extra::TypedHeader;
use axum_extra::extract::{
    Cached, CookieJar, Form, Host, OptionalPath, OptionalQuery, PrivateCookieJar, Query, Scheme, SignedCookieJar,
    WithRejection, cookie, rejection::HostRejection,
};
use axum_extra::headers::{Authorization, ContentType, UserAgent, authorization::{Basic, Bearer}};
use axum_extra::typed_header::TypedHeaderRejection;
use serde::Deserialize;

#[derive(Clone, FromRef)]
struct AppState {
    idempotency: Idempotency<Sqlite>,
    key: cookie::Key,
}

/// Only `Deserialize`: it is data of the request.
#[derive(Deserialize)]
struct Page {
    size: u32,
    tags: Vec<String>,
}

#[derive(EffectFree)]
struct BadBody(String);

impl From<JsonRejection> for BadBody {
    fn from(rejection: JsonRejection) -> Self {
        BadBody(rejection.body_text())
    }
}

impl IntoResponse for BadBody {
    fn into_response(self) -> Response {
        (StatusCode::BAD_REQUEST, self.0).into_response()
    }
}

#[idempotent(scope = "account", state = AppState)]
async fn headers(
    _tx: &mut Tx<Sqlite>,
    account: Account,
    TypedHeader(agent): TypedHeader<UserAgent>,
    bearer: Option<TypedHeader<Authorization<Bearer>>>,
    basic: Result<TypedHeader<Authorization<Basic>>, TypedHeaderRejection>,
    _kind: TypedHeader<ContentType>,
    Host(host): Host,
    Scheme(scheme): Scheme,
    found: Result<Host, HostRejection>,
) -> String {
    let known = bearer.is_some() || basic.is_ok() || found.is_ok();
    format!("{} at {scheme}://{host}, {known}", agent.as_str())
}

#[idempotent(scope = "account", state = AppState)]
async fn queries(
    _tx: &mut Tx<Sqlite>,
    account: Account,
    Query(page): Query<Page>,
    OptionalQuery(next): OptionalQuery<Page>,
    OptionalPath(shop): OptionalPath<u64>,
    Form(fields): Form<Page>,
) -> String {
    format!("{} {} {:?} {:?}", page.size, fields.tags.len(), next.map(|page| page.size), shop)
}

#[idempotent(scope = "account", state = AppState)]
async fn cookies(
    _tx: &mut Tx<Sqlite>,
    Cached(account): Cached<Account>,
    jar: CookieJar,
    private: PrivateCookieJar,
    signed: SignedCookieJar,
    WithRejection(Json(new), _): WithRejection<Json<NewOrder>, BadBody>,
) -> (CookieJar, String) {
    let known = private.get("session").is_some() || signed.get("session").is_some();
    (jar.add(cookie::Cookie::new("known", known.to_string())), new.item)
}

fn main() {
    let _: Router<AppState> = Router::new()
        .route("/headers", post(headers))
        .route("/queries", post(queries))
        .route("/cookies", post(cookies));
}
