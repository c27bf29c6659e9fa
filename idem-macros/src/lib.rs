//! The macros of idem. Use them through `idem_runtime`, which re-exports them with all that they expand to.
//!
//! * [`macro@idempotent`] makes an axum handler idempotent.
//! * [`macro@consumer`] makes a function a consumer of messages, each of which it processes once.
//! * [`macro@repeat_safe`] says why a handler needs no key.
//! * [`derive@Scope`] says whose keys a type's are.
//! * [`derive@Disposition`] says what an error leaves of its key.
//! * [`derive@EffectFree`] says that a type gives no way to an effect outside the transaction.
#![deny(missing_docs)]

mod annotated;
mod args;
mod attributes;
mod consumer;
mod derive;
mod errors;
mod expand;
mod fallback;
mod handler;
mod idempotent;
mod lints;
mod model;
mod paths;
mod repeat_safe;
mod rules;
mod scope;
mod signature;
mod steps;
mod suggest;
#[cfg(test)]
mod tests;
mod units;
mod values;
mod words;

use proc_macro::TokenStream;

/// Makes a handler idempotent: a request that is sent again has one effect and one answer.
///
/// ```ignore
/// #[idempotent(scope = "account", ttl = "48h")]
/// async fn create_order(
///     tx: &mut Tx<Postgres>,
///     account: Account,
///     State(pricing): State<Pricing>,
///     Json(new): Json<NewOrder>,
/// ) -> Result<(StatusCode, Json<Order>), ApiError> {
///     let order = insert_order(tx, &account, &new, &pricing).await?;
///     Ok((StatusCode::CREATED, Json(order)))
/// }
///
/// let app = Router::new().route("/orders", post(create_order)).with_state(state);
/// ```
///
/// The function becomes an axum handler. It takes the `Idempotency-Key` of a request, claims it, runs what is
/// written here, stores the answer and commits, all in one database transaction; a request that comes again with
/// the key is answered from the record. The router's state must hold an `Idempotency<DB>` (through axum's `FromRef`).
///
/// # The function
///
/// * It is an `async fn` without `self`, `unsafe`, `const` and `extern`; it may be an associated function, generic,
///   and return anything that is `IntoResponse`, as `impl IntoResponse` too. A type that it is generic over must be
///   `Send + Sync + 'static`. `Self` and the generics of an `impl` block don't reach into it.
/// * Its `&mut` parameter is the transaction, `&mut Tx<DB>` (an alias works), in any place. It derefs to the database's
///   connection. The framework ends it: `Ok` commits and `Err` rolls back. Or it is `&mut Steps<DB, E>`, for effects outside
///   the database; see below.
/// * All other parameters, at most 16, are extractors, as in any axum handler: the last may read the body, the others
///   read the request's parts. They can't borrow.
/// * Their types must be `EffectFree`, so that the handler can't leave an effect outside its transaction: data does
///   (`#[derive(EffectFree)]` for your own), a connection pool or a client of another service does not compile.
/// * `#[cfg]` on a parameter works.
/// * Other attributes belong to the function as it is written here, but documentation, `#[cfg]`, `#[deprecated]`,
///   `#[must_use]` and lint levels, which belong to the generated one around it. `#[tracing::instrument]` works
///   above and below. `#[utoipa::path]` goes above. `#[debug_handler]` has to go: name the router's state instead,
///   `state = AppState`, for errors as good as its own.
/// * What its body surely does outside the transaction is an error: a spawned task, another connection, a query that is not run on
///   `tx`, a request, a write to the disk, SQL that ends the transaction. It also carries
///   `#[deny(clippy::disallowed_methods)]`: what your `clippy.toml` lists is an error in a handler; copy ours. On a statement
///   or the handler, `#[allow(clippy::disallowed_methods, reason = "..")]` lets a call through both, but no end of the
///   transaction.
///
/// # Arguments
///
/// Only `scope` must be given. Where a default is the router's, `Idempotency` may set another.
///
/// | argument | value | default | meaning |
/// |---|---|---|---|
/// | `scope` | a binding, or a path into one: `"account"`, `"claims.tenant"`, `"pair.0"` | none | whose key it is. The binding comes from the request's parts (an authenticated account, not the body), and the value implements `Scope`; anywhere in a parameter's pattern will do, as in `Account(id): Account` |
/// | `operation` | a name: `"orders.create"` | the function's name | the handler's stable identity in records, metrics and logs; mandatory for a handler with steps |
/// | `definition` | a number from 1: `2` | `1` | the version of a handler's steps; an operation that was begun under another is not resumed but kept as *unknown* |
/// | `ttl` | a duration | `"24h"` | how long a stored answer is replayed, counted from its storing; longer than `wait` |
/// | `errors` | `"release"` or `"store"` | `"release"` | after an `Err`: let the key go, so that the client may fix its request and retry, or store the answer (if it is below 500) and replay it. The effect is rolled back either way, and an error with `#[derive(Disposition)]` speaks for itself |
/// | `in_flight` | `"wait"` or `"reject"` | `"wait"` | what a duplicate does while the first request runs: wait for its answer, or be refused with 409 at once |
/// | `wait` | a duration | `"5s"` | how long a duplicate waits before it is refused with 409 |
/// | `expired` | `"execute"` or `"reject"` | `"execute"` | what a key does after its `ttl`: count as new, or be refused with 410 |
/// | `tombstone` | a duration | `"30d"` | how long a key stays refused after its `ttl`; only with `expired = "reject"` |
/// | `timeout` | a duration | `"30s"`, `"2m"` with steps | how long the handler may run; then it is rolled back, and answered 503; with steps, it goes on later |
/// | `max_body` | a size | `"2MiB"` | the largest request body; a larger one is answered 413 |
/// | `max_response` | a size | `"1MiB"` | the largest answer that is stored; a larger one is rolled back, and answered 500 |
/// | `fingerprint_headers` | a list of header names: `["x-api-version"]` | `[]` | header fields in which a repeated request must be equal too |
/// | `fingerprint_ignore` | a list of JSON pointers (RFC 6901) and query names: `["/sent_at", "?utm_source"]` | `[]` | what may differ in a repeated request |
/// | `key` | `"required"` or `"optional"` | `"required"` | a request without a key is refused with 400, or runs in a plain transaction with nothing stored |
/// | `key_space` | `"scope"` or `"operation"` | `"scope"` | one key of a client serves one request, or one request of each operation |
/// | `authorize` | a path: `may_create` | none | an `async fn(&A, &B, ..) -> Result<(), impl IntoResponse>` that runs on every call, on replays too. It takes a reference to every parameter but the transaction and the last (the last too, if `scope` names it) |
/// | `replay_with` | a path: `rebuild` | none | an `async fn(&mut DB::Connection, &Replay) -> impl IntoResponse` that builds the answer of a replay again, for bodies that must not be stored |
/// | `state` | a type: `AppState` | none | the router's state. Each parameter is checked against it where it stands, for better errors |
/// | `crate` | an absolute path: `"::idem"` | `"::idem_runtime"` | where the runtime is, if it is renamed or re-exported |
///
/// A duration is a whole number and a unit, `ms`, `s`, `m`, `h` or `d`: `"250ms"`, `"48h"`. A size is a number of bytes,
/// or a number and a unit, `B`, `KB`, `MB`, `KiB` or `MiB`, in quotes: `65536`, `"64KiB"`.
///
/// # Handlers with steps
///
/// A handler that calls another service, such as a payment provider, takes `&mut Steps<DB, E>` instead of a transaction, where
/// `E` is its error. The module `idem_runtime::steps` says how it runs.
///
/// ```ignore
/// #[idempotent(scope = "account", operation = "charges.create")]
/// async fn create_charge(
///     steps: &mut Steps<Postgres, ApiError>,
///     account: Account,
///     State(gateway): State<External<Gateway>>,
///     Json(new): Json<NewCharge>,
/// ) -> Result<Json<Receipt>, ApiError> {
///     let order = steps.atomic("reserve", async |tx| reserve(tx, &account, &new).await).await?;
///     let charge = steps
///         .external("charge", &gateway, ChargeRequest { amount: order.total, card: new.card })
///         .key_lifetime(Duration::from_secs(24 * 3600))
///         .call(async |gateway, key, input| gateway.charge(key, input).await)
///         .await?;
///     let receipt = steps.atomic("settle", async |tx| settle(tx, order.id, &charge).await).await?;
///     Ok(Json(receipt))
/// }
/// ```
///
/// * `operation` must be named, and never change: the keys that the other service is given depend on it.
/// * It may run again without its request. So what comes from the request must be data (`Serialize` and `Deserialize`), by
///   itself or inside `Json`, `Path`, `Query` or `Form`, and all else is taken from the state.
/// * Expired keys are refused (`expired = "reject"`), and `key = "optional"` is too.
/// * No two steps have the same name; one in a loop may.
///
/// # What it expands to
///
/// An `async fn` of the same name that axum can route to, with the function as written inside it. Unit tests call that one
/// with a transaction of their own: `create_order.invoke(&mut tx, (account, State(pricing), Json(new))).await`. An
/// error in the attribute or the signature leaves a function of the name behind, so that it is the only error.
#[proc_macro_attribute]
pub fn idempotent(arguments: TokenStream, item: TokenStream) -> TokenStream {
    idempotent::idempotent(arguments.into(), item.into()).into()
}

