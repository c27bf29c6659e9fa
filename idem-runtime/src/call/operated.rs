//! An operation that is called: its types are known to what a request's extractor made, and to nothing else.

use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::task::{Context, Poll};

use axum::response::Response;
use futures_util::future::BoxFuture;

use super::{Call, Rebuild, Split};
use crate::operation::{Operation, Spec};
use crate::scope::ScopeKey;
use crate::settle::Settled;
use crate::steps::Inputs;
use crate::tx::Handle;

/// The check of `authorize`.
pub(crate) type Authorize<P> = for<'p> fn(&'p P) -> BoxFuture<'p, Result<(), Response>>;

/// An operation, of which only the types are known: code that takes it is compiled once for all handlers with the same
/// arguments.
pub(super) trait Erased<H, A>: Sync {
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

pub(super) type Operated<H, A> = &'static dyn Erased<H, A>;

/// The operation itself.
pub(super) struct Of<O>(PhantomData<fn() -> O>);

impl<O> Of<O> {
    pub(super) const OPERATION: Self = Self(PhantomData);
}

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
        answer: (call.run)(&Of::<O>::OPERATION),
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
