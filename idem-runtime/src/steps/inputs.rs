//! A handler's arguments, kept for the runs that have no request.
//!
//! What came from the request is data; what came from the router's state is taken from there again.

use axum::extract::{Form, FromRef, Json, Path, Query, State};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::value::{RawValue, to_raw_value};

use crate::call::{AllParts, Split};

/// An argument that outlives its request. `M` is inferred: it keeps the kinds apart.
#[diagnostic::on_unimplemented(
    message = "`{Self}` can't be kept for recovery",
    label = "this argument is neither data nor a part of the state",
    note = "a `Steps` handler may run again without its request: derive `Serialize` and `Deserialize` for what came from it, which is `T` for `Json<T>`, `Path<T>`, `Query<T>` and `Form<T>`",
    note = "a client or a configuration is taken from the state: `State<External<Client>>`"
)]
pub trait Keep<M>: Sized {
    /// As it is stored; `None`: nothing is.
    fn save(&self) -> serde_json::Result<Option<Box<RawValue>>>;
}

/// An argument that can be made without its request.
#[diagnostic::on_unimplemented(
    message = "`{Self}` can't be made again from the state `{S}`",
    label = "recovery has no request, and takes this argument from the state that it is given"
)]
pub trait Revive<S, M>: Keep<M> {
    /// From what was stored.
    fn load(saved: Option<&RawValue>, state: &S) -> Result<Self, String>;
}

/// Data by itself.
#[derive(Debug)]
pub enum AsData {}
/// An extractor around data.
#[derive(Debug)]
pub enum Wrapped {}
/// A part of the state.
#[derive(Debug)]
pub enum FromState {}

fn read<T: DeserializeOwned>(saved: Option<&RawValue>) -> Result<T, String> {
    // In a list, what is `null` is read as nothing.
    let saved = saved.map_or("null", RawValue::get);
    serde_json::from_str(saved).map_err(|error| error.to_string())
}

#[diagnostic::do_not_recommend]
impl<T: Serialize + DeserializeOwned> Keep<AsData> for T {
    fn save(&self) -> serde_json::Result<Option<Box<RawValue>>> {
        to_raw_value(self).map(Some)
    }
}

#[diagnostic::do_not_recommend]
impl<S, T: Serialize + DeserializeOwned> Revive<S, AsData> for T {
    fn load(saved: Option<&RawValue>, _: &S) -> Result<Self, String> {
        read(saved)
    }
}

macro_rules! wrapped {
    ($($wrapper:ident)+) => {$(
        #[diagnostic::do_not_recommend]
        impl<T: Serialize + DeserializeOwned> Keep<Wrapped> for $wrapper<T> {
            fn save(&self) -> serde_json::Result<Option<Box<RawValue>>> {
                to_raw_value(&self.0).map(Some)
            }
        }

        #[diagnostic::do_not_recommend]
        impl<S, T: Serialize + DeserializeOwned> Revive<S, Wrapped> for $wrapper<T> {
            fn load(saved: Option<&RawValue>, _: &S) -> Result<Self, String> {
                read(saved).map($wrapper)
            }
        }
    )+};
}

wrapped!(Json Path Query Form);

#[diagnostic::do_not_recommend]
impl<T> Keep<FromState> for State<T> {
    fn save(&self) -> serde_json::Result<Option<Box<RawValue>>> {
        Ok(None)
    }
}

#[diagnostic::do_not_recommend]
impl<S, T: FromRef<S>> Revive<S, FromState> for State<T> {
    fn load(_: Option<&RawValue>, state: &S) -> Result<Self, String> {
        Ok(State(T::from_ref(state)))
    }
}

/// Arguments on their way into the store.
#[derive(Debug, Default)]
pub struct Inputs {
    saved: Vec<Option<Box<RawValue>>>,
    error: Option<serde_json::Error>,
}

impl Inputs {
    /// None yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// With one more.
    #[must_use]
    pub fn keep<T: Keep<M>, M>(mut self, argument: &T) -> Self {
        match argument.save() {
            Ok(saved) => self.saved.push(saved),
            Err(error) => self.error = self.error.or(Some(error)),
        }
        self
    }

    /// As JSON.
    pub(crate) fn encode(self) -> serde_json::Result<Vec<u8>> {
        match self.error {
            Some(error) => Err(error),
            None => serde_json::to_vec(&self.saved),
        }
    }
}

/// All arguments of a handler, made again. `M` is inferred.
pub trait Arguments<S, M>: Split {
    /// From what [`Inputs`] stored.
    fn load(saved: &[Option<Box<RawValue>>], state: &S) -> Result<Self, String>;
}

