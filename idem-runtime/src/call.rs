//! From a request to a call: the one extractor that a generated handler has.
//!
//! It reads the arguments that come from the request's parts at once, so that a caller who may not call
//! sees nothing stored; and it keeps a reader that makes all arguments anew from the buffered request,
//! for the attempts that follow a serialization failure.

mod arguments;
mod operated;

use std::fmt;
use std::marker::PhantomData;

use axum::body::Body;
use axum::extract::{FromRef, FromRequest, Request};
use axum::response::Response;
use bytes::Bytes;
use futures_util::future::BoxFuture;
use http::request::Parts;
use sqlx::Database;

use self::arguments::Early;
pub(crate) use self::arguments::part;
pub use self::arguments::{AllParts, Extract, LastArgument, PartArgument, Split};
pub(crate) use self::operated::Authorize;
pub use self::operated::{IdempotentHandler, Running, run};
use self::operated::{Of, Operated};
use crate::backend::Backend;
use crate::faults;
use crate::idempotency::Idempotency;
use crate::operation::{Operation, Spec};
use crate::replay::Replay;
use crate::scope::ScopeKey;
use crate::settle::Settled;
use crate::steps::Inputs;
use crate::tx::Handle;

/// A router's state that has an [`Idempotency`] for the handler's database.
#[diagnostic::on_unimplemented(
    message = "the router's state `{Self}` has no `Idempotency<{DB}>`",
    label = "needs `Idempotency<{DB}>: FromRef<{Self}>`",
    note = "add a field `idempotency: Idempotency<{DB}>` to `{Self}` and derive `axum::extract::FromRef` for it (axum's feature `macros`)"
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
        Self::new(arguments, &Of::<O>::OPERATION)
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
