//! What the attribute says of a consumer, and the one trait that a generated consumer implements.

use std::fmt;
use std::marker::PhantomData;
use std::time::Duration;

use futures_util::future::BoxFuture;

use super::arguments::MessageArguments;
use super::attempt::{Attempt, Begun, Body, Ended};
use super::errors::InboxError;
use super::identity::Identity;
use super::message::Incoming;
use super::verdict::Verdict;
use super::{IdentityError, TTL};
use crate::backend::Backend;
use crate::idempotency::Idempotency;
use crate::settle::{Disposition, ErrorKind};
use crate::tx::{Handle, Tx};

/// Where a message's id is found (the `id` argument).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessageIdentity {
    /// Its publisher set it: `Nats-Msg-Id`, AMQP's `message-id`, `webhook-id`.
    Publisher,
    /// A field of the payload, as a JSON pointer (RFC 6901): a string, or a whole number of 64 bits.
    Field(&'static str),
    /// The broker assigned it: new when the message is published again.
    Broker,
}

impl MessageIdentity {
    /// The id, as it is in this message.
    fn of(self, message: &Incoming) -> Option<String> {
        match self {
            Self::Publisher => message.message_id().map(str::to_owned),
            Self::Broker => message.broker_id().map(str::to_owned),
            Self::Field(pointer) => {
                let payload: serde_json::Value = serde_json::from_slice(message.payload()).ok()?;
                match payload.pointer(pointer)? {
                    serde_json::Value::String(id) => Some(id.clone()),
                    // A number that is rounded may be another's, too.
                    serde_json::Value::Number(id) if !id.is_f64() => Some(id.to_string()),
                    _ => None,
                }
            }
        }
    }
}

/// What `#[consumer]` says of one consumer. `None` stands for the default.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct ConsumerSpec {
    /// The consumer's stable identity in rows, logs and dead letters.
    pub name: &'static str,
    /// Where its messages come from.
    pub source: &'static str,
    /// The consumer's full path, for messages.
    pub function: &'static str,
    /// How long a message is remembered: 7 days by default.
    pub ttl: Option<Duration>,
    /// How long one run may take.
    pub timeout: Option<Duration>,
    /// Where a message's id is found.
    pub id: MessageIdentity,
}

impl ConsumerSpec {
    /// The specification of a consumer whose attribute says nothing but its source.
    #[must_use]
    pub const fn new(name: &'static str, source: &'static str, function: &'static str) -> Self {
        Self {
            name,
            source,
            function,
            ttl: None,
            timeout: None,
            id: MessageIdentity::Publisher,
        }
    }

    pub(crate) fn ttl(&self) -> Duration {
        self.ttl.unwrap_or(TTL)
    }

    /// Which message this is, to this consumer.
    pub(super) fn identity(&self, message: &Incoming) -> Result<Identity, IdentityError> {
        let id = self.id.of(message);
        Identity::new(self.name, self.source, id.as_deref().map(str::as_bytes)).map_err(|error| {
            match (error, self.id) {
                (IdentityError::MissingId, MessageIdentity::Field(_)) => {
                    IdentityError::MissingField
                }
                (error, _) => error,
            }
        })
    }
}

/// One annotated consumer, as data and functions. `#[consumer]` implements it; nobody else does.
pub trait Consumer: Sized + Send + Sync + 'static {
    /// What it writes through: `Tx<DB>`.
    type Handle: Handle<Db: Backend>;
    /// Its arguments but the transaction.
    type Args: 'static;
    /// What it returns.
    type Output: 'static;
    /// What the attribute says.
    const SPEC: ConsumerSpec;
    /// What the engine calls.
    const FUNCTIONS: ConsumerFunctions<Self>;

    /// Holds the checks of the arguments: that it compiles is all.
    fn check() {}
}

/// The functions of a consumer.
pub struct ConsumerFunctions<C: Consumer> {
    /// The user's function.
    pub call: for<'t> fn(&'t mut C::Handle, C::Args) -> BoxFuture<'t, C::Output>,
    /// What becomes of the message.
    pub verdict: fn(C::Output) -> Verdict,
}

impl<C: Consumer> fmt::Debug for ConsumerFunctions<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConsumerFunctions").finish_non_exhaustive()
    }
}

/// What a generated consumer is called with: nobody has one but a registration.
#[derive(Debug)]
pub struct Registration(());

/// What a generated consumer returns: which one it is.
pub struct Registered<C>(PhantomData<fn() -> C>);

