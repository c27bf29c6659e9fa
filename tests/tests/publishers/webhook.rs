//! Webhooks: what a receiver gets, and what its answers mean.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use axum::Router;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, Request, StatusCode, Uri};
use axum::response::{IntoResponse as _, Response};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use futures_util::stream;
use idem_runtime::outbox::webhook::{Endpoint, Secret, Verifier, Webhooks, WebhooksBuilder};
use idem_runtime::outbox::{PublishError, Publisher as _};
use idem_tests::wait::in_time;
use sha2::{Digest as _, Sha256};
use tokio::net::TcpListener;

use crate::assert_failed;
use crate::setup::message;

pub(crate) const KEY: [u8; 32] = [7; 32];

pub(crate) fn secret(key: &[u8]) -> Secret {
    Secret::parse(&format!("whsec_{}", STANDARD.encode(key))).unwrap()
}

/// What a receiver was sent.
#[derive(Clone)]
pub(crate) struct Received {
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
}

impl Received {
    fn field(&self, name: &str) -> &str {
        self.headers[name].to_str().unwrap()
    }
}

type Answer = dyn Fn(&Uri) -> Response + Send + Sync;

#[derive(Clone)]
pub(crate) struct Receiver {
    pub(crate) address: SocketAddr,
    received: Arc<Mutex<Vec<Received>>>,
    answer: Arc<Answer>,
}

impl Receiver {
    pub(crate) async fn start(answer: impl Fn(&Uri) -> Response + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let receiver = Receiver {
            address: listener.local_addr().unwrap(),
            received: Arc::default(),
            answer: Arc::new(answer),
        };
        let router = Router::new().fallback(receive).with_state(receiver.clone());
        tokio::spawn(async move { axum::serve(listener, router).await });
        receiver
    }

    async fn answering(status: u16) -> Self {
        let status = StatusCode::from_u16(status).unwrap();
        Self::start(move |_| status.into_response()).await
    }

    pub(crate) fn received(&self) -> Vec<Received> {
        self.received.lock().unwrap().clone()
    }

    fn endpoint(&self) -> Endpoint {
        let url = format!("http://{}/hooks?tenant=a", self.address);
        Endpoint::new(&url, secret(&KEY)).unwrap()
    }
}

async fn receive(State(receiver): State<Receiver>, request: Request<Body>) -> Response {
    let (parts, body) = request.into_parts();
    let body = axum::body::to_bytes(body, usize::MAX).await.unwrap();
    let answer = (receiver.answer)(&parts.uri);
    receiver.received.lock().unwrap().push(Received {
        uri: parts.uri,
        headers: parts.headers,
        body,
    });
    answer
}

fn to(endpoint: Endpoint) -> WebhooksBuilder {
    Webhooks::to(endpoint)
        .allow_http()
        .allow_addresses(|address| address.is_loopback())
}

/// HMAC-SHA256 by its definition (RFC 2104), for keys of no more than a block.
fn hmac(key: &[u8], content: &[u8]) -> Vec<u8> {
    let padded = |pad: u8| -> Vec<u8> {
        let byte = |at: usize| key.get(at).copied().unwrap_or(0) ^ pad;
        (0..64).map(byte).collect()
    };
    let inner = Sha256::digest([padded(0x36), content.to_vec()].concat());
    Sha256::digest([padded(0x5c), inner.to_vec()].concat()).to_vec()
}

#[tokio::test]
async fn a_receiver_gets_the_payload_signed_by_the_convention() {
    let receiver = Receiver::answering(204).await;
    let publisher = to(receiver.endpoint()).build().unwrap();
    let message = message("orders.placed")
        .with_content_type("application/cloudevents+json")
        .with_header(
            "traceparent",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        )
        .with_header("webhook-id", "somebody-elses");
    publisher.publish(&message).await.unwrap();

    let [received] = &receiver.received()[..] else {
        panic!("not one request");
    };
    assert_eq!(received.uri, "/hooks?tenant=a");
    assert_eq!(received.body, *message.payload());
    assert_eq!(
        received.field("content-type"),
        "application/cloudevents+json"
    );
    assert!(received.headers.contains_key("traceparent"));
    assert_eq!(received.headers.get_all("webhook-id").iter().count(), 1);
    let (id, timestamp) = (
        received.field("webhook-id"),
        received.field("webhook-timestamp"),
    );
    assert_eq!(id, message.id().to_string());
    let sent_at = UNIX_EPOCH + Duration::from_secs(timestamp.parse().unwrap());
    assert!(SystemTime::now().duration_since(sent_at).unwrap() < Duration::from_secs(30));
    let mut content = format!("{id}.{timestamp}.").into_bytes();
    content.extend_from_slice(&received.body);
    let expected = format!("v1,{}", STANDARD.encode(hmac(&KEY, &content)));
    assert_eq!(received.field("webhook-signature"), expected);
}

