//! From a request to a call: the one extractor that a generated handler has.
//!
//! It reads the arguments that come from the request's parts at once, so that a caller who may not call
//! sees nothing stored; and it keeps a reader that makes all arguments anew from the buffered request,
//! for the attempts that follow a serialization failure.

use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::Body;
use axum::extract::{DefaultBodyLimit, FromRef, FromRequest, FromRequestParts, Request};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures_util::future::BoxFuture;
use http::request::Parts;
use sqlx::Database;

use crate::backend::Backend;
use crate::faults;
use crate::idempotency::Idempotency;
use crate::operation::{Operation, Spec};
use crate::replay::Replay;
use crate::scope::ScopeKey;
use crate::settle::Settled;
use crate::steps::Inputs;
use crate::tx::Handle;

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
    note = "what the router's state holds is taken as `State<{Self}>`",
    note = "every argument but the last must implement `FromRequestParts`"
)]
pub trait PartArgument<S>: FromRequestParts<S> {}

#[diagnostic::do_not_recommend]
impl<S, T: FromRequestParts<S>> PartArgument<S> for T {}

/// A handler's last argument. `M` is inferred: it tells those that want the body from the others.
#[diagnostic::on_unimplemented(
    message = "a handler can't take `{Self}` from a request",
    label = "takes a `{Self}` as its last argument",
    note = "what the router's state holds is taken as `State<{Self}>`, and a body as `Json<{Self}>`",
    note = "the last argument must implement `FromRequest` or `FromRequestParts`"
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
type Early<A> = (<A as Split>::Prefix, Option<<A as Split>::Last>);

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

/// A router's state that has an [`Idempotency`] for the handler's database.
#[diagnostic::on_unimplemented(
    message = "the router's state `{Self}` has no `Idempotency<{DB}>`",
    label = "needs `Idempotency<{DB}>: FromRef<{Self}>`",
    note = "add a field `idempotency: Idempotency<{DB}>` to `{Self}` and derive `axum::extract::FromRef` for it"
)]
pub trait HasIdempotency<DB: Backend> {
    /// A clone of it.
    fn idempotency(&self) -> Idempotency<DB>;
}

#[diagnostic::do_not_recommend]
impl<S, DB: Backend> HasIdempotency<DB> for S
where
    Idempotency<DB>: FromRef<S>,
{
    fn idempotency(&self) -> Idempotency<DB> {
        Idempotency::from_ref(self)
    }
}

/// What arguments are made from, beside the body.
enum Source<A: Split> {
    /// What is already read, and the parts as the extractors left them.
    Read(Early<A>, Parts),
    /// The parts as they came.
    Again(Parts),
}

/// Makes the arguments, ready to be called with. Hides the state's type.
type Reader<H, A> = Box<
    dyn Fn(Source<A>, Bytes, Operated<H, A>) -> BoxFuture<'static, Result<Ready<H>, Response>>
        + Send
        + Sync,
>;

/// A request whose parts were read: the only argument of a generated handler.
///
/// Without other bounds: what the handler's types must be is the operation's to say.
pub struct Call<H: 'static, A: 'static> {
    run: Box<dyn FnOnce(Operated<H, A>) -> BoxFuture<'static, Response> + Send>,
}

/// The same, with its types known.
struct Arrived<H: Handle, A: Split> {
    idempotency: Idempotency<H::Db>,
    parts: Parts,
    body: Body,
    early: Early<A>,
    /// As the extractors left them.
    late_parts: Parts,
    read: Reader<H, A>,
}

/// Lets axum infer how the last argument is read.
#[derive(Debug)]
pub struct Via<M>(PhantomData<fn(M)>);

impl<S, M, H, A> FromRequest<S, Via<M>> for Call<H, A>
where
    S: HasIdempotency<H::Db> + Clone + Send + Sync + 'static,
    H: Handle,
    A: Extract<S, M>,
    M: 'static,
{
    type Rejection = Response;

    async fn from_request(request: Request, state: &S) -> Result<Self, Response> {
        let (parts, body) = request.into_parts();
        let mut late_parts = parts.clone();
        let early = match A::early(&mut late_parts, state).await {
            Ok(early) => early,
            Err(rejection) => return Err(faults::recall(&parts.headers).unwrap_or(rejection)),
        };
        let idempotency = state.idempotency();
        let state = state.clone();
        let read: Reader<H, A> = Box::new(move |source, body, operation| {
            let state = state.clone();
            Box::pin(async move {
                let ((prefix, last), parts) = match source {
                    Source::Read(early, parts) => (early, parts),
                    Source::Again(mut parts) => (A::early(&mut parts, &state).await?, parts),
                };
                let last = A::late(last, parts, body, &state).await?;
                let arguments = A::join(prefix, last);
                Ok(Ready::new(arguments, operation))
            })
        });
        let arrived = Arrived {
            idempotency,
            parts,
            body,
            early,
            late_parts,
            read,
        };
        Ok(Self {
            run: Box::new(move |operation| Box::pin(arrived.run(operation))),
        })
    }
}

