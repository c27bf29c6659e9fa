//! How the arguments of a handler for writes are read from a request, and what that asks of the router's state.

use std::future::Future;

use axum::extract::{FromRequest, Request};
use axum::response::Response;

use super::check::Limits;
use crate::call::{Call, Extract, HasIdempotency, LastArgument, PartArgument, part};
use crate::operation::Spec;
use crate::tx::Handle;

/// A handler's arguments, which a router with the state `S` can read. `M` is inferred, as axum's marker of extractors is.
///
/// Implemented for the arguments of annotated functions, and not meant to be implemented elsewhere.
pub trait HandlerArguments<S, M>: Sized + Send {
    /// Reads them from a request.
    #[doc(hidden)]
    fn read(request: Request, state: &S) -> impl Future<Output = Result<Self, Response>> + Send;

    /// The limits that hold for an operation of this state.
    #[doc(hidden)]
    fn limits(_state: &S, _spec: &Spec) -> Option<Limits> {
        None
    }
}

impl<S, M, H, A> HandlerArguments<S, M> for Call<H, A>
where
    S: HasIdempotency<H::Db> + Clone + Send + Sync + 'static,
    H: Handle,
    A: Extract<S, M>,
    M: 'static,
{
    fn read(request: Request, state: &S) -> impl Future<Output = Result<Self, Response>> + Send {
        Self::from_request(request, state)
    }

    fn limits(state: &S, spec: &Spec) -> Option<Limits> {
        Some(Limits::of(&state.idempotency(), spec))
    }
}

/// Arguments that a function takes as they are written.
#[derive(Debug)]
pub struct Direct<T>(pub(super) T);

impl<S, M, T> HandlerArguments<S, M> for Direct<T>
where
    S: Sync,
    T: ReadDirect<S, M> + Send,
{
    async fn read(request: Request, state: &S) -> Result<Self, Response> {
        T::read(request, state).await.map(Self)
    }
}

/// A tuple of arguments. A trait of its own, so that rustc's messages don't list every tuple.
pub trait ReadDirect<S, M>: Sized {
    /// Reads each of them.
    fn read(request: Request, state: &S) -> impl Future<Output = Result<Self, Response>> + Send;
}

impl<S: Sync> ReadDirect<S, ()> for () {
    async fn read(_: Request, _: &S) -> Result<Self, Response> {
        Ok(())
    }
}

macro_rules! read_direct {
    ($($part:ident)* ; $last:ident) => {
        #[allow(non_snake_case, unused_mut)]
        impl<S, M, $($part,)* $last> ReadDirect<S, M> for ($($part,)* $last,)
        where
            S: Send + Sync,
            $($part: PartArgument<S> + Send,)*
            $last: LastArgument<S, M> + Send,
        {
            async fn read(request: Request, state: &S) -> Result<Self, Response> {
                let (mut parts, body) = request.into_parts();
                $(let $part = part(&mut parts, state).await?;)*
                let request = Request::from_parts(parts, body);
                let $last = $last::late(None, request, state).await?;
                Ok(($($part,)* $last,))
            }
        }
    };
}

super::write_handler::each_arity!(read_direct);
