//! The report: every route, sorted, with what a repeat does.

use std::time::Duration;

use idem_runtime::routing::{MethodFilter, Repeat, any, on, post, put};

use super::*;

#[idempotent(scope = "account", ttl = "90s")]
async fn touch(tx: &mut Tx<Sqlite>, account: Account) {
    let _ = (tx, account);
}

fn router() -> Router<App> {
    let orders = Router::new()
        .route("/{id}/cancel", put(cancel))
        .route("/", post(create).get(list));
    let docs = axum::Router::new().route("/", axum::routing::get(list));
    Router::new()
        .route("/touch", any(touch))
        .nest("/b", Router::new().nest("/orders", orders.clone()))
        .nest("/a/", orders)
        .nest_reads("/docs", docs)
        .route("/two", on(MethodFilter::PATCH.or(MethodFilter::PUT), touch))
}

const TABLE: &str = "\
METHOD  ROUTE                  OPERATION      ON A REPEAT  SCOPE    TTL  FUNCTION                          WHY
GET     /a/                    -              reads        -        -    contract::routing::list
POST    /a/                    orders.create  idempotent   account  24h  contract::routing::create
PUT     /a/{id}/cancel         orders.cancel  conditional  -        -    contract::routing::cancel         it is cancelled once
GET     /b/orders              -              reads        -        -    contract::routing::list
POST    /b/orders              orders.create  idempotent   account  24h  contract::routing::create
PUT     /b/orders/{id}/cancel  orders.cancel  conditional  -        -    contract::routing::cancel         it is cancelled once
GET..   /docs/*                -              reads        -        -    axum::Router
ANY     /touch                 touch          idempotent   account  90s  contract::routing::report::touch
PUT     /two                   touch          idempotent   account  90s  contract::routing::report::touch
PATCH   /two                   touch          idempotent   account  90s  contract::routing::report::touch
";

#[test]
fn it_lists_every_route_in_an_order_of_its_own() {
    let report = router().report().to_string();
    assert_eq!(report, TABLE, "\n{report}");
    let turned = Router::new().merge(router()).report().to_string();
    assert_eq!(turned, TABLE);
}

#[tokio::test]
async fn the_routes_that_it_lists_are_there() {
    let set = set(|builder| builder).await;
    let app = set.serve(router());
    for route in router().report().routes() {
        let method = match route.method {
            "ANY" => "PURGE",
            "GET.." => "GET",
            method => method,
        };
        let path = route.route.replace("{id}", "7").replace('*', "");
        let path = if path == "/docs/" { "/docs" } else { &path };
        let key = format!("\"{method} {path}\"");
        let answer = send(
            &app,
            &format!("{method} {path}"),
            &[("idempotency-key", &key)],
        )
        .await;
        assert!(
            answer.status.is_success(),
            "{method} {path}: {}",
            answer.status
        );
    }
}

#[tokio::test]
async fn a_state_fills_in_what_an_attribute_leaves_open() {
    let set = set(|builder| builder.ttl(Duration::from_secs(7 * 24 * 60 * 60))).await;
    let report = router().with_state::<()>(set.app.clone()).report();
    let ttl_of = |operation: &str| {
        let mut routes = report.routes().iter();
        let route = routes.find(|route| route.operation == Some(operation));
        match route.map(|route| &route.repeat) {
            Some(Repeat::Idempotent { ttl, .. }) => ttl.as_secs(),
            other => panic!("{operation}: {other:?}"),
        }
    };
    assert_eq!(ttl_of("orders.create"), 7 * 24 * 60 * 60);
    assert_eq!(ttl_of("touch"), 90);
    let table = report.to_string();
    assert!(table.contains("account  7d "), "{table}");
}

#[test]
fn it_is_serialized_for_other_programs() {
    let report = serde_json::to_value(router().report()).expect("a report is data");
    assert_eq!(
        report[1],
        serde_json::json!({
            "method": "POST",
            "route": "/a/",
            "operation": "orders.create",
            "function": "contract::routing::create",
            "repeat": "idempotent",
            "scope": "account",
            "ttl_seconds": 86400.0,
        })
    );
    assert_eq!(report[2]["repeat"], "repeat_safe");
    assert_eq!(report[2]["design"], "conditional");
    assert_eq!(report[2]["why"], "it is cancelled once");
    assert_eq!(report[0]["operation"], serde_json::Value::Null);
    assert_eq!(report[0]["repeat"], "read");
}