impl Registration {
    /// Names the consumer.
    #[must_use]
    pub fn of<C: Consumer>(self) -> Registered<C> {
        Registered(PhantomData)
    }
}

impl<C> fmt::Debug for Registered<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Registered").finish_non_exhaustive()
    }
}

/// A function that `#[consumer]` made. `C` is inferred.
#[diagnostic::on_unimplemented(
    message = "this is no consumer",
    label = "annotate it with `#[consumer(source = \"..\")]`"
)]
pub trait ConsumerHandler<C>: Clone + Send + Sync + 'static {
    /// Calls your own function, in a transaction of yours: for unit tests. The arguments are those of the function, as a tuple,
    /// without the transaction. There is no row, and no duplicate.
    ///
    /// # Cancel safety
    ///
    /// That of your function.
    fn invoke<'t>(&self, handle: &'t mut C::Handle, arguments: C::Args) -> BoxFuture<'t, C::Output>
    where
        C: Consumer,
    {
        (C::FUNCTIONS.call)(handle, arguments)
    }

    /// What the attribute says of it.
    fn spec(&self) -> ConsumerSpec
    where
        C: Consumer,
    {
        C::SPEC
    }
}

#[diagnostic::do_not_recommend]
impl<F, C> ConsumerHandler<C> for F where F: Makes<Registered<C>> + Clone + Send + Sync + 'static {}

/// A function that makes this of a registration. Two implementations: where neither fits, rustc speaks of the trait that asked, and not
/// of how many arguments a function would need to be the one.
pub trait Makes<R> {}

#[diagnostic::do_not_recommend]
impl<F, C: Made> Makes<Registered<C>> for F where F: Fn(Registration) -> Registered<C> {}

#[diagnostic::do_not_recommend]
impl<F> Makes<Registered<Nobody>> for F where F: Fn(Nobody) -> Registered<Nobody> {}

/// What the attribute makes: a consumer, or what stands for a faulty one.
pub trait Made {}

impl<C: Consumer> Made for C {}

impl Made for FaultyConsumer {}

/// Made by no function.
#[derive(Debug)]
pub enum Nobody {}

/// What stands for a consumer that does not compile.
#[derive(Debug)]
pub enum FaultyConsumer {}

/// Runs a consumer for one message.
pub(crate) type Run<DB, S> = fn(Idempotency<DB>, S, Incoming) -> BoxFuture<'static, Outcome>;

/// A consumer's transaction that is one of this database.
#[diagnostic::on_unimplemented(
    message = "this consumer writes to another database than that of the inbox it is registered with",
    label = "takes `&mut {Self}`, and not `&mut Tx<{DB}>`",
    note = "each database has its own inbox: register the consumer with the one of `Idempotency` of its own database"
)]
pub trait TransactionOf<DB: Backend>: Handle {
    /// The transaction as the consumer takes it.
    #[doc(hidden)]
    fn of(tx: &mut Tx<DB>) -> &mut Self;
}

impl<DB: Backend> TransactionOf<DB> for Tx<DB> {
    fn of(tx: &mut Tx<DB>) -> &mut Self {
        tx
    }
}

/// A consumer whose messages are processed in this database, with arguments that this state holds.
pub trait ConsumesWith<DB: Backend, S>: Sized + 'static {
    /// `None`: it does not compile.
    #[doc(hidden)]
    #[allow(
        private_interfaces,
        reason = "sealed by it: nobody else can name what runs a consumer"
    )]
    const RUN: Option<(&'static ConsumerSpec, Run<DB, S>)>;
}

#[allow(private_interfaces, reason = "see the trait")]
impl<DB, S, C> ConsumesWith<DB, S> for C
where
    DB: Backend,
    C: Consumer<Handle: TransactionOf<DB>, Args: MessageArguments<S> + Send>,
    S: Send + Sync + 'static,
{
    const RUN: Option<(&'static ConsumerSpec, Run<DB, S>)> =
        Some((&C::SPEC, |idempotency, state, message| {
            Box::pin(consume::<DB, S, C>(idempotency, state, message))
        }));
}

#[diagnostic::do_not_recommend]
#[allow(private_interfaces, reason = "see the trait")]
impl<DB: Backend, S: 'static> ConsumesWith<DB, S> for FaultyConsumer {
    const RUN: Option<(&'static ConsumerSpec, Run<DB, S>)> = None;
}

/// What became of a message at one consumer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Done,
    Duplicate,
    /// The database is out of reach.
    Outage(String),
    /// The consumer says that it is. It was not when the consumer began.
    Interrupted(String),
    /// It may work later.
    Retry(String),
    /// It would fail again.
    Reject(String),
}

