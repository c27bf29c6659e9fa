//! Webhooks, signed as [Standard Webhooks](https://www.standardwebhooks.com) says.

mod address;
mod answer;
mod endpoint;
mod secret;
mod verify;

use std::fmt;
use std::future::Future;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use futures_util::future::BoxFuture;
use http::{HeaderMap, HeaderName, HeaderValue, header};
use reqwest::dns::Resolve;
use reqwest::{Client, ClientBuilder};

pub use self::endpoint::{Endpoint, InvalidUrl};
pub use self::secret::{InvalidSecret, Secret};
pub use self::verify::{InvalidWebhook, Verifier};

use self::address::{Allow, Guarded, System};
use super::{OutboxMessage, PublishError, Publisher};

const ID: &str = "webhook-id";
const TIMESTAMP: &str = "webhook-timestamp";
const SIGNATURE: &str = "webhook-signature";

/// Below the relay's own time for an attempt.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(8);

/// Sends each message as a signed `POST` to one endpoint.
///
/// The payload is the body, byte for byte. `webhook-id` is the message's id, the same at each attempt; `webhook-timestamp` the
/// attempt's time; `webhook-signature` an HMAC-SHA256 over both and the body, one for each of the endpoint's secrets. The
/// message's headers are fields of the request. [`Verifier`] is the receiver's side.
///
/// A message has one endpoint: an event for several is several messages, staged together, each with an attempt count of its own.
///
/// # What it will not do
///
/// * follow a redirect, to wherever it may point;
/// * connect to an address that is not of the public internet (loopback, private, link-local, a cloud's metadata), unless
///   [`allow_addresses`](WebhooksBuilder::allow_addresses) says so. The address is checked that is connected to, not
///   one that the name had before;
/// * send over plain `http`, unless [`allow_http`](WebhooksBuilder::allow_http) says so;
/// * read more than 16 KiB of an answer, or wait for more of one than its status for over a second.
///
/// # What fails how
///
/// | what happens | error |
/// |---|---|
/// | 2xx | none: published |
/// | 410 Gone; an endpoint or header that is not allowed | [`Rejected`](PublishError::Rejected) |
/// | 429, 503 | [`Failed`](PublishError::Failed), with what [`Retry-After`](PublishError::retry_after) says, a day at most |
/// | any other status, redirects among them | [`Failed`](PublishError::Failed) |
/// | no connection, or a name that leads to forbidden addresses only | [`Failed`](PublishError::Failed) |
/// | no status in time, or the connection ends before it | [`Unconfirmed`](PublishError::Unconfirmed) |
///
/// An endpoint that is away is never [`Unavailable`](PublishError::Unavailable): that would hold up those of others.
///
/// # TLS
///
/// Is the application's choice, by a feature of reqwest's (`reqwest = { version = "0.13", features = ["rustls"] }`). Without one,
/// messages to `https` endpoints wait as [`Unavailable`](PublishError::Unavailable), with a reason that says so.
///
/// # Examples
///
/// ```
/// use idem_runtime::outbox::webhook::{Endpoint, Secret, Webhooks};
///
/// let secret = Secret::parse("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")?;
/// let endpoint = Endpoint::new("https://shop.example/hooks", secret)?;
/// let publisher = Webhooks::to(endpoint).build()?;
/// # let _ = publisher;
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Webhooks {
    client: Client,
    endpoint: Choice,
    http: bool,
    allow: Allow,
}

type Choice =
    Arc<dyn Fn(&OutboxMessage) -> BoxFuture<'static, Result<Endpoint, PublishError>> + Send + Sync>;

/// Settings of [`Webhooks`].
pub struct WebhooksBuilder {
    client: ClientBuilder,
    resolver: Arc<dyn Resolve>,
    endpoint: Choice,
    timeout: Duration,
    http: bool,
    allow: Allow,
}

impl Webhooks {
    /// Every message to the same endpoint.
    pub fn to(endpoint: Endpoint) -> WebhooksBuilder {
        Self::by(move |_| std::future::ready(Ok(endpoint.clone())))
    }

    /// Each message to the endpoint that `choose` names, as the one that a customer has registered. Its errors are the attempt's:
    /// [`Rejected`](PublishError::Rejected) where there is nobody to send to, [`Failed`](PublishError::Failed) where that could not
    /// be found out. What is needed of the message is taken from it before the future is made.
    pub fn by<C, F>(choose: C) -> WebhooksBuilder
    where
        C: Fn(&OutboxMessage) -> F + Send + Sync + 'static,
        F: Future<Output = Result<Endpoint, PublishError>> + Send + 'static,
    {
        WebhooksBuilder {
            client: Client::builder().no_proxy(),
            resolver: Arc::new(System),
            endpoint: Arc::new(move |message| Box::pin(choose(message))),
            timeout: DEFAULT_TIMEOUT,
            http: false,
            allow: |_| false,
        }
    }
}

