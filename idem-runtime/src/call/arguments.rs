//! A handler's arguments, as tuples that are read from a request in two parts.

use std::future::Future;

use axum::body::Body;
use axum::extract::{DefaultBodyLimit, FromRequest, FromRequestParts, Request};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use http::request::Parts;

/// A handler's arguments: a tuple whose members are read from the request's parts, but for the last,
/// which may want the body.
#[diagnostic::on_unimplemented(
    message = "a handler takes sixteen arguments beside its transaction at most",
    label = "too many arguments",
    note = "gather some in a type of yours that implements `FromRequestParts`"
)]
pub trait Split: Sized + 'static {
    /// The arguments as the handler has them.
    type Tuple;
    /// Those that are read before the body.
    type Prefix: 'static;
    /// The last.
    type Last: 'static;

    /// All together.
    fn join(prefix: Self::Prefix, last: Self::Last) -> Self;
    /// As the handler has them.
    fn into_tuple(self) -> Self::Tuple;
    /// From a caller who has them all.
    fn from_tuple(tuple: Self::Tuple) -> Self;
}

/// Arguments that are all read from the request's parts.
#[derive(Debug)]
pub struct AllParts<T>(pub T);

/// Marks a last argument that is read from the request's parts.
#[derive(Debug)]
pub enum ByParts {}
/// Marks a last argument that is read from the whole request.
#[derive(Debug)]
pub enum ByBody {}

/// An argument that is read from the request's parts. A trait of ours, for a message of ours.
#[diagnostic::on_unimplemented(
    message = "a handler can't take `{Self}` from a request",
    label = "takes a `{Self}` before its last argument",
    note = "every argument but the last must implement `FromRequestParts`",
    note = "what the router's state holds is taken as `State<Part>`, where `Part: FromRef<{S}>`: a field of the state, which derives `FromRef`"
)]
pub trait PartArgument<S>: FromRequestParts<S> {}

#[diagnostic::do_not_recommend]
impl<S, T: FromRequestParts<S>> PartArgument<S> for T {}

/// A handler's last argument. `M` is inferred: it tells those that want the body from the others.
#[diagnostic::on_unimplemented(
    message = "a handler can't take `{Self}` from a request",
    label = "takes a `{Self}` as its last argument",
    note = "the last argument must implement `FromRequest` or `FromRequestParts`: a body is taken as `Json<Body>`",
    note = "what the router's state holds is taken as `State<Part>`, where `Part: FromRef<{S}>`: a field of the state, which derives `FromRef`"
)]
pub trait LastArgument<S, M>: Sized {
    /// Reads it before the body, if it does not want that.
    fn early(
        parts: &mut Parts,
        state: &S,
    ) -> impl Future<Output = Result<Option<Self>, Response>> + Send;
    /// Reads it from the whole request, if it was not read before.
    fn late(
        early: Option<Self>,
        request: Request,
        state: &S,
    ) -> impl Future<Output = Result<Self, Response>> + Send;
}

#[diagnostic::do_not_recommend]
impl<S: Send + Sync, T: FromRequest<S> + Send> LastArgument<S, ByBody> for T {
    async fn early(_: &mut Parts, _: &S) -> Result<Option<T>, Response> {
        Ok(None)
    }
    async fn late(_: Option<T>, request: Request, state: &S) -> Result<T, Response> {
        T::from_request(request, state)
            .await
            .map_err(IntoResponse::into_response)
    }
}

#[diagnostic::do_not_recommend]
impl<S: Send + Sync, T: FromRequestParts<S> + Send> LastArgument<S, ByParts> for T {
    async fn early(parts: &mut Parts, state: &S) -> Result<Option<T>, Response> {
        part(parts, state).await.map(Some)
    }
    async fn late(early: Option<T>, request: Request, state: &S) -> Result<T, Response> {
        match early {
            Some(early) => Ok(early),
            None => part(&mut request.into_parts().0, state).await,
        }
    }
}

/// What was read before the body. The last argument is among it where it does not want the body.
pub(super) type Early<A> = (<A as Split>::Prefix, Option<<A as Split>::Last>);