/// Says that a repeat of a handler's request is harmless without a key, and why.
///
/// ```ignore
/// #[repeat_safe(conditional, why = "only an open order changes")]
/// async fn pay(account: Account, State(pool): State<PgPool>, Path(id): Path<Uuid>) -> Result<Json<Order>, ApiError> {
///     sqlx::query("UPDATE orders SET status = 'paid' WHERE id = $1 AND owner = $2 AND status = 'open'")
///     ..
/// }
///
/// let app = idem_runtime::routing::Router::new().route("/orders/{id}/pay", put(pay));
/// ```
///
/// The attribute changes nothing of what the function does. It is how the routes of `idem_runtime::routing` know that
/// somebody has thought of repeats, and the reason is in the router's report, for a review. The function stays a handler
/// for any router of axum's; its return type becomes `Declared<..>` around what is written, and a unit test unwraps that:
/// `pay(..).await.into_inner()`.
///
/// # Arguments
///
/// One design and a reason must be given.
///
/// | argument | meaning |
/// |---|---|
/// | `client_id` | the client chooses the id of what it makes, so that a repeat finds it made: `INSERT .. ON CONFLICT DO NOTHING` |
/// | `conditional` | the write has its own condition, which the first request ends: `UPDATE .. WHERE status = 'open'`, `DELETE .. WHERE id = ..` |
/// | `precondition` | the client names the version that it changes (RFC 9110, section 13.1.1). The function takes an `IfMatch` |
/// | `why = ".."` | why that holds here, in a sentence |
/// | `operation = ".."` | the operation's name in the report; the default is the function's |
/// | `crate = "::path"` | where the runtime is, if it is renamed or re-exported; absolute. The default is `"::idem_runtime"` |
///
/// What none of them is true of (it adds to a number, sends a message, or calls another service) needs a key:
/// [`macro@idempotent`].
#[proc_macro_attribute]
pub fn repeat_safe(arguments: TokenStream, item: TokenStream) -> TokenStream {
    repeat_safe::repeat_safe(arguments.into(), item.into()).into()
}