impl Outcome {
    pub(super) fn of(error: &InboxError) -> Self {
        let reason = error.to_string();
        if error.is_outage() {
            return Self::Outage(reason);
        }
        match error.disposition() {
            ErrorKind::Transient => Self::Retry(reason),
            ErrorKind::Validation | ErrorKind::Rejection => Self::Reject(reason),
        }
    }
}

/// Runs a consumer for a message, unless it has processed it before.
pub(crate) async fn consume<DB, S, C>(
    idempotency: Idempotency<DB>,
    state: S,
    message: Incoming,
) -> Outcome
where
    DB: Backend,
    C: Consumer<Handle: TransactionOf<DB>, Args: MessageArguments<S> + Send>,
    S: Send + Sync,
{
    match attempt::<DB, S, C>(&idempotency, &state, &message).await {
        Ok(outcome) => outcome,
        Err(error) => Outcome::of(&error),
    }
}

async fn attempt<DB, S, C>(
    idempotency: &Idempotency<DB>,
    state: &S,
    message: &Incoming,
) -> Result<Outcome, InboxError>
where
    DB: Backend,
    C: Consumer<Handle: TransactionOf<DB>, Args: MessageArguments<S> + Send>,
    S: Send + Sync,
{
    let spec = &C::SPEC;
    let identity = spec.identity(message)?;
    let timeout = spec.timeout.unwrap_or(idempotency.shared.settings.timeout);
    let mut attempt = Attempt::<DB, ()>::new(idempotency, identity, spec.ttl(), timeout);
    loop {
        let mut tx = match attempt.begin().await? {
            Begun::Won(tx) => tx,
            Begun::Duplicate => return Ok(Outcome::Duplicate),
            Begun::Own(()) => return Ok(Outcome::Done),
        };
        let ran = attempt
            .watched(body::<DB, S, C>(&mut tx, state, message))
            .await;
        match attempt.end(tx, ran).await? {
            Some(Ended::Done(())) => return Ok(Outcome::Done),
            Some(Ended::Failed(outcome)) => return Ok(outcome),
            None => {}
        }
    }
}

/// The arguments are made after the row is taken: a deploy that reads payloads more strictly must not turn the duplicate of a
/// processed message into a dead letter.
async fn body<DB, S, C>(tx: &mut Tx<DB>, state: &S, message: &Incoming) -> Body<(), Outcome>
where
    DB: Backend,
    C: Consumer<Handle: TransactionOf<DB>, Args: MessageArguments<S> + Send>,
    S: Send + Sync,
{
    let functions = C::FUNCTIONS;
    let arguments = match C::Args::from_message(message, state) {
        Ok(arguments) => arguments,
        Err(unreadable) => return Body::Failed(Outcome::Reject(unreadable.to_string())),
    };
    let answer = (functions.call)(TransactionOf::of(tx), arguments);
    match (functions.verdict)(answer.await) {
        Verdict::Done => Body::Done(()),
        Verdict::Again => Body::Again,
        Verdict::Outage(reason) => Body::Failed(Outcome::Interrupted(reason)),
        Verdict::Retry(reason) => Body::Failed(Outcome::Retry(reason)),
        Verdict::Reject(reason) => Body::Failed(Outcome::Reject(reason)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_found_where_the_attribute_says() {
        let message = Incoming::new(
            "orders",
            &br#"{"event_id":"e1","nested":{"n":7},"big":1e30,"list":[]}"#[..],
        )
        .with_message_id("m1")
        .with_broker_id("b1");
        let id = |identity: MessageIdentity| identity.of(&message);
        assert_eq!(id(MessageIdentity::Publisher).as_deref(), Some("m1"));
        assert_eq!(id(MessageIdentity::Broker).as_deref(), Some("b1"));
        assert_eq!(
            id(MessageIdentity::Field("/event_id")).as_deref(),
            Some("e1")
        );
        assert_eq!(
            id(MessageIdentity::Field("/nested/n")).as_deref(),
            Some("7")
        );
        for missing in ["/big", "/list", "/nested", "/none"] {
            assert_eq!(id(MessageIdentity::Field(missing)), None, "{missing}");
        }
        let bare = Incoming::new("orders", &b"no JSON"[..]);
        for identity in [
            MessageIdentity::Publisher,
            MessageIdentity::Broker,
            MessageIdentity::Field("/event_id"),
        ] {
            assert_eq!(identity.of(&bare), None);
        }
    }
}
