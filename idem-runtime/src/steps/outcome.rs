//! What became of a call to another service.

use std::error::Error;
use std::fmt;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;

// Where a step's result is not data, rustc says so three times: what an async function asks holds for its future too, which is checked
// again as the operand of `.await`, and as what `.await` is of. A future of ours that asks only where it is awaited is told once, with
// rustc's advice to remove the `.await`: that is worse.
/// What may be stored between two attempts: a step's result, an external step's input, a provider's refusal.
#[diagnostic::on_unimplemented(
    message = "what a step keeps must be data, and `{Self}` is not",
    label = "this can't be stored",
    note = "derive `Serialize` and `Deserialize` for `{Self}`, or take the part of it that later steps need",
    note = "wrap it for the answer (`Json(..)`, a status) after the step"
)]
pub trait StepData: Serialize + DeserializeOwned + Send {}

#[diagnostic::do_not_recommend]
impl<T: Serialize + DeserializeOwned + Send> StepData for T {}

/// What a call that failed says of its effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CallFailure<R> {
    /// It did not happen, and calling again would not change that: a declined card. The step ends with it. It must be the
    /// service's answer to this key: what only says that this one call was not made is [`NotYet`](Self::NotYet).
    Refused(R),
    /// It did not happen, and may later: an overloaded provider, a connection that was not made. The step calls again as its
    /// [`retry`](crate::steps::ExternalStep::retry) says, and else ends with it.
    NotYet {
        /// What the step ends with when it does not try again.
        refusal: R,
        /// When the provider wants to be asked again.
        after: Option<Duration>,
    },
    /// Nobody knows: the answer is lost, or says nothing. What follows is what the step declares.
    Unknown(String),
}

/// Tells what an error of your client says of the effect of the call.
///
/// Only an answer of the provider's, or the certainty that the request was never sent, makes a refusal; a time-out, a
/// connection that broke and an answer that can't be read are [`CallFailure::Unknown`].
///
/// ```
/// use idem_runtime::steps::{CallFailure, Classify};
/// use serde::{Deserialize, Serialize};
///
/// enum GatewayError {
///     Declined { code: String },
///     Busy,
///     Connection(std::io::Error),
/// }
///
/// /// What the handler is told, now and when it runs again.
/// #[derive(Debug, Serialize, Deserialize)]
/// struct Declined {
///     code: String,
/// }
///
/// impl Classify for GatewayError {
///     type Refusal = Declined;
///
///     fn classify(self) -> CallFailure<Declined> {
///         match self {
///             GatewayError::Declined { code } => CallFailure::Refused(Declined { code }),
///             GatewayError::Busy => CallFailure::NotYet {
///                 refusal: Declined { code: "busy".to_owned() },
///                 after: None,
///             },
///             GatewayError::Connection(error) => CallFailure::Unknown(error.to_string()),
///         }
///     }
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not say whether a call that failed with it had an effect",
    label = "implement `Classify` for it",
    note = "for an error that never tells, use `idem_runtime::steps::Unclassified`: every failure is then unknown"
)]
pub trait Classify: Send {
    /// What the handler is told of a refusal. It is stored, and told again when the handler runs again.
    type Refusal: StepData;

    /// What this error says.
    fn classify(self) -> CallFailure<Self::Refusal>;
}

/// Any error, of which nobody knows what it says of the effect: every failure is unknown. `?` makes it.
pub struct Unclassified(String);

impl<E: Error> From<E> for Unclassified {
    fn from(error: E) -> Self {
        Self(describe(&error))
    }
}

/// An error with its causes.
pub(super) fn describe(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(source) = next {
        text.push_str(": ");
        text.push_str(&source.to_string());
        next = source.source();
    }
    text
}

impl fmt::Debug for Unclassified {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Unclassified").field(&self.0).finish()
    }
}

/// The refusal of a client that never refuses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum Never {}

impl fmt::Display for Never {
    fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {}
    }
}

impl Error for Never {}

impl Classify for Unclassified {
    type Refusal = Never;

    fn classify(self) -> CallFailure<Never> {
        CallFailure::Unknown(self.0)
    }
}

/// What a provider says when it is asked whether a call took place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reconciled<T> {
    /// It did, and this was its result.
    Found(T),
    /// It did not, as far as the provider knows now.
    Absent,
    /// It can't be told: the operation is kept as *unknown*, with this reason.
    CannotTell(String),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unclassified_error_is_unknown_and_tells_its_causes() {
        #[derive(Debug, thiserror::Error)]
        #[error("no answer")]
        struct NoAnswer(#[source] std::io::Error);
        let fail = || -> Result<(), Unclassified> {
            Err(NoAnswer(std::io::Error::other("reset")))?;
            Ok(())
        };
        let failure = fail().expect_err("it failed").classify();
        assert_eq!(failure, CallFailure::Unknown("no answer: reset".to_owned()));
    }
}
