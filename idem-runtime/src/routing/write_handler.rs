//! Handlers that say what a repeat of their request does.

use std::future::Future;

use axum::response::{IntoResponse, Response};

use super::arguments::Direct;
use super::declared::{Declaration, Declared};
use super::listed::{Does, Function};
use crate::call::{Call, Running, Split};
use crate::operation::Operation;
use crate::tx::Handle;

/// A handler for writes: a function that [`#[idempotent]`](macro@crate::idempotent) or
/// [`#[repeat_safe]`](macro@crate::repeat_safe) annotates. `T` is inferred, as the marker of axum's `Handler` is.
///
/// The attributes are the only way to implement it.
#[diagnostic::on_unimplemented(
    message = "this handler does not say what a repeat of its request does",
    label = "neither `#[idempotent]` nor `#[repeat_safe]`",
    note = "a client that lost the answer sends the request again: annotate the function with `#[idempotent(scope = \"..\")]`, and a repeat gets the first answer",
    note = "or, if a repeat is harmless by design, with `#[repeat_safe(client_id, why = \"..\")]`; `conditional` and `precondition` are the other designs",
    note = "a handler that only reads belongs to `get`"
)]
pub trait WriteHandler<T>: Clone + Send + Sync + Sized + 'static {
    /// What it takes from a request.
    type Arguments: Send;

    /// What it says, for the report.
    #[doc(hidden)]
    fn function() -> Function;

    /// Its answer.
    #[doc(hidden)]
    fn call(self, arguments: Self::Arguments) -> impl Future<Output = Response> + Send;
}

/// Marks functions of `#[repeat_safe]`.
#[derive(Debug)]
pub enum ByDesign {}

#[diagnostic::do_not_recommend]
impl<F, O, H, A> WriteHandler<(H, A)> for F
where
    F: Fn(Call<H, A>) -> Running<O> + Clone + Send + Sync + 'static,
    H: Handle,
    A: Split,
    O: Operation<Handle = H, Args = A>,
{
    type Arguments = Call<H, A>;

    fn function() -> Function {
        Function {
            path: O::SPEC.function,
            identity: std::any::type_name::<O>(),
            does: Does::Idempotent(&O::SPEC),
        }
    }

    async fn call(self, arguments: Self::Arguments) -> Response {
        self(arguments).await
    }
}

#[diagnostic::do_not_recommend]
impl<F, Fut, R, D> WriteHandler<(ByDesign,)> for F
where
    F: Fn() -> Fut + Clone + Send + Sync + 'static,
    Fut: Future<Output = Declared<R, D>> + Send,
    D: Declaration,
{
    type Arguments = Direct<()>;

    fn function() -> Function {
        Function::by_design::<D>()
    }

    async fn call(self, _: Direct<()>) -> Response {
        self().await.into_response()
    }
}

macro_rules! by_design {
    ($($part:ident)* ; $last:ident) => {
        #[diagnostic::do_not_recommend]
        #[allow(non_snake_case)]
        impl<F, Fut, R, D, $($part,)* $last> WriteHandler<(ByDesign, $($part,)* $last,)> for F
        where
            F: Fn($($part,)* $last,) -> Fut + Clone + Send + Sync + 'static,
            Fut: Future<Output = Declared<R, D>> + Send,
                    D: Declaration,
            $($part: Send,)*
            $last: Send,
        {
            type Arguments = Direct<($($part,)* $last,)>;

            fn function() -> Function {
                Function::by_design::<D>()
            }

            async fn call(self, arguments: Self::Arguments) -> Response {
                let Direct(($($part,)* $last,)) = arguments;
                self($($part,)* $last,).await.into_response()
            }
        }
    };
}

/// As many arguments as a handler of axum's can have.
macro_rules! each_arity {
    ($each:ident) => {
        $each!(; L);
        $each!(A1; L);
        $each!(A1 A2; L);
        $each!(A1 A2 A3; L);
        $each!(A1 A2 A3 A4; L);
        $each!(A1 A2 A3 A4 A5; L);
        $each!(A1 A2 A3 A4 A5 A6; L);
        $each!(A1 A2 A3 A4 A5 A6 A7; L);
        $each!(A1 A2 A3 A4 A5 A6 A7 A8; L);
        $each!(A1 A2 A3 A4 A5 A6 A7 A8 A9; L);
        $each!(A1 A2 A3 A4 A5 A6 A7 A8 A9 A10; L);
        $each!(A1 A2 A3 A4 A5 A6 A7 A8 A9 A10 A11; L);
        $each!(A1 A2 A3 A4 A5 A6 A7 A8 A9 A10 A11 A12; L);
        $each!(A1 A2 A3 A4 A5 A6 A7 A8 A9 A10 A11 A12 A13; L);
        $each!(A1 A2 A3 A4 A5 A6 A7 A8 A9 A10 A11 A12 A13 A14; L);
        $each!(A1 A2 A3 A4 A5 A6 A7 A8 A9 A10 A11 A12 A13 A14 A15; L);
    };
}
pub(super) use each_arity;

each_arity!(by_design);
