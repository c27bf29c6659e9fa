#![allow(unused)]

#[path = "../support.rs"]
mod support;
use idem_runtime::routing;
use support::*;

fn main() {
    let prices = vec![Pricing { cents: 1 }];
    let _: routing::Router<AppState> = routing::Router::new().fallback(move || {
        let prices = prices.clone();
        async move { prices[0].cents.to_string() }
    });
}
