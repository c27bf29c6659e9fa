//! What was read from the request, and so is data.
//!
//! serde builds it from the request's bytes and from nothing else, so that a type of another crate, such as
//! a date, passes without a word. What the type's fields hide is not seen, which is why [`Data`] asks for
//! more; and why a router's state, which anything may fill, is not read by this measure.

use std::panic::{RefUnwindSafe, UnwindSafe};

use serde::de::DeserializeOwned;

use super::EffectFree;

/// An argument that axum makes from the request alone.
pub trait RequestData {}

/// What a deserialiser makes, with no field that it skips and that holds a connection pool or a trait
/// object: these are never unwind safe, while data always is.
pub trait Data: DeserializeOwned + UnwindSafe + RefUnwindSafe {}
impl<T: DeserializeOwned + UnwindSafe + RefUnwindSafe> Data for T {}

macro_rules! read_by_serde {
    ($($ty:ty),* $(,)?) => {
        $(impl<T: Data> RequestData for $ty {})*
    };
}
read_by_serde!(
    axum::Json<T>,
    axum::Form<T>,
    axum::extract::Query<T>,
    axum::extract::Path<T>,
);

// the body, unread: made of the buffered request
impl RequestData for axum::body::Body {}
impl RequestData for axum::extract::Multipart {}

impl<T: RequestData> RequestData for Option<T> {}
impl<T: RequestData, E: EffectFree> RequestData for Result<T, E> {}

impl<A: RequestData> RequestData for (A,) {}
impl<A: RequestData, B: RequestData> RequestData for (A, B) {}
impl<A: RequestData, B: RequestData, C: RequestData> RequestData for (A, B, C) {}
