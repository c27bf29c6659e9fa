//! The methods of one route.

use std::convert::Infallible;
use std::fmt;

use axum::extract::Request;
use axum::handler::Handler;
use axum::response::IntoResponse;
use axum::routing::{self, MethodFilter, Route};
use tower_layer::Layer;
use tower_service::Service;

use super::arguments::HandlerArguments;
use super::endpoint::Endpoint;
use super::fallback::FallbackHandler;
use super::listed::{Function, Listed};
use super::write_handler::WriteHandler;

/// What answers the methods of one route, as axum's [`MethodRouter`](axum::routing::MethodRouter): begin with [`get`],
/// [`post`] or another function of the module, and chain.
///
/// ```
/// use idem_runtime::{repeat_safe, routing::{MethodRouter, get}};
///
/// async fn show() -> &'static str {
///     "an order"
/// }
///
/// #[repeat_safe(conditional, why = "what is gone can't be deleted again")]
/// async fn remove() {}
///
/// let order: MethodRouter = get(show).delete(remove);
/// ```
#[must_use]
pub struct MethodRouter<S = ()> {
    pub(super) inner: routing::MethodRouter<S>,
    pub(super) listed: Vec<Listed<S>>,
}

/// What a filter lets through, as the report names it.
const METHODS: [(MethodFilter, &str); 9] = [
    (MethodFilter::GET, "GET"),
    (MethodFilter::HEAD, "HEAD"),
    (MethodFilter::OPTIONS, "OPTIONS"),
    (MethodFilter::TRACE, "TRACE"),
    (MethodFilter::POST, "POST"),
    (MethodFilter::PUT, "PUT"),
    (MethodFilter::PATCH, "PATCH"),
    (MethodFilter::DELETE, "DELETE"),
    (MethodFilter::CONNECT, "CONNECT"),
];

/// As the report names what every method reaches.
pub(super) const ANY: &str = "ANY";

fn methods(filter: MethodFilter) -> impl Iterator<Item = &'static str> {
    METHODS
        .into_iter()
        .filter(move |(method, _)| filter.or(*method) == filter)
        .map(|(_, name)| name)
}

macro_rules! reads {
    ($($name:ident $method:ident)*) => {
        $(
            #[doc = concat!("Routes `", stringify!($method), "` to any handler: the method is safe.")]
            pub fn $name<H, T, S>(handler: H) -> MethodRouter<S>
            where
                H: Handler<T, S>,
                T: 'static,
                S: Clone + Send + Sync + 'static,
            {
                MethodRouter::new().$name(handler)
            }
        )*

        impl<S: Clone + Send + Sync + 'static> MethodRouter<S> {
            $(
                #[doc = concat!("Routes `", stringify!($method), "` to any handler: the method is safe.")]
                ///
                /// # Panics
                ///
                /// If the method has a handler already.
                #[track_caller]
                pub fn $name<H, T>(mut self, handler: H) -> Self
                where
                    H: Handler<T, S>,
                    T: 'static,
                {
                    self.inner = self.inner.$name(handler);
                    self.listed.push(Listed::new(stringify!($method), Function::that_reads::<H>()));
                    self
                }
            )*
        }
    };
}

reads!(get GET head HEAD options OPTIONS trace TRACE);

macro_rules! writes {
    ($($name:ident $method:ident)*) => {
        $(
            #[doc = concat!("Routes `", stringify!($method), "` to a function that says what a repeat of its request does.")]
            pub fn $name<H, T, S, M>(handler: H) -> MethodRouter<S>
            where
                H: WriteHandler<T>,
                H::Arguments: HandlerArguments<S, M>,
                T: 'static,
                S: Clone + Send + Sync + 'static,
                M: 'static,
            {
                MethodRouter::new().$name(handler)
            }
        )*

        impl<S: Clone + Send + Sync + 'static> MethodRouter<S> {
            $(
                #[doc = concat!("Routes `", stringify!($method), "` to a function that says what a repeat of its request does.")]
                ///
                /// # Panics
                ///
                /// If the method has a handler already.
                #[track_caller]
                pub fn $name<H, T, M>(self, handler: H) -> Self
                where
                    H: WriteHandler<T>,
                    H::Arguments: HandlerArguments<S, M>,
                    T: 'static,
                    M: 'static,
                {
                    self.on(MethodFilter::$method, handler)
                }
            )*
        }
    };
}

writes!(post POST put PUT patch PATCH delete DELETE);

/// Routes the methods of `filter` to a function that says what a repeat of its request does.
pub fn on<H, T, S, M>(filter: MethodFilter, handler: H) -> MethodRouter<S>
where
    H: WriteHandler<T>,
    H::Arguments: HandlerArguments<S, M>,
    T: 'static,
    S: Clone + Send + Sync + 'static,
    M: 'static,
{
    MethodRouter::new().on(filter, handler)
}

