//! Routes on which every write says what a repeat of its request does.
//!
//! axum's own `post(handler)` takes any handler, and a router that is built of such routes can't be asked what they do.
//! The [`Router`] here is used as axum's is, and is turned into one at the end, with two differences:
//!
//! * [`post`], [`put`], [`patch`], [`delete`], [`on`] and [`any`] take only a function that is annotated, with
//!   [`#[idempotent]`](macro@crate::idempotent) or [`#[repeat_safe]`](macro@crate::repeat_safe). Another does not
//!   compile. [`get`], [`head`], [`options`] and [`trace`] take any handler: these methods are safe
//!   ([RFC 9110, section 9.2.1](https://www.rfc-editor.org/rfc/rfc9110#section-9.2.1)), they ask for nothing to be
//!   changed.
//! * [`Router::report`] lists every route with what a repeat does, for a review.
//!
#![cfg_attr(feature = "sqlite", doc = "```")]
#![cfg_attr(not(feature = "sqlite"), doc = "```ignore")]
//! use axum::{extract::FromRef, http::StatusCode};
//! use idem_runtime::routing::{Router, get, put};
//! use idem_runtime::{Idempotency, Scope, Tx, idempotent, repeat_safe};
//! use sqlx::Sqlite;
//! # use axum::{extract::FromRequestParts, http::request::Parts};
//! # #[derive(idem_runtime::EffectFree, Scope)]
//! # struct Account(String);
//! # impl<S: Send + Sync> FromRequestParts<S> for Account {
//! #     type Rejection = StatusCode;
//! #     async fn from_request_parts(_: &mut Parts, _: &S) -> Result<Self, StatusCode> {
//! #         Err(StatusCode::UNAUTHORIZED)
//! #     }
//! # }
//!
//! #[derive(Clone)]
//! struct AppState {
//!     idempotency: Idempotency<Sqlite>,
//! }
//! # impl FromRef<AppState> for Idempotency<Sqlite> {
//! #     fn from_ref(state: &AppState) -> Self {
//! #         state.idempotency.clone()
//! #     }
//! # }
//!
//! async fn list() -> StatusCode {
//!     StatusCode::OK
//! }
//!
//! #[idempotent(scope = "account", ttl = "48h", operation = "orders.create")]
//! async fn create(tx: &mut Tx<Sqlite>, account: Account) -> StatusCode {
//!     StatusCode::CREATED
//! }
//!
//! #[repeat_safe(conditional, why = "only an open order changes", operation = "orders.pay")]
//! async fn pay(account: Account) -> StatusCode {
//!     StatusCode::OK
//! }
//!
//! # fn main() {
//! let orders = Router::<AppState>::new()
//!     .route("/", get(list).post(create))
//!     .route("/{id}/pay", put(pay));
//! let router = Router::new().nest("/orders", orders);
//!
//! # let function = |name| format!("{}::{name}", module_path!());
//! # let (list, create, pay) = (std::any::type_name_of_val(&list), function("create"), function("pay"));
//! # let report = router.report().to_string();
//! # let report = report.replace(list, "list").replace(&create, "create").replace(&pay, "pay");
//! # let report: Vec<_> = report.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
//! # assert_eq!(report[2], "POST /orders orders.create idempotent account 48h create");
//! println!("{}", router.report());
//! // METHOD  ROUTE             OPERATION      ON A REPEAT  SCOPE    TTL  FUNCTION        WHY
//! // GET     /orders           -              reads        -        -    shop::list
//! // POST    /orders           orders.create  idempotent   account  48h  shop::create
//! // PUT     /orders/{id}/pay  orders.pay     conditional  -        -    shop::pay       only an open order changes
//!
//! # let serve = |state: AppState| {
//! let app: axum::Router = router.with_state(state).into_axum();
//! # };
//! # }
//! ```
//!
//! # What can't be reached undeclared
//!
//! | | is reached by | takes |
//! |---|---|---|
//! | [`get`], [`head`], [`options`], [`trace`], [`get_service`] | that method | any handler or service |
//! | [`post`], [`put`], [`patch`], [`delete`], [`on`], [`any`] | what they say | a function that is annotated |
//! | [`Router::fallback`], [`Router::method_not_allowed_fallback`], [`MethodRouter::fallback`] | every method | a function of the request's head alone: it has nothing to write with |
//! | [`Router::read_fallback`], [`Router::read_fallback_service`] | safe methods | any handler or service |
//! | [`Router::nest_reads`], [`Router::merge_reads`] | safe methods | a router of axum's |
//! | [`Router::nest_read_service`] | safe methods | any service |
//! | [`Router::route_service`], [`Router::nest_service`] | every method | a [`DeclaredService`], with a reason |
//!
//! What is left to its author is what is not listed: a handler of `GET` that writes all the same, middleware that writes,
//! a write through a global, and what is added to the router after [`Router::into_axum`].

mod arguments;
mod check;
pub(crate) mod declared;
mod endpoint;
mod fallback;
mod if_match;
mod listed;
mod method_router;
mod reads;
mod report;
mod router;
mod service;
mod write_handler;

pub use axum::routing::MethodFilter;

pub use crate::call::{
    AllParts, Call, Extract, HasIdempotency, LastArgument, PartArgument, Running, Split,
};

pub use self::arguments::{Direct, HandlerArguments, ReadDirect};
pub use self::check::{RoutingError, RoutingFault};
pub use self::declared::{Declared, Design};
pub use self::fallback::{FallbackHandler, HeadArgument};
pub use self::if_match::{
    EntityTag, IfMatch, IfMatchRejection, InvalidEntityTag, PreconditionFailed,
};
pub use self::method_router::{
    MethodRouter, any, delete, get, get_service, head, on, options, patch, post, put, trace,
};
pub use self::report::{Repeat, Report, ReportedRoute};
pub use self::router::Router;
pub use self::service::DeclaredService;
pub use self::write_handler::WriteHandler;
