//! What answers a request: routes, nested and merged; middleware; fallbacks; and what must never be reached.

use std::convert::Infallible;

use axum::extract::Request;
use axum::http::header::ALLOW;
use axum::http::{HeaderValue, Method, Uri};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use idem_runtime::routing::{
    DeclaredService, Design, EntityTag, IfMatch, MethodFilter, PreconditionFailed, any, delete,
    get, get_service, on, patch, post, put, trace,
};

use super::*;

fn orders() -> Router<App> {
    Router::new()
        .route("/", get(list).post(create))
        .route("/{id}/cancel", put(cancel))
}

async fn not_found(method: Method, uri: Uri) -> (StatusCode, String) {
    (StatusCode::NOT_FOUND, format!("no {method} {uri}"))
}

async fn marked(request: Request, next: Next) -> Response {
    let mut answer = next.run(request).await;
    answer
        .headers_mut()
        .append("x-mark", HeaderValue::from_static("yes"));
    answer
}

fn marks(answer: &Answer) -> usize {
    answer.headers.get_all("x-mark").iter().count()
}

#[tokio::test]
async fn a_write_is_replayed_below_a_prefix_too() {
    let set = set(|builder| builder).await;
    let app = set.serve(Router::new().nest("/shops", Router::new().nest("/orders", orders())));
    let key = [("idempotency-key", "k")];
    let first = send(&app, "POST /shops/orders", &key).await;
    let second = send(&app, "POST /shops/orders", &key).await;
    assert_eq!(first.seen(), (201, "order 1"));
    assert_eq!(second.seen(), (201, "order 1"));
    assert!(second.headers.contains_key("idempotent-replayed"));
    let keyless = send(&app, "POST /shops/orders", &[]).await;
    assert_eq!(keyless.status, StatusCode::BAD_REQUEST);
}

#[tokio::test]
async fn a_repeat_safe_write_and_a_read_run_each_time() {
    let set = set(|builder| builder).await;
    let app = set.serve(Router::new().nest("/orders", orders()));
    for run in 1..=2 {
        let answer = send(&app, "PUT /orders/7/cancel", &[]).await;
        assert_eq!(answer.seen(), (200, format!("7, run {run}").as_str()));
    }
    assert_eq!(send(&app, "GET /orders", &[]).await.body, "run 3");
    assert_eq!(send(&app, "HEAD /orders", &[]).await.seen(), (200, ""));
    let unread = send(&app, "PUT /orders/seven/cancel", &[]).await;
    assert_eq!(unread.status, StatusCode::BAD_REQUEST);
}

#[tokio::test]
async fn merged_routers_and_routes_of_one_path_answer_together() {
    let set = set(|builder| builder).await;
    let cancels = Router::new().route("/orders", on(MethodFilter::DELETE, create));
    let app = set.serve(
        Router::new()
            .route("/orders", get(list))
            .route("/orders", post(create).merge(patch(create)))
            .merge(cancels),
    );
    assert_eq!(send(&app, "GET /orders", &[]).await.seen(), (200, "run 1"));
    for (order, method) in ["POST", "PATCH", "DELETE"].into_iter().enumerate() {
        let answer = send(
            &app,
            &format!("{method} /orders"),
            &[("idempotency-key", method)],
        )
        .await;
        assert_eq!(
            answer.seen(),
            (201, format!("order {}", order + 1).as_str())
        );
    }
    let wrong = send(&app, "PUT /orders", &[]).await;
    assert_eq!(wrong.seen(), (405, ""));
    let allowed = wrong.headers[ALLOW].to_str().expect("a list of methods");
    for method in ["GET", "HEAD", "POST", "PATCH", "DELETE"] {
        assert!(allowed.contains(method), "{allowed}");
    }
}

