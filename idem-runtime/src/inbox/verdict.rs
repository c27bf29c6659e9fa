//! What becomes of a message whose consumer ran: by the word of its error type, else by what its error's chain holds.

use std::error::Error;
use std::fmt::Display;
use std::marker::PhantomData;
use std::ops::Deref;

use crate::backend;
use crate::settle::{Disposition, ErrorKind, asks_to_run_again, holds};

/// What a consumer's return value says.
#[derive(Debug)]
pub enum Verdict {
    /// Commit, then acknowledge.
    Done,
    /// The database asks for another run.
    Again,
    /// The database is out of reach: wait for it.
    Outage(String),
    /// Deliver it again later.
    Retry(String),
    /// It would fail again: to the dead letters.
    Reject(String),
}

impl Verdict {
    /// By the error's own word.
    fn declared<E: Disposition>(error: &E, reason: String) -> Self {
        let cause = error.cause();
        if cause.is_some_and(asks_to_run_again) {
            return Self::Again;
        }
        match error.disposition() {
            ErrorKind::Validation | ErrorKind::Rejection => Self::Reject(reason),
            ErrorKind::Transient if cause.is_some_and(|cause| holds(cause, backend::is_outage)) => {
                Self::Outage(reason)
            }
            ErrorKind::Transient => Self::Retry(reason),
        }
    }

    /// By what the error's chain holds.
    fn sourced(error: &(dyn Error + 'static)) -> Self {
        if asks_to_run_again(error) {
            Self::Again
        } else if holds(error, backend::is_outage) {
            Self::Outage(error.to_string())
        } else {
            Self::Retry(error.to_string())
        }
    }
}

/// First tier: the error implements [`Disposition`] and says what it is.
///
/// As in `settle`: method calls try a type, then what it derefs to.
#[derive(Debug)]
pub struct DeclaredAndDisplayed<R>(Declared<R>);
/// Second tier: the error implements [`Disposition`].
#[derive(Debug)]
pub struct Declared<R>(Sourced<R>);
/// Third tier: the error is a `std::error::Error`.
#[derive(Debug)]
pub struct Sourced<R>(Boxed<R>);
/// Fourth tier: the error holds any error.
#[derive(Debug)]
pub struct Boxed<R>(Displayed<R>);
/// Fifth tier: the error can be shown.
#[derive(Debug)]
pub struct Displayed<R>(Plain<R>);
/// Sixth tier: the error says nothing.
#[derive(Debug)]
pub struct Plain<R>(Total<R>);
/// Last tier: there is no error.
#[derive(Debug)]
pub struct Total<R>(PhantomData<fn(R)>);

/// Where the choice of the tier starts.
pub const fn verdict<R>(_: &R) -> DeclaredAndDisplayed<R> {
    DeclaredAndDisplayed(Declared(Sourced(Boxed(Displayed(Plain(Total(
        PhantomData,
    )))))))
}

macro_rules! tiers {
    ($($(#[$docs:meta])* $tier:ident: $next:ident [$($bound:tt)+] $error:ident => $verdict:expr;)*) => {
        $(
            impl<R> Deref for $tier<R> {
                type Target = $next<R>;

                fn deref(&self) -> &$next<R> {
                    &self.0
                }
            }

            impl<T, E: $($bound)+> $tier<Result<T, E>> {
                $(#[$docs])*
                pub fn settle(&self, output: Result<T, E>) -> Verdict {
                    match output {
                        Ok(_) => Verdict::Done,
                        Err($error) => $verdict,
                    }
                }
            }
        )*
    };
}

tiers! {
    /// Settles by the error's own word.
    DeclaredAndDisplayed: Declared [Disposition + Display] error => Verdict::declared(&error, error.to_string());
    /// Settles by the error's own word.
    Declared: Sourced [Disposition] error => {
        let reason = match error.cause() {
            Some(cause) => cause.to_string(),
            None => std::any::type_name::<E>().to_owned(),
        };
        Verdict::declared(&error, reason)
    };
    /// Settles by what the error's chain holds.
    Sourced: Boxed [Error + 'static] error => Verdict::sourced(&error);
    /// Settles by what the held error's chain holds.
    Boxed: Displayed [AsRef<dyn Error + Send + Sync + 'static>] error => Verdict::sourced(error.as_ref());
    /// It may work later.
    Displayed: Plain [Display] error => Verdict::Retry(error.to_string());
    /// It may work later.
    Plain: Total ['static] _error => Verdict::Retry(std::any::type_name::<E>().to_owned());
}

/// What a consumer returns that can't fail.
#[diagnostic::on_unimplemented(
    message = "a consumer returns `Result<(), E>`, or nothing",
    label = "says neither that it is done nor that it failed"
)]
pub trait Completes {}

impl Completes for () {}

impl<R> Total<R> {
    /// It is done. `U` is `R`: a bound on it is blamed where the type is written.
    pub fn settle<U: Completes>(&self, _: U) -> Verdict {
        Verdict::Done
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("sold")]
    struct Sold;

    impl Disposition for Sold {
        fn disposition(&self) -> ErrorKind {
            ErrorKind::Rejection
        }
    }

    macro_rules! settled {
        ($output:expr) => {{
            let output = $output;
            verdict(&output).settle(output)
        }};
    }

    #[test]
    fn the_most_specific_word_counts() {
        let declared: Result<(), Sold> = Err(Sold);
        assert!(matches!(settled!(declared), Verdict::Reject(why) if why == "sold"));
        let down: Result<(), sqlx::Error> = Err(sqlx::Error::PoolTimedOut);
        assert!(matches!(settled!(down), Verdict::Outage(_)));
        let wrong: Result<(), sqlx::Error> = Err(sqlx::Error::RowNotFound);
        assert!(matches!(settled!(wrong), Verdict::Retry(_)));
        let boxed: Result<(), Box<dyn Error + Send + Sync>> =
            Err(Box::new(sqlx::Error::PoolTimedOut));
        assert!(matches!(settled!(boxed), Verdict::Outage(_)));
        let text: Result<u8, &str> = Err("no");
        assert!(matches!(settled!(text), Verdict::Retry(why) if why == "no"));
        let nothing: Result<u8, ()> = Err(());
        assert!(matches!(settled!(nothing), Verdict::Retry(_)));
        assert!(matches!(settled!(()), Verdict::Done));
        assert!(matches!(settled!(Ok::<u8, ()>(1)), Verdict::Done));
    }
}
