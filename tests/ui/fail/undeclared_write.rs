#![allow(unused)]

#[path = "../support.rs"]
mod support;
use idem_runtime::routing::{self, MethodFilter};
use support::*;

async fn undeclared(State(pricing): State<Pricing>) -> StatusCode {
    StatusCode::CREATED
}

fn main() {
    let _: routing::Router<AppState> = routing::Router::new()
        .route("/post", routing::post(undeclared))
        .route("/put", routing::get(undeclared).put(undeclared))
        .route("/closure", routing::patch(async || "done"))
        .route("/on", routing::on(MethodFilter::GET.or(MethodFilter::DELETE), undeclared))
        .route("/any", routing::any(undeclared))
        .route("/axum", post(undeclared))
        .merge(axum::Router::new());
}