#[tokio::test]
async fn one_declared_function_may_answer_every_method() {
    let set = set(|builder| builder).await;
    let app = set.serve(
        Router::new()
            .route("/any/{id}", any(cancel))
            .route(
                "/on/{id}",
                on(MethodFilter::PUT.or(MethodFilter::CONNECT), cancel),
            )
            .route("/trace", trace(list).options(list)),
    );
    for method in ["GET", "PUT", "PURGE"] {
        let answer = send(&app, &format!("{method} /any/7"), &[]).await;
        assert_eq!(answer.status, StatusCode::OK, "{method}");
    }
    assert_eq!(send(&app, "PUT /on/7", &[]).await.status, StatusCode::OK);
    let other = send(&app, "POST /on/7", &[]).await;
    assert_eq!(other.status, StatusCode::METHOD_NOT_ALLOWED);
    for method in ["TRACE", "OPTIONS"] {
        let answer = send(&app, &format!("{method} /trace"), &[]).await;
        assert_eq!(answer.status, StatusCode::OK, "{method}");
    }
}

#[tokio::test]
async fn middleware_wraps_what_was_there_before_it() {
    let set = set(|builder| builder).await;
    let layer = || middleware::from_fn(marked);
    let app = set.serve(
        Router::new()
            .route("/method", get(list).layer(layer()).post(create))
            .route("/route", get(list).route_layer(layer()))
            .nest("/orders", orders().layer(layer()))
            .fallback(not_found)
            .route_layer(layer())
            .route("/after", get(list)),
    );
    let seen = [
        ("GET /method", 2),
        ("POST /method", 1),
        ("PUT /route", 1),
        ("GET /route", 2),
        ("GET /orders", 2),
        ("GET /after", 0),
        ("GET /nowhere", 0),
    ];
    for (request, expected) in seen {
        assert_eq!(
            marks(&send(&app, request, &[]).await),
            expected,
            "{request}"
        );
    }
    let app = set.serve(Router::new().fallback(not_found).layer(layer()));
    assert_eq!(marks(&send(&app, "GET /nowhere", &[]).await), 1);
}

#[tokio::test]
async fn a_fallback_answers_every_method_by_the_head_alone() {
    let set = set(|builder| builder).await;
    let app = set.serve(
        Router::new()
            .route("/own", get(list).fallback(async || "another method"))
            .nest("/orders", orders())
            .method_not_allowed_fallback(async |method: Method| {
                (StatusCode::GONE, method.to_string())
            })
            .fallback(not_found),
    );
    let seen = [
        ("POST /nowhere?x=1", (404, "no POST /nowhere?x=1")),
        ("GET /nowhere", (404, "no GET /nowhere")),
        ("DELETE /own", (200, "another method")),
        ("DELETE /orders", (410, "DELETE")),
    ];
    for (request, expected) in seen {
        assert_eq!(send(&app, request, &[]).await.seen(), expected, "{request}");
    }
    let app = set.serve(Router::new().fallback(not_found).reset_fallback());
    assert_eq!(send(&app, "GET /nowhere", &[]).await.seen(), (404, ""));
}

#[tokio::test]
async fn a_fallback_that_reads_is_not_reached_by_writes() {
    let set = set(|builder| builder).await;
    let service =
        tower::service_fn(|_: Request| async { Ok::<_, Infallible>("a file".into_response()) });
    let handler = set.serve(Router::new().nest("/orders", orders()).read_fallback(list));
    let files = set.serve(
        Router::new()
            .nest("/orders", orders())
            .read_fallback_service(service),
    );
    assert_eq!(
        send(&handler, "GET /nowhere", &[]).await.seen(),
        (200, "run 1")
    );
    assert_eq!(
        send(&files, "GET /nowhere", &[]).await.seen(),
        (200, "a file")
    );
    for app in [&handler, &files] {
        for method in ["POST", "PUT", "PATCH", "DELETE", "PURGE"] {
            let answer = send(app, &format!("{method} /nowhere"), &[]).await;
            assert_eq!(answer.seen(), (404, ""), "{method}");
        }
    }
    assert_eq!(set.app.runs.number(), 1);
}

