//! A handler for writes, as axum's routes have it.

use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;

use axum::extract::Request;
use axum::handler::Handler;
use axum::response::Response;

use super::arguments::HandlerArguments;
use super::write_handler::WriteHandler;

/// See the module.
pub(super) struct Endpoint<H, T, M> {
    handler: H,
    inferred: PhantomData<fn() -> (T, M)>,
}

impl<H, T, M> Endpoint<H, T, M> {
    pub(super) fn new(handler: H) -> Self {
        Self {
            handler,
            inferred: PhantomData,
        }
    }
}

impl<H: Clone, T, M> Clone for Endpoint<H, T, M> {
    fn clone(&self) -> Self {
        Self::new(self.handler.clone())
    }
}

impl<H, T, M, S> Handler<(), S> for Endpoint<H, T, M>
where
    H: WriteHandler<T>,
    H::Arguments: HandlerArguments<S, M>,
    T: 'static,
    M: 'static,
    S: Send + Sync + 'static,
{
    type Future = Pin<Box<dyn Future<Output = Response> + Send>>;

    fn call(self, request: Request, state: S) -> Self::Future {
        Box::pin(async move {
            match H::Arguments::read(request, &state).await {
                Ok(arguments) => self.handler.call(arguments).await,
                Err(rejection) => rejection,
            }
        })
    }
}
