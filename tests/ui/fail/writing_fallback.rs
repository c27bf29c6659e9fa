#![allow(unused)]

#[path = "../support.rs"]
mod support;
use axum::http::{Method, Uri};
use axum::extract::Request;
use idem_runtime::routing;
use support::*;

async fn writes(State(pricing): State<Pricing>) -> StatusCode {
    StatusCode::CREATED
}

async fn proxies(request: Request) -> StatusCode {
    StatusCode::CREATED
}

async fn not_found(method: Method, uri: Uri) -> StatusCode {
    StatusCode::NOT_FOUND
}

fn main() {
    let _: routing::Router<AppState> = routing::Router::new()
        .route("/", routing::get(not_found).fallback(writes))
        .fallback(proxies)
        .method_not_allowed_fallback(async |Json(new): Json<NewOrder>| "done");
    let _: routing::Router<AppState> = routing::Router::new()
        .fallback(not_found)
        .route_service("/", tower::service_fn(|_: Request| async { Ok(StatusCode::OK) }));
}
