//! What was read from the request, and so is data.
//!
//! serde builds it from the request's bytes and from nothing else, so that a type of another crate, such as
//! a date, passes without a word. What the type's fields hide is not seen, which is why [`Data`] asks for
//! more; and why a router's state, which anything may fill, is not read by this measure.

use std::convert::Infallible;
use std::panic::{RefUnwindSafe, UnwindSafe};

use serde::de::DeserializeOwned;

/// An argument that is made from the request, or from the message, alone.
pub trait RequestData {
    /// What the handler is given in its place, where it asks for a `Result`.
    type Rejection;
}

/// What a deserialiser makes, with no field that it skips and that holds a connection pool or a trait
/// object: these are never unwind safe, while data always is.
pub trait Data: DeserializeOwned + UnwindSafe + RefUnwindSafe {}
impl<T: DeserializeOwned + UnwindSafe + RefUnwindSafe> Data for T {}

macro_rules! read_by_serde {
    ($($ty:ty),* $(,)?) => {
        $(
            impl<T: Data> RequestData for $ty {
                type Rejection = Infallible;
            }
        )*
    };
}
read_by_serde!(
    axum::Json<T>,
    axum::Form<T>,
    axum::extract::Query<T>,
    axum::extract::Path<T>,
    crate::inbox::Message<T>,
);

// the body, unread: made of the buffered request
impl RequestData for axum::body::Body {
    type Rejection = Infallible;
}
impl RequestData for axum::extract::Multipart {
    type Rejection = Infallible;
}

impl<T: RequestData> RequestData for Option<T> {
    type Rejection = T::Rejection;
}
impl<T: RequestData, E> RequestData for Result<T, E> {
    type Rejection = (T::Rejection, E);
}
impl<A: RequestData, B: RequestData> RequestData for (A, B) {
    type Rejection = (A::Rejection, B::Rejection);
}
impl<A: RequestData, B: RequestData, C: RequestData> RequestData for (A, B, C) {
    type Rejection = (A::Rejection, B::Rejection, C::Rejection);
}
