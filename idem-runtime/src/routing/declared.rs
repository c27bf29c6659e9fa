//! What `#[repeat_safe]` says of a function, carried by the function's return type.

use std::fmt;
use std::marker::PhantomData;

use axum::response::{IntoResponse, Response};
use serde::Serialize;

/// The design that makes a repeat harmless without a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Design {
    /// The client chooses the id of what it makes, so that a repeat finds it made: `INSERT .. ON CONFLICT DO NOTHING`.
    ClientId,
    /// The write has its own condition, which the first request ends: `UPDATE .. WHERE status = 'open'`.
    Conditional,
    /// The client names the version that it changes (`If-Match`), and there is a new one afterwards
    /// ([RFC 9110, section 13.1.1](https://www.rfc-editor.org/rfc/rfc9110#section-13.1.1)).
    Precondition,
}

impl Design {
    /// As `#[repeat_safe]` has it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::ClientId => "client_id",
            Self::Conditional => "conditional",
            Self::Precondition => "precondition",
        }
    }
}

impl fmt::Display for Design {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// What `#[repeat_safe]` says of one function.
#[derive(Clone, Copy, Debug)]
pub struct RepeatSafe {
    /// The operation's name in the report.
    pub name: &'static str,
    /// The function's full path.
    pub function: &'static str,
    /// Why a repeat is harmless, as a kind.
    pub design: Design,
    /// And in words.
    pub why: &'static str,
}

/// A hidden type that stands for one `#[repeat_safe]` function.
pub trait Declaration {
    /// What the attribute says.
    const DECLARED: RepeatSafe;
}

/// The declaration of a function that did not compile, so that its route is no second error.
#[derive(Debug)]
pub enum Faulty {}

impl Declaration for Faulty {
    const DECLARED: RepeatSafe = RepeatSafe {
        name: "",
        function: "",
        design: Design::Conditional,
        why: "",
    };
}

/// The answer of a [`#[repeat_safe]`](macro@crate::repeat_safe) function. The type is how a route finds what was
/// declared; it answers as what is in it does, in any router of axum's too.
///
/// A unit test calls the function, and looks at what its author returned:
///
/// ```
/// use idem_runtime::repeat_safe;
///
/// #[repeat_safe(conditional, why = "only an open order changes")]
/// async fn pay() -> &'static str {
///     "paid"
/// }
///
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// assert_eq!(pay().await.into_inner(), "paid");
/// # });
/// ```
pub struct Declared<R, D> {
    answer: R,
    /// So that it is an answer whatever `R` is: one that is none is an error of its function, and not of the route too.
    respond: fn(R) -> Response,
    declaration: PhantomData<fn() -> D>,
}

impl<R, D> Declared<R, D> {
    /// What the function returned.
    pub fn into_inner(self) -> R {
        self.answer
    }
}

impl<R, D> IntoResponse for Declared<R, D> {
    fn into_response(self) -> Response {
        (self.respond)(self.answer)
    }
}

impl<R: fmt::Debug, D> fmt::Debug for Declared<R, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.answer.fmt(f)
    }
}

/// Runs the user's function. That its future is `Send` is checked here, at the function, and holds from here on.
#[allow(
    clippy::manual_async_fn,
    reason = "an `async fn` would not be known to be `Send`"
)]
pub(crate) fn declared<R, D>(
    run: impl Future<Output = R> + Send,
    respond: fn(R) -> Response,
) -> impl Future<Output = Declared<R, D>> + Send {
    async move {
        Declared {
            answer: run.await,
            respond,
            declaration: PhantomData,
        }
    }
}