pub(crate) fn decode(bytes: &[u8]) -> Result<Vec<Option<Box<RawValue>>>, String> {
    serde_json::from_slice(bytes).map_err(|error| error.to_string())
}

macro_rules! arguments {
    ($($member:ident $marker:ident)+) => {
        #[allow(non_snake_case, reason = "a member is named by its type parameter")]
        impl<S, $($member: Revive<S, $marker>, $marker),+> Arguments<S, ($($marker,)+)> for ($($member,)+)
        where
            Self: Split,
        {
            fn load(saved: &[Option<Box<RawValue>>], state: &S) -> Result<Self, String> {
                let [$($member),+] = saved else {
                    return Err(format!("{} arguments were stored", saved.len()));
                };
                $(let $member = load(stringify!($member), $member, state)?;)+
                Ok(($($member,)+))
            }
        }

        impl<S, $($member, $marker),+> Arguments<S, ($($marker,)+)> for AllParts<($($member,)+)>
        where
            ($($member,)+): Arguments<S, ($($marker,)+)>,
            Self: Split,
        {
            fn load(saved: &[Option<Box<RawValue>>], state: &S) -> Result<Self, String> {
                Arguments::load(saved, state).map(AllParts)
            }
        }
    };
}

fn load<T: Revive<S, M>, S, M>(
    place: &str,
    saved: &Option<Box<RawValue>>,
    state: &S,
) -> Result<T, String> {
    T::load(saved.as_deref(), state)
        .map_err(|error| format!("argument {place} ({}): {error}", std::any::type_name::<T>()))
}

arguments!(A1 M1);
arguments!(A1 M1 A2 M2);
arguments!(A1 M1 A2 M2 A3 M3);
arguments!(A1 M1 A2 M2 A3 M3 A4 M4);
arguments!(A1 M1 A2 M2 A3 M3 A4 M4 A5 M5);
arguments!(A1 M1 A2 M2 A3 M3 A4 M4 A5 M5 A6 M6);
arguments!(A1 M1 A2 M2 A3 M3 A4 M4 A5 M5 A6 M6 A7 M7);
arguments!(A1 M1 A2 M2 A3 M3 A4 M4 A5 M5 A6 M6 A7 M7 A8 M8);
arguments!(A1 M1 A2 M2 A3 M3 A4 M4 A5 M5 A6 M6 A7 M7 A8 M8 A9 M9);
arguments!(A1 M1 A2 M2 A3 M3 A4 M4 A5 M5 A6 M6 A7 M7 A8 M8 A9 M9 A10 M10);
arguments!(A1 M1 A2 M2 A3 M3 A4 M4 A5 M5 A6 M6 A7 M7 A8 M8 A9 M9 A10 M10 A11 M11);
arguments!(A1 M1 A2 M2 A3 M3 A4 M4 A5 M5 A6 M6 A7 M7 A8 M8 A9 M9 A10 M10 A11 M11 A12 M12);
arguments!(A1 M1 A2 M2 A3 M3 A4 M4 A5 M5 A6 M6 A7 M7 A8 M8 A9 M9 A10 M10 A11 M11 A12 M12 A13 M13);
arguments!(A1 M1 A2 M2 A3 M3 A4 M4 A5 M5 A6 M6 A7 M7 A8 M8 A9 M9 A10 M10 A11 M11 A12 M12 A13 M13 A14 M14);
arguments!(A1 M1 A2 M2 A3 M3 A4 M4 A5 M5 A6 M6 A7 M7 A8 M8 A9 M9 A10 M10 A11 M11 A12 M12 A13 M13 A14 M14 A15 M15);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_read_as_they_were_stored_even_if_they_are_nothing() {
        let stored = Inputs::new()
            .keep(&Some(7))
            .keep(&None::<u8>)
            .keep(&Json(()))
            .keep(&State(()));
        let bytes = stored.encode().expect("JSON");
        let saved = decode(&bytes).expect("what was stored");
        let loaded =
            <(Option<u8>, Option<u8>, Json<()>) as Arguments<(), _>>::load(&saved[..3], &());
        let (some, none, Json(())) = loaded.expect("what was kept");
        assert_eq!((some, none), (Some(7), None));
        let (State(()),) = Arguments::load(&saved[3..], &()).expect("a part of the state");
        let other = <(u8, Option<u8>, Json<()>) as Arguments<(), _>>::load(&saved[1..], &());
        assert!(other.is_err(), "nothing is no number");
    }
}