/// Makes a function a consumer: a message that is delivered again has one effect.
///
/// ```ignore
/// #[consumer(source = "orders", ttl = "7d")]
/// async fn on_order(
///     tx: &mut Tx<Postgres>,
///     order: Message<OrderPlaced>,
///     State(accounts): State<Accounts>,
/// ) -> Result<(), LedgerError> {
///     sqlx::query("INSERT INTO ledger (order_id, cents) VALUES ($1, $2)")
///     ..
/// }
///
/// let consumers = idempotency
///     .consumers(state)
///     .register(on_order)
///     .source("orders", JetStream::new(client, "ORDERS", "ledger", "dead.orders"))
///     .spawn()
///     .await?;
/// ```
///
/// The message's row, and what is written through `tx`, commit in one transaction. A duplicate is acknowledged without a
/// run. It is acknowledged only after the commit.
///
/// # The function
///
/// * It is an `async fn` that takes `&mut Tx<DB>`, and beside it arguments that are made of the message and the state:
///   `Message<T>` (the payload as JSON), `Incoming` (unread), `State<T>`, and types of yours that implement `FromMessage`. All
///   of them must be `EffectFree`, as a handler's: it may run again.
/// * It returns `Result<(), E>`, or nothing. What becomes of the message is the word of `E`'s `Disposition`: `Transient` is
///   delivered again later, `Validation` and `Rejection` are dead letters at once. Where `E` has none, an error is delivered again
///   until its deliveries are too many. A serialization failure or a deadlock in the error's chain makes it run again at once.
///
/// # Arguments
///
/// | argument | meaning | default |
/// |---|---|---|
/// | `source = ".."` | the name of the source that it consumes | must be given |
/// | `name = ".."` | the consumer's name: with source and id it makes a message's row, so never change it | the function's |
/// | `ttl = ".."` | how long a message is remembered: at least as long as it may be delivered again | 7 days |
/// | `id = ".."` | where a message's id is: a field of the payload (`"event_id"`, `"data.event_id"`, `"/data/event_id"`), or `"broker"` for the one that the broker assigned, by which only redeliveries are told | what the publisher set: `Nats-Msg-Id`, AMQP's `message-id`, `webhook-id` |
/// | `timeout = ".."` | how long one run may take | the builder's `timeout` |
/// | `state = AppState` | checks here, and not where it is registered, that each argument can be made | |
/// | `crate = "::path"` | where the runtime is, if it is renamed or re-exported; absolute | `"::idem_runtime"` |
///
/// Unit tests call the function as written with a transaction of their own: `on_order.invoke(&mut tx, (message, State(..)))`.
#[proc_macro_attribute]
pub fn consumer(arguments: TokenStream, item: TokenStream) -> TokenStream {
    consumer::consumer(arguments.into(), item.into()).into()
}

