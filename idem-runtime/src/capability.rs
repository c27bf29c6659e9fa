//! What an idempotent handler may hold: nothing through which it could leave an effect outside its
//! transaction.
//!
//! [`EffectFree`] is an allow-list: every argument of an `#[idempotent]` handler but its transaction is
//! checked, and what is not known to be harmless does not compile. Three ways lead past a refusal:
//!
//! * data of your own gets `#[derive(EffectFree)]`, which checks each field;
//! * a client of another service is sealed in [`External`], which a handler may carry but not call;
//! * what you know to be harmless is declared so, with the reason: `#[effect_free(trust = "..")]` on a
//!   field, or [`AssertEffectFree`].
//!
//! # Which types pass
//!
//! | argument | passes when |
//! |---|---|
//! | `State<T>`, `Extension<T>`, `Option<T>`, `Result<T, E>`, `Vec<T>`, `Arc<T>`, tuples, maps and other containers | what they hold is `EffectFree` |
//! | `Json<T>`, `Form<T>`, `Query<T>`, `Path<T>` | `T` is `EffectFree`, or is `DeserializeOwned` and free of shared and hidden parts (`UnwindSafe`, `RefUnwindSafe`): it is data that was read from the request |
//! | numbers, text, times, addresses, `HeaderMap`, `Uri`, `Bytes`, `Uuid`, and what else is data in `std`, `http` and `bytes` | always |
//! | an extractor of your own | it has `#[derive(EffectFree)]` |
//! | `Arc<dyn Repo>` | `trait Repo: EffectFree` |
//! | a type parameter `T` | the handler says `T: EffectFree` |
//! | `PhantomData<T>` | always |
//! | `External<T>` | always: it is sealed |
//!
//! `State` is stricter than `Json`: what an application keeps in its state may have been filled with
//! anything at start-up, while serde sees nothing but the request. Numbers and dates of other crates are
//! behind features (`chrono`, `time`, `rust_decimal`), extractors of axum-extra behind `axum-extra`.
//!
//! # What types can't show
//!
//! * An extractor's own work. `FromRequestParts` may write through a pool of the state that it is given,
//!   on every request, on replays too, before the key is claimed. Nothing here stops it, and the
//!   [`guard`](crate::guard) does not look: extractors may ask the database who calls. Keep them to
//!   reading. The same holds of `authorize` and of a [`Scope`](crate::Scope) of your own.
//! * A global. A `static` pool is reached without an argument, and so is what serde puts into a field that
//!   it skips (`#[serde(skip, default = "..")]`): serde sees the request and globals, never the state. Of
//!   such fields in `Json<T>` and its kin, a pool, a trait object and what holds one do not compile; a file,
//!   a channel, or a pool inside a `Mutex` does, unless `T` derives `EffectFree`, which checks each field. The
//!   guard finds each connection of a guarded pool, however it was reached; a file or a socket it does not find.
//!   Clippy, with the repository's `clippy.toml`, finds most of what the handler itself does with those.
//! * A connection in place of the transaction's: `mem::swap` through `tx`, with one that the handler opened
//!   by itself. What was written through it is durable, but the request is answered 500, and its key is
//!   kept as *unknown*, so that it does not run again. One that is put back in time is not found, unless it
//!   came from a guarded pool.
//! * An implementation of [`EffectFree`] that is written by hand. It is your word, as `trust` is.

mod check;
mod external;
mod extractors;
mod optional;
mod refused;
mod request;
mod standard;

use std::fmt;
use std::ops::Deref;

pub use check::{field, vet};
pub use external::External;
pub use refused::{AtomicHandler, MayActThrough, MayChange, MaySearch, MayWriteThrough};

/// Holding a value of this type gives no way to leave an effect outside the handler's transaction.
///
/// Every argument of an `#[idempotent]` handler but the transaction must be. Derive it for your data and
/// your extractors; the derive checks each field:
///
/// ```
/// use idem_runtime::EffectFree;
///
/// #[derive(Clone, EffectFree)]
/// struct Pricing {
///     cents: u64,
///     currency: String,
/// }
/// ```
///
/// As a supertrait it lets a handler take a trait object, whatever implements it:
///
/// ```
/// use std::sync::Arc;
/// use idem_runtime::EffectFree;
///
/// trait Tariff: EffectFree + Send + Sync {
///     fn cents(&self, item: &str) -> u64;
/// }
///
/// fn is_effect_free<T: EffectFree>() {}
/// is_effect_free::<Arc<dyn Tariff>>();
/// ```
///
/// Implementing it by hand is a promise that nobody checks.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not known to be free of effects outside the transaction",
    label = "a handler can't hold this",
    note = "the handler may run again after a rollback, which undoes only what was written through its `tx`",
    note = "if `{Self}` is the application's state, take the part that the handler needs: `State<Part>`, where `Part: FromRef<AppState>`",
    note = "if it is data or an extractor of yours, add `#[derive(EffectFree)]` to it: that checks its fields",
    note = "if it is a client of another service, seal it in the state as `External<{Self}>`: `steps.external(..)` opens it, in a handler with `Steps`; what can wait for the commit is sent by `tx.outbox()`",
    note = "if you know it to be harmless, say why: `#[effect_free(trust = \"..\")]` on a field of yours, or `AssertEffectFree<{Self}>`"
)]
pub trait EffectFree {}

/// A value that is declared harmless, with the reason: the visible way past [`EffectFree`] for a type
/// that is not yours.
///
/// ```
/// use idem_runtime::AssertEffectFree;
///
/// struct Rates; // of another crate: a table that is read from a file at start-up
///
/// let rates = AssertEffectFree::new(Rates, "a table in memory that nothing writes to");
/// assert_eq!(rates.reason(), "a table in memory that nothing writes to");
/// ```
///
/// It derefs to the value. A review finds each by its name.
#[derive(Clone, Copy)]
pub struct AssertEffectFree<T> {
    value: T,
    reason: &'static str,
}

impl<T> AssertEffectFree<T> {
    /// Declares the value harmless.
    ///
    /// # Panics
    ///
    /// If the reason is empty.
    #[must_use]
    #[track_caller]
    pub const fn new(value: T, reason: &'static str) -> Self {
        assert!(
            !reason.trim_ascii().is_empty(),
            "say why the value has no effects outside the transaction"
        );
        Self { value, reason }
    }

    /// Why it is harmless.
    #[must_use]
    pub const fn reason(&self) -> &'static str {
        self.reason
    }

    /// The value.
    #[must_use]
    pub fn into_inner(self) -> T {
        self.value
    }
}

impl<T> Deref for AssertEffectFree<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T> fmt::Debug for AssertEffectFree<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AssertEffectFree")
            .field("reason", &self.reason)
            .finish_non_exhaustive()
    }
}

#[diagnostic::do_not_recommend]
impl<T> EffectFree for AssertEffectFree<T> {}

/// Implements [`EffectFree`] for types that are data whatever they are made of.
macro_rules! effect_free {
    ($($(#[$attribute:meta])* $ty:ty),* $(,)?) => {
        $(
            $(#[$attribute])*
            #[diagnostic::do_not_recommend]
            impl $crate::capability::EffectFree for $ty {}
        )*
    };
}
use effect_free;

// what the framework itself hands out
effect_free!(
    crate::IdempotencyKey,
    crate::scope::ScopeKey,
    crate::Replay,
    crate::Spec,
    crate::inbox::Incoming,
);
