//! What the standard library offers: data, and containers that are what they hold.

use std::borrow::Cow;
use std::collections::{
    BTreeMap, BTreeSet, BinaryHeap, HashMap, HashSet, LinkedList, TryReserveError, VecDeque,
};
use std::marker::{PhantomData, PhantomPinned};
use std::num::{NonZero, Saturating, Wrapping};
use std::ops::{Bound, ControlFlow, Range, RangeFrom, RangeInclusive, RangeTo, RangeToInclusive};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;

use super::{EffectFree, effect_free};

effect_free!(
    (),
    bool,
    char,
    u8,
    u16,
    u32,
    u64,
    u128,
    usize,
    i8,
    i16,
    i32,
    i64,
    i128,
    isize,
    f32,
    f64,
    str,
    String,
    std::ffi::CStr,
    std::ffi::CString,
    std::ffi::OsStr,
    std::ffi::OsString,
    std::path::Path,
    std::path::PathBuf,
    std::time::Duration,
    std::time::Instant,
    std::time::SystemTime,
    std::net::IpAddr,
    std::net::Ipv4Addr,
    std::net::Ipv6Addr,
    std::net::SocketAddr,
    std::net::SocketAddrV4,
    std::net::SocketAddrV6,
    std::any::TypeId,
    std::cmp::Ordering,
    std::convert::Infallible,
    std::fmt::Error,
    std::alloc::Layout,
    std::ops::RangeFull,
    PhantomPinned,
    TryReserveError,
    std::char::ParseCharError,
    std::num::ParseFloatError,
    std::num::ParseIntError,
    std::num::TryFromIntError,
    std::str::ParseBoolError,
    std::str::Utf8Error,
    std::string::FromUtf8Error,
    std::net::AddrParseError,
);

#[diagnostic::do_not_recommend]
impl<T: ?Sized> EffectFree for PhantomData<T> {}
effect_free!(
    NonZero<u8>,
    NonZero<u16>,
    NonZero<u32>,
    NonZero<u64>,
    NonZero<u128>,
    NonZero<usize>,
    NonZero<i8>,
    NonZero<i16>,
    NonZero<i32>,
    NonZero<i64>,
    NonZero<i128>,
    NonZero<isize>,
);

// what holds a value is what the value is
impl<T: EffectFree> EffectFree for Option<T> {}
impl<T: EffectFree> EffectFree for Vec<T> {}
impl<T: EffectFree> EffectFree for VecDeque<T> {}
impl<T: EffectFree> EffectFree for LinkedList<T> {}
impl<T: EffectFree> EffectFree for BinaryHeap<T> {}
impl<T: EffectFree> EffectFree for BTreeSet<T> {}
impl<T: EffectFree> EffectFree for Bound<T> {}
impl<T: EffectFree> EffectFree for Range<T> {}
impl<T: EffectFree> EffectFree for RangeFrom<T> {}
impl<T: EffectFree> EffectFree for RangeInclusive<T> {}
impl<T: EffectFree> EffectFree for RangeTo<T> {}
impl<T: EffectFree> EffectFree for RangeToInclusive<T> {}
impl<T: EffectFree> EffectFree for Saturating<T> {}
impl<T: EffectFree> EffectFree for Wrapping<T> {}
impl<T: EffectFree + ?Sized> EffectFree for &T {}
impl<T: EffectFree + ?Sized> EffectFree for Box<T> {}
impl<T: EffectFree + ?Sized> EffectFree for Arc<T> {}
impl<T: EffectFree + ?Sized> EffectFree for Rc<T> {}
impl<T: EffectFree + ?Sized> EffectFree for std::sync::Weak<T> {}
impl<T: EffectFree + ?Sized> EffectFree for std::rc::Weak<T> {}
// not `Sync`: no two requests share one
impl<T: EffectFree + ?Sized> EffectFree for std::cell::Cell<T> {}
impl<T: EffectFree + ?Sized> EffectFree for std::cell::RefCell<T> {}
impl<T: EffectFree> EffectFree for std::cell::OnceCell<T> {}
impl<T: EffectFree> EffectFree for Pin<T> {}
impl<T: EffectFree> EffectFree for std::cmp::Reverse<T> {}
impl<T: EffectFree> EffectFree for std::task::Poll<T> {}
impl<T: EffectFree> EffectFree for [T] {}
impl<T: EffectFree, const N: usize> EffectFree for [T; N] {}
impl<T: EffectFree + ToOwned<Owned: EffectFree> + ?Sized> EffectFree for Cow<'_, T> {}
impl<T: EffectFree, E: EffectFree> EffectFree for Result<T, E> {}
impl<B: EffectFree, C: EffectFree> EffectFree for ControlFlow<B, C> {}
impl<K: EffectFree, V: EffectFree> EffectFree for BTreeMap<K, V> {}
// a hasher may do as it likes
impl<K: EffectFree, V: EffectFree, S: EffectFree> EffectFree for HashMap<K, V, S> {}
impl<T: EffectFree, S: EffectFree> EffectFree for HashSet<T, S> {}
effect_free!(std::hash::RandomState);
#[diagnostic::do_not_recommend]
impl<H> EffectFree for std::hash::BuildHasherDefault<H> {}

impl<A: EffectFree> EffectFree for (A,) {}
impl<A: EffectFree, B: EffectFree> EffectFree for (A, B) {}
impl<A: EffectFree, B: EffectFree, C: EffectFree> EffectFree for (A, B, C) {}
impl<A: EffectFree, B: EffectFree, C: EffectFree, D: EffectFree> EffectFree for (A, B, C, D) {}

/// Longer tuples, which would crowd rustc's lists of what is `EffectFree`.
macro_rules! long_tuples {
    ($($member:ident)*; $next:ident $($more:ident)*) => {
        #[diagnostic::do_not_recommend]
        impl<$($member: EffectFree,)* $next: EffectFree> EffectFree for ($($member,)* $next,) {}
        long_tuples!($($member)* $next; $($more)*);
    };
    ($($member:ident)*;) => {};
}
long_tuples!(A B C D; E F G H I J K L M N O P);

/// A function pointer holds nothing. What it is given and what it returns must be harmless, or it would
/// be a way to a handle; what it does by itself is that of any function that a handler calls.
macro_rules! functions {
    ($($($argument:ident)*;)*) => {
        $(
            impl<R: EffectFree, $($argument: EffectFree),*> EffectFree for fn($($argument),*) -> R {}
        )*
    };
}
functions!(; A; A B; A B C; A B C D;);
