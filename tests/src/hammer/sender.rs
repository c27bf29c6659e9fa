//! One request over the wire, and how its client behaves meanwhile.

use std::error::Error;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use axum::http::{HeaderName, HeaderValue};
use bytes::{Bytes, BytesMut};
use reqwest::Url;

use super::Unusable;
use super::request::Filled;
use crate::http::Answer;

/// What bounds every request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    pub(super) timeout: Duration,
    pub(super) max_answer: usize,
    /// How many connections wait for their next request.
    pub(super) idle: usize,
    pub(super) allow_remote: bool,
}

/// How far the client reads.
#[derive(Clone, Copy, Debug)]
pub(super) enum Reading {
    /// To the end.
    Whole,
    /// Until the answer's first bytes are there; it closes the connection then.
    Nothing,
    /// Until so much time is over; it closes the connection then, wherever it is.
    For(Duration),
}

/// What came of a request.
#[derive(Debug)]
pub(super) enum Got {
    /// A whole answer, after so long.
    Answered(Answer, Duration),
    /// The client left before it had one.
    Left,
    /// The connection failed, or the answer is too long in time or in bytes.
    Failed(&'static str),
}

/// A client of one service.
#[derive(Debug)]
pub(super) struct Sender {
    client: reqwest::Client,
    /// At each of the service's processes, as the first key's request is.
    urls: Vec<Url>,
    sent: AtomicUsize,
    max_answer: usize,
}

impl Sender {
    pub(super) async fn new(urls: &[Url], limits: &Limits) -> Result<Sender, Unusable> {
        let mut client = reqwest::Client::builder()
            .no_proxy()
            .redirect(reqwest::redirect::Policy::none())
            .pool_max_idle_per_host(limits.idle)
            .timeout(limits.timeout);
        for url in urls {
            let addresses = addresses(url, limits.allow_remote).await?;
            // Whom it asked at the start, whatever the name means later.
            client = client.resolve_to_addrs(url.host_str().unwrap_or_default(), &addresses);
        }
        Ok(Sender {
            client: client
                .build()
                .map_err(|error| Unusable(format!("no HTTP client: {error}")))?,
            urls: urls.to_vec(),
            sent: AtomicUsize::new(0),
            max_answer: limits.max_answer,
        })
    }

    /// Sends a key's request, with this content and perhaps a field line more.
    pub(super) async fn send(
        &self,
        request: &Filled,
        body: &Bytes,
        extra: Option<&(HeaderName, HeaderValue)>,
        reading: Reading,
    ) -> Got {
        let next = self.sent.fetch_add(1, Ordering::Relaxed) % self.urls.len();
        let url = &request.urls[next];
        if url.origin() != self.urls[next].origin() {
            return Got::Failed("another host than the first key's");
        }
        let mut headers = request.headers.clone();
        if let Some((name, value)) = extra {
            headers.append(name, value.clone());
        }
        let call = self
            .client
            .request(request.method.clone(), url.clone())
            .headers(headers)
            .body(body.clone());
        let start = Instant::now();
        match reading {
            Reading::Whole => self.read(call, start).await,
            Reading::Nothing => match call.send().await {
                Ok(_unread) => Got::Left,
                Err(error) => Got::Failed(why(&error)),
            },
            Reading::For(time) => {
                let read = tokio::time::timeout(time, self.read(call, start));
                read.await.unwrap_or(Got::Left)
            }
        }
    }

    async fn read(&self, call: reqwest::RequestBuilder, start: Instant) -> Got {
        let mut response = match call.send().await {
            Ok(response) => response,
            Err(error) => return Got::Failed(why(&error)),
        };
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        let mut body = BytesMut::new();
        loop {
            match response.chunk().await {
                Ok(Some(chunk)) if body.len() + chunk.len() > self.max_answer => {
                    return Got::Failed("answer too long");
                }
                Ok(Some(chunk)) => body.extend_from_slice(&chunk),
                Ok(None) => break,
                Err(error) => return Got::Failed(why(&error)),
            }
        }
        let answer = Answer {
            status,
            headers,
            body: body.freeze(),
        };
        Got::Answered(answer, start.elapsed())
    }
}

/// Where a service is, which must be here unless it's allowed elsewhere.
pub(super) async fn addresses(url: &Url, allow_remote: bool) -> Result<Vec<SocketAddr>, Unusable> {
    if url.scheme() != "http" {
        let why = format!("{url}: only http is spoken; ask the service where its TLS has ended");
        return Err(Unusable(why));
    }
    let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
    let port = url.port_or_known_default().unwrap_or(80);
    let found: Vec<SocketAddr> = tokio::net::lookup_host((host, port))
        .await
        .map_err(|error| Unusable(format!("{host}: {error}")))?
        .collect();
    match found.iter().find(|address| !address.ip().is_loopback()) {
        Some(address) if !allow_remote => Err(Unusable(format!(
            "{host} is {}, which is not this machine: --allow-remote, if it is yours to load",
            address.ip()
        ))),
        _ => Ok(found),
    }
}

fn why(error: &reqwest::Error) -> &'static str {
    let mut cause: Option<&(dyn Error + 'static)> = Some(error);
    while let Some(error) = cause {
        let io = error.downcast_ref::<std::io::Error>();
        if io.is_some_and(|io| io.kind() == std::io::ErrorKind::ConnectionRefused) {
            return "connection refused";
        }
        cause = error.source();
    }
    match error {
        _ if error.is_timeout() => "time-out",
        _ if error.is_connect() => "no connection",
        _ => "connection lost",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn found(url: &str, allow_remote: bool) -> Result<Vec<SocketAddr>, Unusable> {
        addresses(&Url::parse(url).expect("a URL"), allow_remote).await
    }

    #[tokio::test]
    async fn another_machine_is_not_loaded_without_leave() {
        assert!(found("http://127.0.0.1:3000/", false).await.is_ok());
        assert!(found("http://[::1]:3000/", false).await.is_ok());
        let refused = found("http://192.0.2.1/orders", false).await;
        let message = refused.expect_err("an address of documentation's").0;
        assert!(message.contains("--allow-remote"), "{message}");
        assert!(found("http://192.0.2.1/orders", true).await.is_ok());
        assert!(found("https://127.0.0.1/", true).await.is_err());
    }
}
