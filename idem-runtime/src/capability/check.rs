//! The check of one argument, and of one field.
//!
//! Method calls try a type, then what it derefs to, and pass over a method whose `impl` has a bound that
//! does not hold. So `check` is that of the first tier that fits, and rustc speaks only in the last, where
//! the bound is the method's own. The types are reached by value alone: a message names them and no path
//! of generated code.

use std::marker::PhantomData;
use std::ops::Deref;

use super::EffectFree;
use super::request::RequestData;
use crate::call::{LastArgument, PartArgument};

/// First tier: declared free of effects.
#[derive(Debug)]
pub struct Argument<T>(ReadFromRequest<T>);

/// Second tier: data that was read from the request.
#[derive(Debug)]
pub struct ReadFromRequest<T>(Handler<T>);

/// Last tier: refused.
#[derive(Debug)]
pub struct Handler<T>(PhantomData<fn() -> T>);

/// Starts the check of an argument of this type.
#[must_use]
pub const fn vet<T>() -> Argument<T> {
    Argument(ReadFromRequest(Handler(PhantomData)))
}

impl<T: EffectFree> Argument<T> {
    /// Accepted.
    pub const fn takes<U>(&self) {}

    /// Accepted, if the router's state `S` has what it is read from.
    pub const fn takes_part<U: PartArgument<S>, S>(&self) {}

    /// Accepted, if it can be read from the whole request.
    pub const fn takes_last<U: LastArgument<S, M>, S, M>(&self) {}
}

impl<T: RequestData> ReadFromRequest<T> {
    /// Accepted, if what it is when it could not be read is, too.
    pub const fn takes<U>(&self)
    where
        T::Rejection: EffectFree,
    {
    }

    /// Accepted, with both conditions.
    pub const fn takes_part<U: PartArgument<S>, S>(&self)
    where
        T::Rejection: EffectFree,
    {
    }

    /// Accepted, with both conditions.
    pub const fn takes_last<U: LastArgument<S, M>, S, M>(&self)
    where
        T::Rejection: EffectFree,
    {
    }
}

impl<T> Handler<T> {
    /// Refused, with the reason of the part that is to blame. `U` is `T`: a bound on it is blamed where
    /// the type is written.
    pub const fn takes<U: EffectFree>(&self) {}

    /// Refused, and it may not be read at all.
    pub const fn takes_part<U: EffectFree + PartArgument<S>, S>(&self) {}

    /// Refused, and it may not be read at all.
    pub const fn takes_last<U: EffectFree + LastArgument<S, M>, S, M>(&self) {}
}

impl<T> Deref for Argument<T> {
    type Target = ReadFromRequest<T>;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl<T> Deref for ReadFromRequest<T> {
    type Target = Handler<T>;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

/// A field of a type that derives [`EffectFree`].
#[derive(Debug)]
pub struct Field;

/// Starts the check of a field.
#[must_use]
pub const fn field() -> Field {
    Field
}

impl Field {
    /// A field may have come from anywhere, so that there is but one tier.
    pub const fn must_be_effect_free<T: EffectFree + ?Sized>(&self) {}
}
