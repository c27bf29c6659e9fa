//! A small client that shows an answer as it came over the wire.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::LazyLock;
use std::time::Duration;

use axum::http::{HeaderMap, HeaderName, HeaderValue, Method};
use bytes::Bytes;
use serde_json::Value;
use uuid::Uuid;

/// A key that no other test has.
///
/// As clients make them: without an order, or in the order of time. Half of the tests have keys of the one kind, half those of the other, and each
/// has always the same: the arguments of its process, its name among them, tell which.
pub fn fresh_key() -> String {
    static TIMED: LazyLock<bool> = LazyLock::new(|| {
        let mut hasher = DefaultHasher::new();
        std::env::args()
            .skip(1)
            .collect::<Vec<_>>()
            .hash(&mut hasher);
        hasher.finish().is_multiple_of(2)
    });
    if *TIMED {
        Uuid::now_v7().to_string()
    } else {
        Uuid::new_v4().to_string()
    }
}

/// A client of one server.
#[derive(Clone, Debug)]
pub struct Client {
    base: String,
    inner: reqwest::Client,
}

impl Client {
    /// A client of the server at `http://address`.
    pub fn new(address: std::net::SocketAddr) -> Client {
        let inner = reqwest::Client::builder()
            .no_proxy()
            // A connection for each request: one that the server has just closed is never taken again.
            .pool_max_idle_per_host(0)
            .redirect(reqwest::redirect::Policy::none())
            .timeout(Duration::from_secs(60))
            .build()
            .expect("a plain client builds");
        Client {
            base: format!("http://{address}"),
            inner,
        }
    }

    /// A GET without any header.
    pub fn get(&self, path: &str) -> Call {
        Call::new(self, Method::GET, path)
    }

    /// A POST as alice, without a key or a body.
    pub fn post(&self, path: &str) -> Call {
        Call::new(self, Method::POST, path).token("alice-token")
    }
}

/// A request that is being put together. Cloning it is how a client retries.
#[derive(Clone, Debug)]
pub struct Call {
    client: reqwest::Client,
    method: Method,
    url: String,
    headers: HeaderMap,
    body: Option<Bytes>,
    timeout: Option<Duration>,
}

impl Call {
    fn new(client: &Client, method: Method, path: &str) -> Call {
        Call {
            client: client.inner.clone(),
            method,
            url: format!("{}{path}", client.base),
            headers: HeaderMap::new(),
            body: None,
            timeout: None,
        }
    }

    /// The caller's token, in place of any other; empty for none.
    pub fn token(mut self, token: &str) -> Call {
        self.headers.remove("authorization");
        if token.is_empty() {
            return self;
        }
        self.set("authorization", format!("Bearer {token}").as_bytes())
    }

    /// The idempotency key's field line, bare as most clients send it.
    pub fn key(self, key: &str) -> Call {
        self.set("idempotency-key", key.as_bytes())
    }

    /// One more line of a field.
    pub fn header(mut self, name: &str, value: impl AsRef<[u8]>) -> Call {
        self.headers
            .append(field_name(name), field_value(value.as_ref()));
        self
    }

    /// A field's only line.
    pub fn set(mut self, name: &str, value: &[u8]) -> Call {
        self.headers.insert(field_name(name), field_value(value));
        self
    }

    /// What the handler is to do; see the probe.
    pub fn asking(self, name: &str, value: impl ToString) -> Call {
        self.set(&format!("x-probe-{name}"), value.to_string().as_bytes())
    }

    /// A body and its media type.
    pub fn body(mut self, media_type: &str, body: impl Into<Bytes>) -> Call {
        self.body = Some(body.into());
        self.set("content-type", media_type.as_bytes())
    }

    /// A JSON body.
    pub fn json(self, body: &Value) -> Call {
        self.body("application/json", body.to_string())
    }

