//! A consumer's arguments: made of the message and the state.

use axum::extract::{FromRef, State};
use serde::de::DeserializeOwned;

use super::message::{Incoming, Message};

/// Why an argument can't be made of a message. The message goes to the dead letters: it would be no better the next time.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Unreadable(pub String);

/// An argument of a consumer, made of the message and the state. Implement it for what your messages carry in their headers.
#[diagnostic::on_unimplemented(
    message = "a consumer can't take `{Self}` from a message",
    label = "takes a `{Self}`",
    note = "the message is taken as `Message<T>`, where `T: DeserializeOwned`, or unread as `Incoming`",
    note = "what the state `{S}` holds is taken as `State<Part>`, where `Part: FromRef<{S}>`"
)]
pub trait FromMessage<S>: Sized {
    /// Makes it.
    ///
    /// # Errors
    ///
    /// [`Unreadable`], which says why the message will never do.
    fn from_message(message: &Incoming, state: &S) -> Result<Self, Unreadable>;
}

#[diagnostic::do_not_recommend]
impl<S, T: DeserializeOwned> FromMessage<S> for Message<T> {
    fn from_message(message: &Incoming, _: &S) -> Result<Self, Unreadable> {
        let payload = serde_json::from_slice(message.payload()).map_err(|error| {
            Unreadable(format!(
                "the payload is no {}: {error}",
                std::any::type_name::<T>()
            ))
        })?;
        Ok(Self {
            payload,
            incoming: message.clone(),
        })
    }
}

impl<S> FromMessage<S> for Incoming {
    fn from_message(message: &Incoming, _: &S) -> Result<Self, Unreadable> {
        Ok(message.clone())
    }
}

#[diagnostic::do_not_recommend]
impl<S, T: FromRef<S>> FromMessage<S> for State<T> {
    fn from_message(_: &Incoming, state: &S) -> Result<Self, Unreadable> {
        Ok(State(T::from_ref(state)))
    }
}

/// All arguments of a consumer, as a tuple.
pub trait MessageArguments<S>: Sized {
    /// Makes them.
    ///
    /// # Errors
    ///
    /// [`Unreadable`], of the first that can't be made.
    fn from_message(message: &Incoming, state: &S) -> Result<Self, Unreadable>;
}

macro_rules! arguments {
    ($($member:ident)+) => {
        impl<S, $($member: FromMessage<S>),+> MessageArguments<S> for ($($member,)+) {
            fn from_message(message: &Incoming, state: &S) -> Result<Self, Unreadable> {
                Ok(($($member::from_message(message, state)?,)+))
            }
        }
    };
}

arguments!(A);
arguments!(A B);
arguments!(A B C);
arguments!(A B C D);
arguments!(A B C D E);
arguments!(A B C D E F);
arguments!(A B C D E F G);
arguments!(A B C D E F G H);
arguments!(A B C D E F G H I);
arguments!(A B C D E F G H I J);
arguments!(A B C D E F G H I J K);
arguments!(A B C D E F G H I J K L);
arguments!(A B C D E F G H I J K L M);
arguments!(A B C D E F G H I J K L M N);
arguments!(A B C D E F G H I J K L M N O);
arguments!(A B C D E F G H I J K L M N O P);
