//! axum's router, with a list of what it was given.

use std::convert::Infallible;
use std::fmt;

use axum::extract::Request;
use axum::handler::Handler;
use axum::middleware;
use axum::response::IntoResponse;
use axum::routing::{MethodRouter as Methods, Route};
use tower_layer::Layer;
use tower_service::Service;

use super::check::{self, RoutingError};
use super::fallback::FallbackHandler;
use super::listed::{Function, Listed};
use super::method_router::{ANY, MethodRouter};
use super::reads;
use super::report::{self, Report};
use super::service::DeclaredService;

/// A router on which every write says what a repeat of its request does. See the [module](crate::routing).
///
/// It is built as axum's [`Router`](axum::Router) is, and is one after [`Router::into_axum`].
#[must_use]
pub struct Router<S = ()> {
    inner: axum::Router<S>,
    listed: Vec<Listed<S>>,
}

impl<S: Clone + Send + Sync + 'static> Router<S> {
    /// Answers 404 to everything.
    pub fn new() -> Self {
        Self {
            inner: axum::Router::new(),
            listed: Vec::new(),
        }
    }

    /// Adds a route. A path that has one already gets the new methods too.
    ///
    /// # Panics
    ///
    /// As axum's: if the path is no path, or overlaps with another, or has the method already.
    #[track_caller]
    pub fn route(mut self, path: &str, methods: MethodRouter<S>) -> Self {
        let listed = methods.listed.into_iter();
        self.listed.extend(listed.map(|listed| listed.at(path)));
        self.inner = self.inner.route(path, methods.inner);
        self
    }

    /// Adds a router below `path`. A fallback of its own goes with it.
    ///
    /// # Panics
    ///
    /// As axum's: if a path overlaps with another, or `path` is empty or `"/"`, which [`Router::merge`] is for.
    #[track_caller]
    pub fn nest(mut self, path: &str, router: Router<S>) -> Self {
        let listed = router.listed.into_iter();
        self.listed.extend(listed.map(|listed| listed.below(path)));
        self.inner = self.inner.nest(path, router.inner);
        self
    }

    /// Adds the routes of another router, and its fallback, if it has one.
    ///
    /// # Panics
    ///
    /// As axum's: if a path overlaps with another, or both have a fallback.
    #[track_caller]
    pub fn merge(mut self, other: Router<S>) -> Self {
        self.inner = self.inner.merge(other.inner);
        self.listed.extend(other.listed);
        self
    }

    /// Adds a router of axum's below `path`, for reading: its routes can't be looked into, so that a request of another
    /// method than `GET`, `HEAD`, `OPTIONS` and `TRACE` is answered 405.
    ///
    /// # Panics
    ///
    /// As [`Router::nest`].
    #[track_caller]
    pub fn nest_reads(mut self, path: &str, router: axum::Router<S>) -> Self {
        let router = router.layer(middleware::from_fn(reads::only_reads));
        self.inner = self.inner.nest(path, router);
        self.listed
            .push(Listed::new(READS, Function::of_axum()).at("/*").below(path));
        self
    }

    /// Adds the routes of a router of axum's, for reading: they can't be looked into, so that a request of another
    /// method than `GET`, `HEAD`, `OPTIONS` and `TRACE` is answered 405. Its fallback is left out.
    ///
    /// # Panics
    ///
    /// As [`Router::merge`].
    #[track_caller]
    pub fn merge_reads(mut self, router: axum::Router<S>) -> Self {
        if router.has_routes() {
            // Not around a fallback: that would answer 405 for all that is not there.
            let router = router
                .reset_fallback()
                .route_layer(middleware::from_fn(reads::only_reads));
            self.inner = self.inner.merge(router);
            self.listed
                .push(Listed::new(READS, Function::of_axum()).at("/*"));
        }
        self
    }

    /// Routes all methods of a path to a service, with its author's word for what a repeat does.
    ///
    /// # Panics
    ///
    /// As axum's: if the path is no path, or overlaps with another.
    #[track_caller]
    pub fn route_service<T>(mut self, path: &str, declared: DeclaredService<T>) -> Self
    where
        T: Service<Request, Error = Infallible> + Clone + Send + Sync + 'static,
        T::Response: IntoResponse,
        T::Future: Send + 'static,
    {
        self.inner = self.inner.route_service(path, declared.service);
        self.listed
            .push(Listed::new(ANY, declared.function).at(path));
        self
    }

    /// Routes all methods of all paths below `path` to a service, with its author's word for what a repeat does.
    ///
    /// # Panics
    ///
    /// As [`Router::nest`].
    #[track_caller]
    pub fn nest_service<T>(mut self, path: &str, declared: DeclaredService<T>) -> Self
    where
        T: Service<Request, Error = Infallible> + Clone + Send + Sync + 'static,
        T::Response: IntoResponse,
        T::Future: Send + 'static,
    {
        self.inner = self.inner.nest_service(path, declared.service);
        self.listed
            .push(Listed::new(ANY, declared.function).at("/*").below(path));
        self
    }

    /// Routes the safe methods of all paths below `path` to a service, such as one of files; another method is
    /// answered 405.
    ///
    /// # Panics
    ///
    /// As [`Router::nest`].
    #[track_caller]
    pub fn nest_read_service<T>(mut self, path: &str, service: T) -> Self
    where
        T: Service<Request, Error = Infallible> + Clone + Send + Sync + 'static,
        T::Response: IntoResponse,
        T::Future: Send + 'static,
    {
        let only_reads = middleware::from_fn(reads::only_reads);
        self.inner = self.inner.nest_service(path, only_reads.layer(service));
        self.listed.push(
            Listed::new(READS, Function::that_reads::<T>())
                .at("/*")
                .below(path),
        );
        self
    }

    /// What answers where there is no route, instead of an empty 404. It takes the request's head alone, as writes
    /// reach it too.
    ///
    /// ```
    /// use axum::http::{StatusCode, Uri};
    /// use idem_runtime::routing::Router;
    ///
    /// let router: Router = Router::new()
    ///     .fallback(async |uri: Uri| (StatusCode::NOT_FOUND, format!("there is no {uri}")));
    /// ```
    #[track_caller]
    pub fn fallback<H, T>(mut self, handler: H) -> Self
    where
        H: FallbackHandler<T>,
        T: 'static,
    {
        self.inner = self
            .inner
            .fallback(move |request: Request| handler.answer(request));
        self
    }

    /// What answers `GET`, `HEAD`, `OPTIONS` and `TRACE` where there is no route; another method is answered 404. It
    /// replaces [`Router::fallback`], and is replaced by it.
    #[track_caller]
    pub fn read_fallback<H, T>(mut self, handler: H) -> Self
    where
        H: Handler<T, S>,
        T: 'static,
    {
        let reading = Methods::new()
            .fallback(handler)
            .layer(middleware::from_fn(reads::only_reads_or_nothing));
        self.inner = self.inner.fallback(reading);
        self.listed
            .push(Listed::new(READS, Function::that_reads::<H>()).at("/*"));
        self
    }

    /// The same with a service, such as one of files.
    #[track_caller]
    pub fn read_fallback_service<T>(mut self, service: T) -> Self
    where
        T: Service<Request, Error = Infallible> + Clone + Send + Sync + 'static,
        T::Response: IntoResponse,
        T::Future: Send + 'static,
    {
        let only_reads = middleware::from_fn(reads::only_reads_or_nothing);
        self.inner = self.inner.fallback_service(only_reads.layer(service));
        self.listed
            .push(Listed::new(READS, Function::that_reads::<T>()).at("/*"));
        self
    }

    /// What answers the methods that a route does not have, instead of an empty 405, on the routes that were added so
    /// far. It takes the request's head alone, as writes reach it too.
    pub fn method_not_allowed_fallback<H, T>(mut self, handler: H) -> Self
    where
        H: FallbackHandler<T>,
        T: 'static,
    {
        self.inner = self
            .inner
            .method_not_allowed_fallback(move |request: Request| handler.answer(request));
        self
    }

    /// Answers an empty 404 again where there is no route, so that this router can be merged with another that has a
    /// fallback.
    pub fn reset_fallback(mut self) -> Self {
        self.inner = self.inner.reset_fallback();
        self
    }

    /// Wraps all that was added so far, the fallback too, in middleware.
    pub fn layer<L>(mut self, layer: L) -> Self
    where
        L: Layer<Route> + Clone + Send + Sync + 'static,
        L::Service: Service<Request> + Clone + Send + Sync + 'static,
        <L::Service as Service<Request>>::Response: IntoResponse + 'static,
        <L::Service as Service<Request>>::Error: Into<Infallible> + 'static,
        <L::Service as Service<Request>>::Future: Send + 'static,
    {
        self.inner = self.inner.layer(layer);
        self
    }

    /// Wraps the routes that were added so far in middleware, and not the fallback.
    ///
    /// # Panics
    ///
    /// If there is no route yet.
    #[track_caller]
    pub fn route_layer<L>(mut self, layer: L) -> Self
    where
        L: Layer<Route> + Clone + Send + Sync + 'static,
        L::Service: Service<Request> + Clone + Send + Sync + 'static,
        <L::Service as Service<Request>>::Response: IntoResponse + 'static,
        <L::Service as Service<Request>>::Error: Into<Infallible> + 'static,
        <L::Service as Service<Request>>::Future: Send + 'static,
    {
        self.inner = self.inner.route_layer(layer);
        self
    }

    /// Whether there is a route.
    #[must_use]
    pub fn has_routes(&self) -> bool {
        self.inner.has_routes()
    }

    /// Accepts paths that axum 0.7 would have read as captures, as axum's
    /// [`without_v07_checks`](axum::Router::without_v07_checks).
    pub fn without_v07_checks(mut self) -> Self {
        self.inner = self.inner.without_v07_checks();
        self
    }

    /// Provides the state. From here on the report has the `ttl` of the state's
    /// [`Idempotency`](crate::Idempotency) where an attribute has none, and [`Router::into_axum`] checks time limits.
    pub fn with_state<S2>(self, state: S) -> Router<S2> {
        Router {
            listed: self
                .listed
                .into_iter()
                .map(|listed| listed.with_state(&state))
                .collect(),
            inner: self.inner.with_state(state),
        }
    }

    /// Every route, with what a repeat of its request does.
    #[must_use]
    pub fn report(&self) -> Report {
        Report::of(&self.sorted())
    }

    /// axum's router, to be served.
    ///
    /// # Panics
    ///
    /// If the router is wrong, as axum's own functions do; [`Router::try_into_axum`] says what is.
    #[track_caller]
    pub fn into_axum(self) -> axum::Router<S> {
        match self.try_into_axum() {
            Ok(router) => router,
            Err(error) => panic!("{error}"),
        }
    }

    /// axum's router, to be served. Time limits are checked if [`Router::with_state`] came before.
    ///
    /// # Errors
    ///
    /// [`RoutingError`], if two functions are one operation, or an operation's time limits contradict each other or the
    /// pool's.
    pub fn try_into_axum(self) -> Result<axum::Router<S>, RoutingError> {
        check::check(&self.sorted())?;
        Ok(self.inner)
    }

    /// In the report's order, whatever that of the source is.
    fn sorted(&self) -> Vec<Listed<S>> {
        let mut listed = self.listed.clone();
        listed.sort_by(|a, b| report::order(a).cmp(&report::order(b)));
        listed
    }
}

/// As the report names the methods that read.
const READS: &str = "GET..";

impl<S: Clone + Send + Sync + 'static> Default for Router<S> {
    fn default() -> Self {
        Self::new()
    }
}

impl<S> Clone for Router<S> {
    fn clone(&self) -> Self {
        Self {
            inner: self.inner.clone(),
            listed: self.listed.clone(),
        }
    }
}

impl<S> fmt::Debug for Router<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Router").field(&self.listed).finish()
    }
}

/// # Panics
///
/// As [`Router::into_axum`].
impl<S: Clone + Send + Sync + 'static> From<Router<S>> for axum::Router<S> {
    #[track_caller]
    fn from(router: Router<S>) -> Self {
        router.into_axum()
    }
}
