//! What an error of `reqwest` says of the effect of its call.

use std::error::Error;
use std::fmt;

use serde::{Deserialize, Serialize};

use super::outcome::{CallFailure, Classify, describe};

/// A request that was never sent: there was no connection, or no request to be made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NotSent {
    /// Why, with its causes. It may name the service's address.
    pub message: String,
}

impl fmt::Display for NotSent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the request was not sent: {}", self.message)
    }
}

impl Error for NotSent {}

/// A connection that was not made and a request that could not be built say that nothing was sent. All else, a status among it, is
/// unknown: which statuses say that nothing happened, only the service's documentation can tell, so that a client of yours
/// reads the status itself and has an error type of its own.
///
/// Build the client with `redirect::Policy::none()`: the connection that is not made after a redirect looks the same as the
/// first, and the request before it was sent.
impl Classify for reqwest::Error {
    type Refusal = NotSent;

    fn classify(self) -> CallFailure<NotSent> {
        let message = describe(&self);
        if self.is_connect() || self.is_builder() {
            CallFailure::NotYet {
                refusal: NotSent { message },
                after: None,
            }
        } else {
            CallFailure::Unknown(message)
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::io::AsyncReadExt;
    use tokio::net::TcpListener;

    use super::*;

    async fn failure(url: &str) -> CallFailure<NotSent> {
        let client = reqwest::Client::builder()
            .no_proxy()
            .timeout(Duration::from_millis(200))
            .build()
            .expect("a plain client builds");
        let sent = client.post(url).body("1").send().await;
        let answered = sent.and_then(reqwest::Response::error_for_status);
        answered.expect_err("it fails").classify()
    }

    #[tokio::test]
    async fn a_connection_that_is_not_made_sends_nothing() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        drop(listener);
        let failure = failure(&format!("http://{address}/")).await;
        assert!(matches!(failure, CallFailure::NotYet { .. }), "{failure:?}");
    }

    #[tokio::test]
    async fn a_request_that_can_not_be_built_is_not_sent() {
        let failure = failure("no URL").await;
        assert!(matches!(failure, CallFailure::NotYet { .. }), "{failure:?}");
    }

    #[tokio::test]
    async fn what_breaks_after_the_request_was_written_is_unknown() {
        for answer in [
            "",
            "HTTP/1.1 503 Busy\r\ncontent-length: 0\r\n\r\n",
            "silence",
        ] {
            let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
            let address = listener.local_addr().expect("an address");
            let server = tokio::spawn(async move {
                let (mut stream, _) = listener.accept().await.expect("a connection");
                let mut request = [0; 1024];
                let _ = stream.read(&mut request).await;
                if answer == "silence" {
                    std::future::pending::<()>().await;
                }
                let _ = tokio::io::AsyncWriteExt::write_all(&mut stream, answer.as_bytes()).await;
            });
            let failure = failure(&format!("http://{address}/")).await;
            server.abort();
            assert!(
                matches!(failure, CallFailure::Unknown(_)),
                "{answer:?}: {failure:?}"
            );
        }
    }
}
