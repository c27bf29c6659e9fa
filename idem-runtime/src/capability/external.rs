//! `External<T>`: a client of another service, sealed.

use std::fmt;
use std::sync::Arc;

use super::EffectFree;

/// A client whose calls have effects that no rollback undoes, sealed: a handler that runs in one
/// transaction may be given it, but can't open it.
///
/// It lives in the router's state, and is cheap to clone whatever it holds:
///
/// ```
/// use axum::extract::FromRef;
/// use idem_runtime::External;
///
/// struct Gateway {
///     token: String,
/// }
///
/// #[derive(Clone)]
/// struct AppState {
///     gateway: External<Gateway>,
/// }
///
/// // or `#[derive(FromRef)]` on `AppState`
/// impl FromRef<AppState> for External<Gateway> {
///     fn from_ref(state: &AppState) -> Self {
///         state.gateway.clone()
///     }
/// }
///
/// let gateway = Gateway { token: "secret".to_owned() };
/// let state = AppState { gateway: External::new(gateway) };
/// assert!(!format!("{:?}", state.gateway).contains("secret"));
/// ```
pub struct External<T: ?Sized>(Arc<T>);

impl<T> External<T> {
    /// Seals a client.
    #[must_use]
    pub fn new(client: T) -> Self {
        Self(Arc::new(client))
    }
}

impl<T: ?Sized> External<T> {
    /// Seals a client that is shared already, or is known only by its trait: `External<dyn Gateway>`.
    #[must_use]
    pub fn from_arc(client: Arc<T>) -> Self {
        Self(client)
    }

    /// The client, for an external step.
    pub(crate) fn open(&self) -> &T {
        &self.0
    }
}

impl<T: ?Sized> Clone for External<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T: ?Sized> fmt::Debug for External<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("External(..)")
    }
}

#[diagnostic::do_not_recommend]
impl<T: ?Sized> EffectFree for External<T> {}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug)]
    struct Gateway(&'static str);

    #[test]
    fn a_client_is_shared_and_not_shown() {
        let external = External::new(Gateway("secret"));
        let clone = external.clone();
        assert!(std::ptr::eq(external.open(), clone.open()));
        assert_eq!(external.open().0, "secret");
        assert_eq!(format!("{external:?}"), "External(..)");
    }

    #[test]
    fn a_client_may_be_known_by_its_trait_alone() {
        let client: Arc<dyn fmt::Debug> = Arc::new(Gateway("secret"));
        assert_eq!(
            format!("{:?}", External::from_arc(client).open()),
            "Gateway(\"secret\")"
        );
    }
}
