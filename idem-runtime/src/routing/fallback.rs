//! What answers when no route does. Requests of every method get there, so that it must have nothing to write with.

use std::future::Future;

use axum::extract::{FromRequestParts, OriginalUri, RawQuery, Request};
use axum::response::{IntoResponse, Response};
use http::{HeaderMap, Method, Uri, Version};

/// What a request's head says: data, that nothing can be written with.
#[diagnostic::on_unimplemented(
    message = "a fallback can't take `{Self}`",
    label = "not a part of the request's head",
    note = "it can take `Method`, `Uri`, `OriginalUri`, `Version`, `HeaderMap` and `RawQuery`"
)]
pub trait HeadArgument: FromRequestParts<(), Rejection: IntoResponse> + Send {}

impl HeadArgument for Method {}
impl HeadArgument for Uri {}
impl HeadArgument for OriginalUri {}
impl HeadArgument for Version {}
impl HeadArgument for HeaderMap {}
impl HeadArgument for RawQuery {}

/// A function that answers by the request's head alone, as `async fn(Method, Uri) -> impl IntoResponse`. `T` is inferred.
///
/// Without state and body there is nothing to write with, so that it may answer requests of every method. It is of no size,
/// so that it has not captured a pool either, not even a `&'static` one:
///
/// ```compile_fail,E0080
/// use axum::http::StatusCode;
/// use idem_runtime::routing::Router;
///
/// let sent: &'static std::sync::mpsc::SyncSender<String> = Box::leak(Box::new(std::sync::mpsc::sync_channel(1).0));
/// let router: Router = Router::new().fallback(move || async move {
///     let _ = sent.try_send("not found".to_owned());
///     StatusCode::NOT_FOUND
/// });
/// ```
///
/// That is found when the program is built, and not by `cargo check`.
#[diagnostic::on_unimplemented(
    message = "this fallback could write: requests of every method reach it",
    label = "takes or captures more than the request's head",
    note = "make it an `async fn` of up to four of `Method`, `Uri`, `OriginalUri`, `Version`, `HeaderMap` and `RawQuery`, or a closure that captures nothing",
    note = "a handler that reads belongs to `read_fallback`, which only `GET`, `HEAD`, `OPTIONS` and `TRACE` reach"
)]
pub trait FallbackHandler<T>: Copy + Send + Sync + Sized + 'static {
    /// Its answer.
    #[doc(hidden)]
    fn answer(self, request: Request) -> impl Future<Output = Response> + Send;
}

macro_rules! fallback_handler {
    ($($argument:ident)*) => {
        #[diagnostic::do_not_recommend]
        #[allow(non_snake_case, unused_mut, unused_variables)]
        impl<F, Fut, R, $($argument,)*> FallbackHandler<(Fut, $($argument,)*)> for F
        where
            F: Fn($($argument,)*) -> Fut + Copy + Send + Sync + 'static,
            Fut: Future<Output = R> + Send,
            R: IntoResponse,
            $($argument: HeadArgument,)*
        {
            async fn answer(self, request: Request) -> Response {
                const {
                    assert!(
                        size_of::<F>() == 0,
                        "this fallback could write: requests of every method reach it, and it captures a value; \
                         take what it needs from the request's head, or from a constant"
                    );
                }
                let (mut parts, _) = request.into_parts();
                $(
                    let $argument = match $argument::from_request_parts(&mut parts, &()).await {
                        Ok(read) => read,
                        Err(rejection) => return rejection.into_response(),
                    };
                )*
                self($($argument,)*).await.into_response()
            }
        }
    };
}

fallback_handler!();
fallback_handler!(A);
fallback_handler!(A B);
fallback_handler!(A B C);
fallback_handler!(A B C D);