/// Routes every method to a function that says what a repeat of its request does: requests that write reach it too. A
/// handler that reads, such as one of WebSockets, belongs to [`get`].
pub fn any<H, T, S, M>(handler: H) -> MethodRouter<S>
where
    H: WriteHandler<T>,
    H::Arguments: HandlerArguments<S, M>,
    T: 'static,
    S: Clone + Send + Sync + 'static,
    M: 'static,
{
    MethodRouter {
        listed: vec![written::<H, T, S, M>(ANY)],
        inner: routing::any(Endpoint::new(handler)),
    }
}

/// Routes `GET`, and so `HEAD`, to any service.
pub fn get_service<T, S>(service: T) -> MethodRouter<S>
where
    T: Service<Request, Error = Infallible> + Clone + Send + Sync + 'static,
    T::Response: IntoResponse + 'static,
    T::Future: Send + 'static,
    S: Clone + Send + Sync + 'static,
{
    MethodRouter::new().get_service(service)
}

fn written<H, T, S, M>(method: &'static str) -> Listed<S>
where
    H: WriteHandler<T>,
    H::Arguments: HandlerArguments<S, M>,
{
    Listed::new(method, H::function()).resolved_by(<H::Arguments as HandlerArguments<S, M>>::limits)
}

impl<S: Clone + Send + Sync + 'static> MethodRouter<S> {
    /// Answers 405 to every method.
    pub fn new() -> Self {
        Self {
            inner: routing::MethodRouter::new(),
            listed: Vec::new(),
        }
    }

    /// Routes the methods of `filter` to a function that says what a repeat of its request does.
    ///
    /// # Panics
    ///
    /// If one of the methods has a handler already.
    #[track_caller]
    pub fn on<H, T, M>(mut self, filter: MethodFilter, handler: H) -> Self
    where
        H: WriteHandler<T>,
        H::Arguments: HandlerArguments<S, M>,
        T: 'static,
        M: 'static,
    {
        self.listed
            .extend(methods(filter).map(written::<H, T, S, M>));
        self.inner = self.inner.on(filter, Endpoint::new(handler));
        self
    }

    /// Routes `GET`, and so `HEAD`, to any service.
    ///
    /// # Panics
    ///
    /// If the method has a handler already.
    #[track_caller]
    pub fn get_service<T>(mut self, service: T) -> Self
    where
        T: Service<Request, Error = Infallible> + Clone + Send + Sync + 'static,
        T::Response: IntoResponse + 'static,
        T::Future: Send + 'static,
    {
        self.inner = self.inner.get_service(service);
        self.listed
            .push(Listed::new("GET", Function::that_reads::<T>()));
        self
    }

    /// What answers the methods without a handler, instead of an empty 405. It takes the request's head alone, as writes
    /// reach it too.
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

    /// Wraps all that was added so far, the answer to other methods too, in middleware.
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

    /// Wraps the handlers that were added so far in middleware, and not the answer to other methods.
    ///
    /// # Panics
    ///
    /// If there is no handler yet.
    #[track_caller]
    pub fn route_layer<L>(mut self, layer: L) -> Self
    where
        L: Layer<Route> + Clone + Send + Sync + 'static,
        L::Service: Service<Request, Error = Infallible> + Clone + Send + Sync + 'static,
        <L::Service as Service<Request>>::Response: IntoResponse + 'static,
        <L::Service as Service<Request>>::Future: Send + 'static,
    {
        self.inner = self.inner.route_layer(layer);
        self
    }

    /// Adds the methods of another.
    ///
    /// # Panics
    ///
    /// If both have a handler for one method, or both a fallback.
    #[track_caller]
    pub fn merge(mut self, other: Self) -> Self {
        self.inner = self.inner.merge(other.inner);
        self.listed.extend(other.listed);
        self
    }

    /// Provides the state.
    pub fn with_state<S2>(self, state: S) -> MethodRouter<S2> {
        MethodRouter {
            listed: self
                .listed
                .into_iter()
                .map(|listed| listed.with_state(&state))
                .collect(),
            inner: self.inner.with_state(state),
        }
    }
}

impl<S: Clone + Send + Sync + 'static> Default for MethodRouter<S> {
    fn default() -> Self {
        Self::new()
    }
}

impl<S> Clone for MethodRouter<S> {
    fn clone(&self) -> Self {
        Self {
            inner: self.inner.clone(),
            listed: self.listed.clone(),
        }
    }
}

impl<S> fmt::Debug for MethodRouter<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("MethodRouter").field(&self.listed).finish()
    }
}
