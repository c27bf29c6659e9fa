//! Writes that are not declared, by every way onto a route.
#![allow(unused)]

#[path = "../support.rs"]
mod support;
use support::*;

use axum::handler::Handler;
use axum::extract::Request;
use idem_runtime::repeat_safe;
use idem_runtime::routing::{self, DeclaredService, MethodFilter, MethodRouter};

async fn undeclared(State(pricing): State<Pricing>, Json(new): Json<NewOrder>) -> StatusCode {
    StatusCode::CREATED
}

async fn service(_: Request) -> Result<Response, std::convert::Infallible> {
    Ok(StatusCode::OK.into_response())
}

fn mounted<H, T>(handler: H) -> MethodRouter<AppState>
where
    H: Handler<T, AppState>,
    T: 'static,
{
    routing::post(handler)
}

#[idempotent(scope = "account")]
async fn create(tx: &mut Tx<Sqlite>, account: Account) -> StatusCode {
    StatusCode::CREATED
}

fn main() {
    let reads = || routing::get(undeclared);
    let _: routing::Router<AppState> = routing::Router::new()
        .route("/chained", reads().delete(undeclared))
        .route("/filter", reads().on(MethodFilter::PATCH, undeclared))
        .route("/layered", routing::post(undeclared.layer(tower::layer::util::Identity::new())))
        .route("/around", routing::post(async |account: Account| undeclared))
        .route("/served", reads().post_service(tower::service_fn(service)))
        .route("/merged", reads().merge(axum::routing::post(undeclared)));
    let _: routing::Router<AppState> = routing::Router::new()
        .nest("/orders", axum::Router::new().route("/", post(undeclared)));
    let _: routing::Router<AppState> = axum::Router::new().route("/", post(undeclared)).into();
    let _: routing::Router<AppState> = routing::Router::new()
        .route_service("/", tower::service_fn(service));
    let _: routing::Router<AppState> = routing::Router::new()
        .nest_service("/", axum::Router::<()>::new());
    let _: routing::Router<AppState> = routing::Router::new().fallback(undeclared);
    let _: routing::Router<AppState> = routing::Router::new().fallback_service(tower::service_fn(service));
    let _ = DeclaredService::new(tower::service_fn(service), "orders");
}