/// How arguments are read, each by itself, so that rustc blames the one that can't be.
///
/// That arguments are `Send` is said here, and of the handler's own future, where rustc blames the one that is not.
pub trait Extract<S, M>: Split<Prefix: Send, Last: Send> + Send {
    /// Reads what comes from the parts.
    fn early(
        parts: &mut Parts,
        state: &S,
    ) -> impl Future<Output = Result<Early<Self>, Response>> + Send;
    /// Reads the last argument.
    fn late(
        last: Option<Self::Last>,
        parts: Parts,
        body: Bytes,
        state: &S,
    ) -> impl Future<Output = Result<Self::Last, Response>> + Send;
}

macro_rules! arguments {
    ($($part:ident)* ; $last:ident) => {
        #[diagnostic::do_not_recommend]
        impl<$($part: 'static,)* $last: 'static> Split for ($($part,)* $last,) {
            type Tuple = Self;
            type Prefix = ($($part,)*);
            type Last = $last;

            #[allow(non_snake_case)]
            fn join(($($part,)*): Self::Prefix, $last: $last) -> Self {
                ($($part,)* $last,)
            }
            fn into_tuple(self) -> Self {
                self
            }
            fn from_tuple(tuple: Self) -> Self {
                tuple
            }
        }

        #[allow(non_snake_case, unused_variables)]
        impl<S, M, $($part,)* $last> Extract<S, M> for ($($part,)* $last,)
        where
            S: Send + Sync,
            $($part: PartArgument<S> + Send + 'static,)*
            $last: LastArgument<S, M> + Send + 'static,
        {
            async fn early(parts: &mut Parts, state: &S) -> Result<Early<Self>, Response> {
                $(let $part = part(parts, state).await?;)*
                let $last = $last::early(parts, state).await?;
                Ok((($($part,)*), $last))
            }
            async fn late(
                last: Option<$last>,
                parts: Parts,
                body: Bytes,
                state: &S,
            ) -> Result<$last, Response> {
                let mut request = Request::from_parts(parts, Body::from(body));
                // The attribute's `max_body` was checked when the body was buffered.
                DefaultBodyLimit::disable().apply(&mut request);
                $last::late(last, request, state).await
            }
        }

        #[diagnostic::do_not_recommend]
        impl<$($part: 'static,)* $last: 'static> Split
            for AllParts<($($part,)* $last,)>
        {
            type Tuple = ($($part,)* $last,);
            type Prefix = ($($part,)* $last,);
            type Last = ();

            fn join(prefix: Self::Prefix, (): ()) -> Self {
                Self(prefix)
            }
            fn into_tuple(self) -> Self::Tuple {
                self.0
            }
            fn from_tuple(tuple: Self::Tuple) -> Self {
                Self(tuple)
            }
        }

        #[allow(non_snake_case)]
        impl<S, $($part,)* $last> Extract<S, ByParts> for AllParts<($($part,)* $last,)>
        where
            S: Send + Sync,
            $($part: PartArgument<S> + Send + 'static,)*
            $last: PartArgument<S> + Send + 'static,
        {
            async fn early(parts: &mut Parts, state: &S) -> Result<Early<Self>, Response> {
                $(let $part = part(parts, state).await?;)*
                let $last = part(parts, state).await?;
                Ok((($($part,)* $last,), Some(())))
            }
            async fn late(_: Option<()>, _: Parts, _: Bytes, _: &S) -> Result<(), Response> {
                Ok(())
            }
        }
    };
}

pub(crate) async fn part<T: FromRequestParts<S>, S>(
    parts: &mut Parts,
    state: &S,
) -> Result<T, Response> {
    T::from_request_parts(parts, state)
        .await
        .map_err(IntoResponse::into_response)
}

arguments!(; L);
arguments!(A; L);
arguments!(A B; L);
arguments!(A B C; L);
arguments!(A B C D; L);
arguments!(A B C D E; L);
arguments!(A B C D E F; L);
arguments!(A B C D E F G; L);
arguments!(A B C D E F G H; L);
arguments!(A B C D E F G H I; L);
arguments!(A B C D E F G H I J; L);
arguments!(A B C D E F G H I J K; L);
arguments!(A B C D E F G H I J K N; L);
arguments!(A B C D E F G H I J K N O; L);
arguments!(A B C D E F G H I J K N O P; L);
arguments!(A B C D E F G H I J K N O P Q; L);