#[tokio::test]
async fn a_router_of_axums_is_reached_by_reads_only() {
    let set = set(|builder| builder).await;
    let foreign = || {
        axum::Router::<App>::new()
            .route("/docs", axum::routing::get(list).post(list))
            .route("/all", axum::routing::any(list))
            .route("/rest", axum::routing::put(list).fallback(list))
            .fallback(list)
    };
    let nested = set.serve(Router::new().nest_reads("/foreign", foreign()));
    let merged = set.serve(
        Router::new()
            .merge_reads(foreign())
            .route("/docs", delete(create))
            .fallback(not_found),
    );
    for (app, prefix) in [(&nested, "/foreign"), (&merged, "")] {
        for path in ["/docs", "/all", "/rest"] {
            let read = send(app, &format!("GET {prefix}{path}"), &[]).await;
            assert_eq!(read.status, StatusCode::OK, "{path}");
            let before = set.app.runs.number();
            for method in ["POST", "PUT", "PURGE"] {
                let request = format!("{method} {prefix}{path}");
                let written = send(app, &request, &[]).await;
                assert_eq!(written.status, StatusCode::METHOD_NOT_ALLOWED, "{request}");
            }
            assert_eq!(set.app.runs.number(), before);
        }
    }
    let before = set.app.runs.number();
    let fallback = send(&nested, "POST /foreign/nowhere", &[]).await;
    assert_eq!(fallback.status, StatusCode::METHOD_NOT_ALLOWED);
    let fallback = send(&merged, "POST /nowhere", &[]).await;
    assert_eq!(fallback.seen(), (404, "no POST /nowhere"));
    assert_eq!(set.app.runs.number(), before);
    let key = [("idempotency-key", "k")];
    assert_eq!(
        send(&merged, "DELETE /docs", &key).await.seen(),
        (201, "order 1")
    );
}

#[tokio::test]
async fn a_service_is_reached_by_writes_only_when_it_is_declared() {
    let set = set(|builder| builder).await;
    let service = tower::service_fn(|request: Request| async move {
        Ok::<_, Infallible>(request.method().to_string().into_response())
    });
    let declared = || DeclaredService::new(service, "graphql", Design::ClientId, "ids are sent");
    let app = set.serve(
        Router::new()
            .route_service("/one", declared())
            .nest_service("/below", declared())
            .nest_read_service("/files", service)
            .route("/file", get_service(service)),
    );
    let seen = [
        ("POST /one", (200, "POST")),
        ("PUT /below/x", (200, "PUT")),
        ("GET /files/x", (200, "GET")),
        ("PUT /files/x", (405, "")),
        ("GET /file", (200, "GET")),
        ("PUT /file", (405, "")),
    ];
    for (request, expected) in seen {
        assert_eq!(send(&app, request, &[]).await.seen(), expected, "{request}");
    }
}

#[repeat_safe(precondition, why = "revision 3 is gone afterwards")]
async fn replace(if_match: IfMatch) -> Result<&'static str, PreconditionFailed> {
    if_match.check(Some(&EntityTag::strong(3)))?;
    Ok("revision 4")
}

#[tokio::test]
async fn a_precondition_is_asked_for_in_any_router() {
    let ours: axum::Router = Router::new().route("/", put(replace)).into_axum();
    let theirs: axum::Router = axum::Router::new().route("/", axum::routing::put(replace));
    for app in [ours, theirs] {
        let cases: [(&[(&str, &str)], u16); 4] = [
            (&[], 428),
            (&[("if-match", "3")], 400),
            (&[("if-match", "\"2\"")], 412),
            (&[("if-match", "\"2\", \"3\"")], 200),
        ];
        for (fields, expected) in cases {
            let answer = send(&app, "PUT /", fields).await;
            assert_eq!(answer.status.as_u16(), expected, "{fields:?}");
        }
    }
    assert_eq!(
        replace(IfMatch::Any).await.into_inner(),
        Ok("revision 4"),
        "a unit test calls the function itself"
    );
}
