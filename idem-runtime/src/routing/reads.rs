//! Lets only requests through that ask for nothing to be changed.

use axum::extract::Request;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http::{StatusCode, header};

/// The safe methods of RFC 9110, section 9.2.1.
pub(super) const SAFE: &str = "GET, HEAD, OPTIONS, TRACE";

/// Middleware: what a request of another method would do is not declared, and so it is refused.
pub(super) async fn only_reads(request: Request, next: Next) -> Response {
    if request.method().is_safe() {
        return next.run(request).await;
    }
    (StatusCode::METHOD_NOT_ALLOWED, [(header::ALLOW, SAFE)]).into_response()
}

/// The same, where nothing is known to be there: there is nothing else to do with the path.
pub(super) async fn only_reads_or_nothing(request: Request, next: Next) -> Response {
    if request.method().is_safe() {
        return next.run(request).await;
    }
    StatusCode::NOT_FOUND.into_response()
}