impl<H: 'static, A: 'static> fmt::Debug for Call<H, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Call").finish_non_exhaustive()
    }
}

/// A handler with its arguments: all that is left is what it writes through.
pub(crate) struct Ready<H> {
    /// The arguments as data, where the handler may run again without its request.
    pub(crate) inputs: Option<Inputs>,
    pub(crate) call: Called<H>,
}

type Called<H> = Box<dyn for<'t> FnOnce(&'t mut H) -> BoxFuture<'t, Settled> + Send>;

impl<H: Handle> Ready<H> {
    fn new<A: Send + 'static>(arguments: A, operation: Operated<H, A>) -> Self {
        Self {
            inputs: operation.inputs(&arguments),
            call: called(move |handle: &mut H| operation.start(handle, arguments)),
        }
    }

    /// With arguments that were stored.
    pub(crate) fn again<O: Operation<Handle = H, Args: Send>>(arguments: O::Args) -> Self {
        Self::new(arguments, &Of::<O>(PhantomData))
    }
}

/// Makes a [`Ready`] from the buffered request, as often as it takes.
pub(crate) type Prepare<H> =
    Box<dyn FnMut(&Parts, &Bytes) -> BoxFuture<'static, Result<Ready<H>, Response>> + Send>;

/// Builds the answer of a replay again.
pub(crate) type Rebuild<DB> =
    for<'c> fn(&'c mut <DB as Database>::Connection, &'c Replay) -> BoxFuture<'c, Response>;

/// A closure that is boxed by a cast is not higher-ranked; one that meets this bound is.
fn called<H, F>(call: F) -> Called<H>
where
    F: for<'t> FnOnce(&'t mut H) -> BoxFuture<'t, Settled> + Send + 'static,
{
    Box::new(call)
}

/// A request that may call its handler, with all types but the database's erased, so that the engine is
/// compiled once a database and not once a handler.
pub struct Authorized<H: Handle> {
    pub(crate) idempotency: Idempotency<H::Db>,
    pub(crate) spec: &'static Spec,
    pub(crate) scope: ScopeKey,
    pub(crate) parts: Parts,
    pub(crate) body: Body,
    pub(crate) prepare: Prepare<H>,
    pub(crate) rebuild: Option<Rebuild<H::Db>>,
}

impl<H: Handle> fmt::Debug for Authorized<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Authorized")
            .field("spec", &self.spec)
            .finish_non_exhaustive()
    }
}

impl<H: Handle, A: Split<Prefix: Send, Last: Send>> Arrived<H, A> {
    async fn run(self, operation: Operated<H, A>) -> Response {
        if let Some(authorize) = operation.authorize() {
            let checked = authorize(&self.early.0);
            if let Err(refused) = checked.await {
                return refused;
            }
        }
        H::run(self.authorized(operation)).await
    }

    fn authorized(self, operation: Operated<H, A>) -> Authorized<H> {
        let scope = operation.scope(&self.early.0);
        let read = self.read;
        let mut first = Some((self.early, self.late_parts));
        let prepare: Prepare<H> = Box::new(move |parts, body| {
            let source = match first.take() {
                Some((early, parts)) => Source::Read(early, parts),
                None => Source::Again(parts.clone()),
            };
            read(source, body.clone(), operation)
        });
        Authorized {
            idempotency: self.idempotency,
            spec: operation.spec(),
            scope,
            parts: self.parts,
            body: self.body,
            prepare,
            rebuild: operation.rebuild(),
        }
    }
}

/// The check of `authorize`.
pub(crate) type Authorize<P> = for<'p> fn(&'p P) -> BoxFuture<'p, Result<(), Response>>;

/// An operation, of which only the types are known: code that takes it is compiled once for all handlers with the same
/// arguments.
trait Erased<H, A>: Sync {
    fn spec(&self) -> &'static Spec;