#[tokio::test]
async fn while_a_secret_is_replaced_either_proves_the_webhook() {
    let receiver = Receiver::answering(200).await;
    let endpoint = receiver.endpoint().secret(secret(&[8; 24]));
    to(endpoint)
        .build()
        .unwrap()
        .publish(&message("orders"))
        .await
        .unwrap();
    let received = &receiver.received()[0];
    assert_eq!(received.field("webhook-signature").split(' ').count(), 2);
    for (key, genuine) in [(&KEY[..], true), (&[8; 24], true), (&[9; 32], false)] {
        let verified = Verifier::new(secret(key)).verify(&received.headers, &received.body);
        assert_eq!(verified.is_ok(), genuine, "{verified:?}");
    }
}

#[tokio::test]
async fn an_attempt_has_the_same_id_and_its_own_time() {
    let receiver = Receiver::answering(500).await;
    let publisher = to(receiver.endpoint()).build().unwrap();
    let message = message("orders");
    let started = SystemTime::now();
    while started.elapsed().unwrap() < Duration::from_millis(1100) {
        assert_failed!(publisher.publish(&message).await, Failed, "500");
    }
    let received = receiver.received();
    let (first, last) = (&received[0], &received[received.len() - 1]);
    assert_eq!(first.field("webhook-id"), last.field("webhook-id"));
    assert_ne!(
        first.field("webhook-timestamp"),
        last.field("webhook-timestamp")
    );
    assert_ne!(
        first.field("webhook-signature"),
        last.field("webhook-signature")
    );
}

#[tokio::test]
async fn a_status_says_what_becomes_of_the_message() {
    let receiver = Receiver::start(|uri| {
        let status = uri.path()[1..].parse().unwrap();
        StatusCode::from_u16(status).unwrap().into_response()
    })
    .await;
    let publisher = |status: u16| {
        let url = format!("http://{}/{status}", receiver.address);
        let endpoint = Endpoint::new(&url, secret(&KEY)).unwrap();
        to(endpoint).build().unwrap()
    };
    for status in [200, 201, 202, 204, 299] {
        let result = publisher(status).publish(&message("orders")).await;
        result.unwrap_or_else(|error| panic!("{status}: {error}"));
    }
    for status in [
        300, 304, 400, 401, 404, 409, 413, 429, 500, 502, 503, 504, 599,
    ] {
        let result = publisher(status).publish(&message("orders")).await;
        assert_failed!(result, Failed, &status.to_string());
    }
    assert_failed!(
        publisher(410).publish(&message("orders")).await,
        Rejected,
        "410"
    );
}

#[tokio::test]
async fn a_receiver_that_has_too_much_says_when_to_come_again() {
    for (status, header, expected) in [
        (429, Some("120"), Some(120)),
        (503, Some("7"), Some(7)),
        (503, None, None),
        (503, Some("soon"), None),
        (500, Some("7"), None),
    ] {
        let receiver = Receiver::start(move |_| {
            let mut answer = StatusCode::from_u16(status).unwrap().into_response();
            if let Some(header) = header {
                let value = header.parse().unwrap();
                answer.headers_mut().insert("retry-after", value);
            }
            answer
        })
        .await;
        let publisher = to(receiver.endpoint()).build().unwrap();
        let error = publisher.publish(&message("orders")).await.unwrap_err();
        assert!(matches!(error, PublishError::Failed(_)), "{error:?}");
        let expected = expected.map(Duration::from_secs);
        assert_eq!(error.retry_after(), expected, "{status}, {header:?}");
    }
}

#[tokio::test]
async fn a_redirect_is_not_followed() {
    let other = Receiver::answering(200).await;
    for status in [301, 302, 303, 307, 308] {
        let elsewhere = other.address;
        for location in [format!("http://{elsewhere}/"), "/again".to_owned()] {
            let receiver = Receiver::start(move |_| {
                let mut answer = StatusCode::from_u16(status).unwrap().into_response();
                let value = location.parse().unwrap();
                answer.headers_mut().insert("location", value);
                answer
            })
            .await;
            let publisher = to(receiver.endpoint()).build().unwrap();
            let result = publisher.publish(&message("orders")).await;
            assert_failed!(result, Failed, "redirects are not followed");
            assert_eq!(receiver.received().len(), 1);
        }
    }
    assert!(other.received().is_empty());
}

