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
pub trait Arguments<S, M>: Sized + Send {
    /// Reads them from a request.
    #[doc(hidden)]
    fn read(request: Request, state: &S) -> impl Future<Output = Result<Self, Response>> + Send;

    /// The limits that hold for an operation of this state.
    #[doc(hidden)]
    fn limits(_state: &S, _spec: &Spec) -> Option<Limits> {
        None
    }
}

impl<S, M, H, A> Arguments<S, M> for Call<H, A>
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

impl<S: Sync> Arguments<S, ()> for Direct<()> {
    async fn read(_: Request, _: &S) -> Result<Self, Response> {
        Ok(Self(()))
    }
}

macro_rules! direct {
    ($($part:ident)* ; $last:ident) => {
        #[allow(non_snake_case, unused_mut)]
        impl<S, M, $($part,)* $last> Arguments<S, M> for Direct<($($part,)* $last,)>
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
                Ok(Self(($($part,)* $last,)))
            }
        }
    };
}

super::write_handler::each_arity!(direct);