/// Says whose keys a type's are: implements `Scope` for a struct by its fields.
///
/// A struct with one field is as good as that field, and one with several as good as their tuple, in the order in which they
/// are declared; `PhantomData` does not count. So a field that is added, or moved, makes every caller a new owner: stored
/// answers are no longer found.
///
/// ```ignore
/// #[derive(Scope)]
/// struct AccountId(Uuid);
///
/// #[derive(Scope)]
/// struct Member { tenant: TenantId, user: UserId }
/// ```
///
/// An enum is refused: write `Scope` by hand, so that no two of its values write the same.
///
/// `#[scope(crate = "::path")]` on the type says where the runtime is, if it is renamed.
#[proc_macro_derive(Scope, attributes(scope))]
pub fn derive_scope(item: TokenStream) -> TokenStream {
    derive::scope::derive(item.into()).into()
}

/// Says what an error leaves of its idempotency key: implements `Disposition` for an enum by its variants, or for a
/// struct.
///
/// ```ignore
/// #[derive(Debug, thiserror::Error, Disposition)]
/// enum ApiError {
///     #[error("the amount is negative")]
///     #[disposition(validation)]
///     NegativeAmount,
///     #[error("the card was declined")]
///     #[disposition(rejection)]
///     Declined,
///     #[error("the database failed")]
///     #[disposition(source)]
///     Database(#[from] sqlx::Error),
///     #[error(transparent)]
///     #[disposition(transparent)]
///     Stock(#[from] StockError),
/// }
/// ```
///
/// | attribute | the answer | the key |
/// |---|---|---|
/// | `validation` | the request is wrong | released: the client corrects it and sends it again |
/// | `rejection` | the business said no, for good | kept: below 500, the answer is stored and replayed |
/// | `transient` | it may work later | released: a retry runs |
/// | `source` | as `transient`; the one field is the error underneath | released; if the field's chain holds a serialization failure or a deadlock, the handler runs again |
/// | `transparent` | as the one field says, which implements `Disposition` | as the field says |
///
/// Each variant needs one. A field that is marked `#[source]` or `#[from]`, as `thiserror` reads it, is the error underneath
/// with `validation`, `rejection` and `transient` too.
///
/// `#[disposition(crate = "::path")]` on the type says where the runtime is, if it is renamed.
#[proc_macro_derive(Disposition, attributes(disposition))]
pub fn derive_disposition(item: TokenStream) -> TokenStream {
    derive::disposition::derive(item.into()).into()
}

/// Says that a type gives no way to leave an effect outside a handler's transaction: implements `EffectFree`,
/// and checks that each field is.
///
/// ```ignore
/// #[derive(Clone, EffectFree)]
/// struct Pricing {
///     cents: u64,
///     #[effect_free(trust = "a table in memory that nothing writes to")]
///     rates: exchange::Rates,
/// }
/// ```
///
/// What an `#[idempotent]` handler takes must be `EffectFree`: data in the state, and extractors of your own. A field
/// that is not is refused with what to do instead. `trust` leaves one field unchecked, and needs the reason.
///
/// A generic field is checked where the type is used: `Page<T>` with a field `Vec<T>` is `EffectFree` if `Vec<T>` is.
/// `PhantomData<T>` asks nothing of `T`.
///
/// `#[effect_free(crate = "::path")]` on the type says where the runtime is, if it is renamed.
#[proc_macro_derive(EffectFree, attributes(effect_free))]
pub fn derive_effect_free(item: TokenStream) -> TokenStream {
    derive::effect_free::derive(item.into()).into()
}