    fn authorize(&self) -> Option<Authorize<A::Prefix>>
    where
        A: Split;

    fn scope(&self, prefix: &A::Prefix) -> ScopeKey
    where
        A: Split;

    /// Calls the handler and settles its answer.
    fn start<'t>(&self, handle: &'t mut H, arguments: A) -> BoxFuture<'t, Settled>;

    fn rebuild(&self) -> Option<Rebuild<H::Db>>
    where
        H: Handle;

    /// The arguments as data, where the handler may run again without its request.
    fn inputs(&self, arguments: &A) -> Option<Inputs>;
}

type Operated<H, A> = &'static dyn Erased<H, A>;

/// The operation itself.
struct Of<O>(PhantomData<fn() -> O>);

impl<O: Operation> Erased<O::Handle, O::Args> for Of<O> {
    fn spec(&self) -> &'static Spec {
        &O::SPEC
    }

    fn authorize(&self) -> Option<Authorize<<O::Args as Split>::Prefix>> {
        O::AUTHORIZE
    }

    fn scope(&self, prefix: &<O::Args as Split>::Prefix) -> ScopeKey {
        (O::FUNCTIONS.scope)(prefix)
    }

    fn start<'t>(&self, handle: &'t mut O::Handle, arguments: O::Args) -> BoxFuture<'t, Settled> {
        let functions = O::FUNCTIONS;
        settled((functions.call)(handle, arguments), functions.settle)
    }

    fn rebuild(&self) -> Option<Rebuild<<O::Handle as Handle>::Db>> {
        O::REBUILD
    }

    fn inputs(&self, arguments: &O::Args) -> Option<Inputs> {
        const {
            assert!(
                O::INPUTS.is_some() || !<O::Handle as Handle>::RECOVERS,
                "`#[idempotent]` must see that this handler has steps: write `&mut Steps<DB, E>`, and no alias of it"
            );
        }
        O::INPUTS.map(|inputs| inputs(arguments))
    }
}

fn settled<R: 'static>(
    answer: BoxFuture<'_, R>,
    settle: fn(R) -> Settled,
) -> BoxFuture<'_, Settled> {
    Box::pin(async move { settle(answer.await) })
}

/// What a generated handler returns: the answer to come. `O` is how routes, recovery and tests find the operation.
#[must_use = "a handler runs when it is awaited"]
pub struct Running<O> {
    answer: BoxFuture<'static, Response>,
    operation: PhantomData<fn() -> O>,
}

/// Runs an operation for a request.
pub fn run<O: Operation>(call: Call<O::Handle, O::Args>) -> Running<O> {
    Running {
        answer: (call.run)(&Of::<O>(PhantomData)),
        operation: PhantomData,
    }
}

impl<O> Future for Running<O> {
    type Output = Response;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Response> {
        self.answer.as_mut().poll(context)
    }
}

impl<O> fmt::Debug for Running<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Running").finish_non_exhaustive()
    }
}

/// A function that `#[idempotent]` made. `T` is inferred.
#[diagnostic::on_unimplemented(
    message = "this is no idempotent handler",
    label = "annotate it with `#[idempotent(scope = \"..\")]`"
)]
pub trait IdempotentHandler<T>: Clone + Send + Sync + 'static {
    /// The operation.
    type Operation: Operation;

    /// Calls your own function, in a transaction of yours: for unit tests. The arguments are those of
    /// the function, as a tuple, without the transaction. There is no key, no claim and no stored answer.
    ///
    /// # Cancel safety
    ///
    /// That of your function.
    fn invoke<'t>(
        &self,
        handle: &'t mut <Self::Operation as Operation>::Handle,
        arguments: <<Self::Operation as Operation>::Args as Split>::Tuple,
    ) -> BoxFuture<'t, <Self::Operation as Operation>::Output> {
        let functions = <Self::Operation as Operation>::FUNCTIONS;
        (functions.call)(handle, Split::from_tuple(arguments))
    }

    /// What the attribute says of it.
    fn spec(&self) -> Spec {
        <Self::Operation as Operation>::SPEC
    }
}

#[diagnostic::do_not_recommend]
impl<F, O, H, A> IdempotentHandler<(H, A)> for F
where
    F: Fn(Call<H, A>) -> Running<O> + Clone + Send + Sync + 'static,
    H: Handle,
    A: Split,
    O: Operation<Handle = H, Args = A>,
{
    type Operation = O;
}