impl WebhooksBuilder {
    /// A client with settings of the application's own, as for TLS or an egress proxy. A proxy resolves names itself, and has to
    /// refuse private addresses itself; without this call none is used. Time limit, resolver and redirects are set here.
    #[must_use]
    pub fn client(mut self, client: ClientBuilder) -> Self {
        self.client = client;
        self
    }

    /// Resolves names with another resolver than the system's. What it finds is checked.
    #[must_use]
    pub fn resolver(mut self, resolver: Arc<dyn Resolve>) -> Self {
        self.resolver = resolver;
        self
    }

    /// How long an attempt may take, from the look-up of the name to the status. Default 8 seconds, a little less than the relay
    /// gives an attempt.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Allows plain `http`.
    #[must_use]
    pub fn allow_http(mut self) -> Self {
        self.http = true;
        self
    }

    /// Allows addresses besides those of the public internet.
    #[must_use]
    pub fn allow_addresses(mut self, allow: fn(IpAddr) -> bool) -> Self {
        self.allow = allow;
        self
    }

    /// The publisher.
    ///
    /// # Errors
    ///
    /// When reqwest can't make a client, as without certificates to trust.
    pub fn build(self) -> Result<Webhooks, reqwest::Error> {
        let resolver: Arc<dyn Resolve> = Arc::new(Guarded::new(self.resolver, self.allow));
        let client = self
            .client
            .redirect(reqwest::redirect::Policy::none())
            .dns_resolver(resolver)
            .timeout(self.timeout)
            .build()?;
        Ok(Webhooks {
            client,
            endpoint: self.endpoint,
            http: self.http,
            allow: self.allow,
        })
    }
}

impl Publisher for Webhooks {
    async fn publish(&self, message: &OutboxMessage) -> Result<(), PublishError> {
        let endpoint = (self.endpoint)(message).await?;
        endpoint.check(self.http, self.allow)?;
        let request = self
            .client
            .post(endpoint.url.clone())
            .headers(fields(message, &endpoint)?)
            .body(message.payload().clone());
        match request.send().await {
            Ok(response) => answer::read(response).await,
            Err(error) => Err(answer::none(error)),
        }
    }
}

impl fmt::Debug for Webhooks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Webhooks").finish_non_exhaustive()
    }
}

impl fmt::Debug for WebhooksBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WebhooksBuilder").finish_non_exhaustive()
    }
}

fn fields(message: &OutboxMessage, endpoint: &Endpoint) -> Result<HeaderMap, PublishError> {
    let mut fields = HeaderMap::new();
    for (name, value) in message.headers() {
        let name: HeaderName = name.parse().map_err(|error| refused(name, error))?;
        if is_the_clients(&name) {
            return Err(refused(name.as_str(), "the request's own"));
        }
        let value: HeaderValue = value
            .parse()
            .map_err(|error| refused(name.as_str(), error))?;
        fields.append(name, value);
    }
    let mut set = |name: HeaderName, value: &str| -> Result<(), PublishError> {
        let value = value
            .parse()
            .map_err(|error| refused(name.as_str(), error))?;
        fields.insert(name, value);
        Ok(())
    };
    let id = message.id().to_string();
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let timestamp = now.unwrap_or_default().as_secs().to_string();
    let signatures: Vec<String> = endpoint
        .secrets
        .iter()
        .map(|secret| secret.sign(&id, &timestamp, message.payload()))
        .collect();
    set(header::CONTENT_TYPE, message.content_type())?;
    set(
        header::USER_AGENT,
        concat!("idem/", env!("CARGO_PKG_VERSION")),
    )?;
    set(HeaderName::from_static(ID), &id)?;
    set(HeaderName::from_static(TIMESTAMP), &timestamp)?;
    set(HeaderName::from_static(SIGNATURE), &signatures.join(" "))?;
    Ok(fields)
}

fn refused(name: &str, why: impl fmt::Display) -> PublishError {
    PublishError::Rejected(format!("a webhook can't have the field {name:?}: {why}").into())
}

/// Fields that say how the request is sent, not what it is about.
fn is_the_clients(name: &HeaderName) -> bool {
    [
        header::CONNECTION,
        header::CONTENT_LENGTH,
        header::EXPECT,
        header::HOST,
        header::TE,
        header::TRAILER,
        header::TRANSFER_ENCODING,
        header::UPGRADE,
    ]
    .contains(name)
}
