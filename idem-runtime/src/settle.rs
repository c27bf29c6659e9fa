//! What becomes of a handler's answer: by the word of its error type, else by what its error's
//! chain holds, else by the operation's default.

use std::error::Error;
use std::marker::PhantomData;
use std::ops::Deref;

use axum::response::{IntoResponse, Response};

use crate::backend;

/// What an error says of the key it leaves. `#[derive(Disposition)]` implements it.
///
/// ```
/// use idem_runtime::{Disposition, ErrorKind};
///
/// enum Refusal { Sold, Busy }
///
/// impl Disposition for Refusal {
///     fn disposition(&self) -> ErrorKind {
///         match self {
///             Refusal::Sold => ErrorKind::Rejection,
///             Refusal::Busy => ErrorKind::Transient,
///         }
///     }
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not say what it leaves of its idempotency key",
    label = "add `#[derive(Disposition)]` to it"
)]
pub trait Disposition {
    /// What this error leaves of its key.
    fn disposition(&self) -> ErrorKind;

    /// The underlying error, if there is one: a serialization failure or a deadlock that its
    /// chain holds makes the handler run again.
    fn cause(&self) -> Option<&(dyn Error + 'static)> {
        None
    }
}

/// The three kinds of errors that a handler answers with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    /// The request is wrong: the key is released, so that the client may correct and resend it.
    Validation,
    /// The business said no, for good (a declined card): below 500, the answer is stored and replayed.
    Rejection,
    /// It may work later: the key is released, so that a retry runs.
    Transient,
}

/// What becomes of a transaction and its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// Commit, and store the answer.
    Commit,
    /// Roll back, and release the key or store the answer as the operation's `errors` says.
    Err,
    /// Roll back and release the key.
    Release,
    /// The same, and it may work later: what is recorded of an operation with recovery points goes on then.
    Transient,
    /// Roll back, and store the answer if it is below 500.
    Reject,
    /// Roll back and run again: the database asked for it.
    Retry,
}

/// An answer, and what becomes of its transaction.
#[derive(Debug)]
pub struct Settled {
    pub(crate) fate: Fate,
    pub(crate) response: Response,
}

impl Settled {
    fn total(response: Response) -> Self {
        // Codes from 600 on are nobody's, and no success.
        let fate = if response.status().as_u16() >= 500 {
            Fate::Release
        } else {
            Fate::Commit
        };
        Self { fate, response }
    }

    fn of<T, E>(output: Result<T, E>, fate: impl FnOnce(&E) -> Fate) -> Self
    where
        Result<T, E>: IntoResponse,
    {
        match output.as_ref().err().map(fate) {
            None => Self::total(output.into_response()),
            Some(fate) => Self {
                fate,
                response: output.into_response(),
            },
        }
    }
}

/// First tier: the error implements [`Disposition`].
///
/// Method calls try a type, then what it derefs to, and pass over a method whose `impl` has a bound that does not
/// hold: `settle` is that of the first tier that fits what the handler returns.
#[derive(Debug)]
pub struct Declared<R>(Sourced<R>);
/// Second tier: the error is a `std::error::Error`.
#[derive(Debug)]
pub struct Sourced<R>(Plain<R>);
/// Third tier: the error is only a response.
#[derive(Debug)]
pub struct Plain<R>(Total<R>);
/// Last tier: there is no error.
#[derive(Debug)]
pub struct Total<R>(PhantomData<fn(R)>);

/// Where the choice of the tier starts.
pub const fn outcome<R>(_: &R) -> Declared<R> {
    Declared(Sourced(Plain(Total(PhantomData))))
}

macro_rules! next_tier {
    ($($tier:ident: $next:ident;)*) => {
        $(
            impl<R> Deref for $tier<R> {
                type Target = $next<R>;

                fn deref(&self) -> &$next<R> {
                    &self.0
                }
            }
        )*
    };
}
next_tier!(Declared: Sourced; Sourced: Plain; Plain: Total;);

impl<T, E: Disposition> Declared<Result<T, E>>
where
    Result<T, E>: IntoResponse,
{
    /// Settles by the error's own word.
    pub fn settle(&self, output: Result<T, E>) -> Settled {
        Settled::of(output, |error| {
            if error.cause().is_some_and(asks_to_run_again) {
                return Fate::Retry;
            }
            match error.disposition() {
                ErrorKind::Rejection => Fate::Reject,
                ErrorKind::Validation => Fate::Release,
                ErrorKind::Transient => Fate::Transient,
            }
        })
    }
}

impl<T, E: Error + 'static> Sourced<Result<T, E>>
where
    Result<T, E>: IntoResponse,
{
    /// Settles by what the error's chain holds.
    pub fn settle(&self, output: Result<T, E>) -> Settled {
        Settled::of(output, |error| {
            if asks_to_run_again(error) {
                Fate::Retry
            } else if holds(error, backend::is_outage) {
                Fate::Transient
            } else {
                Fate::Err
            }
        })
    }
}

impl<T, E> Plain<Result<T, E>>
where
    Result<T, E>: IntoResponse,
{
    /// Settles by the operation's default.
    pub fn settle(&self, output: Result<T, E>) -> Settled {
        Settled::of(output, |_| Fate::Err)
    }
}

impl<R> Total<R> {
    /// Settles by the status alone. `U` is `R`: a bound on it is blamed where the type is written.
    pub fn settle<U: IntoResponse>(&self, output: U) -> Settled {
        Settled::total(output.into_response())
    }
}

/// Whether a serialization failure or a deadlock is anywhere in the chain.
pub(crate) fn asks_to_run_again(error: &(dyn Error + 'static)) -> bool {
    holds(error, backend::asks_to_run_again)
}

/// Whether the database's error in the chain is such a one.
pub(crate) fn holds(error: &(dyn Error + 'static), such: fn(&sqlx::Error) -> bool) -> bool {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(error) = error.downcast_ref::<sqlx::Error>() {
            return such(error);
        }
        next = error.source();
    }
    false
}

#[cfg(test)]
mod tests {
    use axum::http::StatusCode;

    use super::*;

    #[test]
    fn from_500_on_nothing_commits() {
        for (status, fate) in [
            (200, Fate::Commit),
            (499, Fate::Commit),
            (500, Fate::Release),
            (600, Fate::Release),
            (999, Fate::Release),
        ] {
            let status = StatusCode::from_u16(status).expect("a status code");
            assert_eq!(
                Settled::total(status.into_response()).fate,
                fate,
                "{status}"
            );
        }
    }
}
