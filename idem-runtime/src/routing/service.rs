//! Services, of which nothing can be known but what is written beside them.

use super::declared::{Design, RepeatSafe};
use super::listed::{Does, Function};

/// A service that its author declares safe to repeat: a service can't be annotated.
///
/// ```
/// use std::convert::Infallible;
/// use axum::{body::Body, extract::Request, response::Response};
/// use idem_runtime::routing::{DeclaredService, Design, Router};
///
/// let service = tower::service_fn(|_: Request| async {
///     Ok::<_, Infallible>(Response::new(Body::empty()))
/// });
/// let graphql = DeclaredService::new(service, "graphql", Design::ClientId, "every mutation takes an id");
/// let router: Router = Router::new().route_service("/graphql", graphql);
/// assert_eq!(router.report().routes()[0].operation.as_deref(), Some("graphql"));
/// ```
#[derive(Clone, Debug)]
pub struct DeclaredService<T> {
    pub(super) service: T,
    pub(super) function: Function,
}

impl<T> DeclaredService<T> {
    /// Declares `service`: the operation's name in the report, the design that makes a repeat harmless, and why that
    /// holds, in a sentence for a review.
    ///
    /// # Panics
    ///
    /// If `operation` or `why` is blank.
    #[must_use]
    #[track_caller]
    pub fn new(service: T, operation: &'static str, design: Design, why: &'static str) -> Self {
        assert!(
            !operation.trim().is_empty(),
            "a declared service needs an operation's name, as \"graphql\""
        );
        assert!(
            !why.trim().is_empty(),
            "say why a repeat of `{operation}` is harmless"
        );
        let path = std::any::type_name::<T>();
        Self {
            service,
            function: Function {
                path,
                identity: path,
                does: Does::ByDesign(RepeatSafe {
                    name: operation,
                    function: path,
                    design,
                    why,
                }),
            },
        }
    }
}