    /// After how long the client gives up and closes the connection.
    pub fn giving_up_after(mut self, timeout: Duration) -> Call {
        self.timeout = Some(timeout);
        self
    }

    /// Sends it and reads the whole answer.
    ///
    /// # Panics
    ///
    /// When no answer came.
    pub async fn send(&self) -> Answer {
        match self.try_send().await {
            Ok(answer) => answer,
            Err(error) => panic!("{} {}: no answer: {error:?}", self.method, self.url),
        }
    }

    /// Sends it and reads the whole answer.
    ///
    /// # Errors
    ///
    /// When no whole answer came: refused, closed, or given up.
    pub async fn try_send(&self) -> Result<Answer, reqwest::Error> {
        let mut request = self
            .client
            .request(self.method.clone(), &self.url)
            .headers(self.headers.clone());
        if let Some(body) = &self.body {
            request = request.body(body.clone());
        }
        if let Some(timeout) = self.timeout {
            request = request.timeout(timeout);
        }
        let response = request.send().await?;
        Ok(Answer {
            status: response.status().as_u16(),
            headers: response.headers().clone(),
            body: response.bytes().await?,
        })
    }
}

fn field_name(name: &str) -> HeaderName {
    HeaderName::from_bytes(name.as_bytes()).expect("a test's field name is valid")
}

fn field_value(value: &[u8]) -> HeaderValue {
    HeaderValue::from_bytes(value).expect("a test's field value can be sent")
}

/// An answer, read whole.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// The status code.
    pub status: u16,
    /// Every field line.
    pub headers: HeaderMap,
    /// The content, byte for byte.
    pub body: Bytes,
}

impl Answer {
    /// A field's first line, if it is text.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }

    /// A field's lines, byte for byte.
    pub fn lines(&self, name: &str) -> Vec<&[u8]> {
        self.headers
            .get_all(name)
            .iter()
            .map(HeaderValue::as_bytes)
            .collect()
    }

    /// Whether the answer says that it is a replay.
    pub fn is_replay(&self) -> bool {
        self.header("idempotent-replayed") == Some("true")
    }

    /// The body as JSON; `Null` when it is none.
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or(Value::Null)
    }

    /// The problem's code, when the answer is one of the framework's own problems.
    pub fn code(&self) -> Option<String> {
        if self.header("content-type") != Some("application/problem+json") {
            return None;
        }
        Some(self.json().get("code")?.as_str()?.to_owned())
    }

    /// Asserts that this is the framework's own problem, in the form that each of them has.
    #[track_caller]
    pub fn assert_problem(&self, status: u16, code: &str) {
        assert_eq!(
            (self.status, self.code().as_deref()),
            (status, Some(code)),
            "{self:?}"
        );
        let problem = self.json();
        let text = |name: &str| problem[name].as_str().unwrap_or_default().to_owned();
        assert!(text("type").contains(':'), "a type URI: {problem}");
        assert!(!text("title").is_empty(), "a title: {problem}");
        assert!(!text("detail").is_empty(), "a detail: {problem}");
        assert_eq!(problem["status"], status, "{problem}");
        assert!(problem["retryable"].is_boolean(), "{problem}");
        assert!(!self.is_replay(), "a problem is no replay: {self:?}");
    }

    /// Asserts that this replays `first`: its status, its bytes, and the fields that are stored.
    #[track_caller]
    pub fn assert_replays(&self, first: &Answer) {
        assert!(self.is_replay(), "no replay: {self:?}");
        assert_eq!(self.status, first.status, "{self:?}");
        assert_eq!(self.body, first.body, "{self:?}");
        let kept = |answer: &Answer| {
            let mut headers = answer.headers.clone();
            for name in [
                "date",
                "idempotent-replayed",
                "idempotency-expires",
                "set-cookie",
                "x-request-id",
                "transfer-encoding",
                "content-length",
            ] {
                headers.remove(name);
            }
            headers
        };
        assert_eq!(kept(self), kept(first));
    }
}