/// Answers with a body that never ends: as fast as it's read, or a little from time to time.
fn endless(status: StatusCode, pause: Option<Duration>) -> Response {
    let chunks = stream::unfold((), move |()| async move {
        if let Some(pause) = pause {
            tokio::time::sleep(pause).await;
        }
        Some((Ok::<_, std::io::Error>(Bytes::from(vec![b'x'; 1024])), ()))
    });
    (status, Body::from_stream(chunks)).into_response()
}

#[tokio::test]
async fn an_answer_that_never_ends_is_read_up_to_a_bound() {
    for status in [StatusCode::OK, StatusCode::INTERNAL_SERVER_ERROR] {
        for pause in [None, Some(Duration::from_millis(300))] {
            let receiver = Receiver::start(move |_| endless(status, pause)).await;
            let publisher = to(receiver.endpoint()).build().unwrap();
            // Shorter than the time limit of the whole, which would end it too.
            let bound = Duration::from_secs(4);
            let publish = async || publisher.publish(&message("orders")).await;
            let result = in_time("it is read", bound, publish).await;
            assert_eq!(result.is_ok(), status.is_success(), "{result:?}");
        }
    }
}

#[tokio::test]
async fn a_receiver_that_says_nothing_leaves_the_message_unconfirmed() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let endpoint = Endpoint::new(&url, secret(&KEY)).unwrap();
    let publisher = to(endpoint)
        .timeout(Duration::from_millis(300))
        .build()
        .unwrap();
    assert_failed!(
        publisher.publish(&message("orders")).await,
        Unconfirmed,
        "timed out"
    );

    let cutting = tokio::spawn(async move {
        while let Ok((mut connection, _)) = listener.accept().await {
            let mut some = [0; 16];
            let _ = tokio::io::AsyncReadExt::read(&mut connection, &mut some).await;
        }
    });
    assert_failed!(publisher.publish(&message("orders")).await, Unconfirmed, "");
    cutting.abort();
}

#[tokio::test]
async fn nobody_at_the_address_is_a_failure_without_the_url_in_its_reason() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let url = format!("http://user:hunter2@{address}/hunter2");
    let publisher = to(Endpoint::new(&url, secret(&KEY)).unwrap())
        .build()
        .unwrap();
    let result = publisher.publish(&message("orders")).await;
    assert!(!format!("{result:?}").contains("hunter2"), "{result:?}");
    assert_failed!(result, Failed, "refused");
}

#[tokio::test]
async fn each_message_goes_to_the_endpoint_that_the_application_chooses() {
    let receivers = [
        Receiver::answering(200).await,
        Receiver::answering(200).await,
    ];
    let endpoints = [receivers[0].endpoint(), receivers[1].endpoint()];
    let publisher = Webhooks::by(move |message| {
        let customer = message.topic().to_owned();
        let endpoints = endpoints.clone();
        async move {
            match customer.as_str() {
                "first" => Ok(endpoints[0].clone()),
                "second" => Ok(endpoints[1].clone()),
                _ => Err(PublishError::Rejected("no such customer".into())),
            }
        }
    })
    .allow_http()
    .allow_addresses(|address| address.is_loopback())
    .build()
    .unwrap();
    for customer in ["first", "second", "first"] {
        publisher.publish(&message(customer)).await.unwrap();
    }
    let nobody = publisher.publish(&message("third")).await;
    assert_failed!(nobody, Rejected, "no such customer");
    assert_eq!(receivers.map(|receiver| receiver.received().len()), [2, 1]);
}

#[tokio::test]
async fn fields_that_say_how_a_request_is_sent_are_rejected() {
    let receiver = Receiver::answering(200).await;
    let publisher = to(receiver.endpoint()).build().unwrap();
    for (name, value) in [
        ("Host", "elsewhere"),
        ("Content-Length", "1"),
        ("transfer-encoding", "chunked"),
        ("connection", "upgrade"),
        ("a b", "x"),
        ("a", "x\r\nhost: elsewhere"),
    ] {
        let result = publisher
            .publish(&message("orders").with_header(name, value))
            .await;
        assert_failed!(result, Rejected, "can't have the field");
    }
    assert!(receiver.received().is_empty());
}
