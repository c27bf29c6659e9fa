//! Webhooks go to addresses of the public internet, unless others are allowed.
//!
//! 127.0.0.2 stands for a public address here, and 127.0.0.1 for one inside.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use idem_runtime::outbox::Publisher as _;
use idem_runtime::outbox::webhook::{Endpoint, Webhooks};
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use crate::assert_failed;
use crate::setup::message;
use crate::webhook::{KEY, secret};

const INSIDE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
const PUBLIC: IpAddr = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 2));

/// A server at every address of the loopback network. It closes each connection after its answer, so that each message makes a new one.
struct Everywhere {
    port: u16,
    connected: Arc<Mutex<Vec<IpAddr>>>,
}

impl Everywhere {
    async fn start() -> Everywhere {
        let listener = TcpListener::bind("0.0.0.0:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let connected: Arc<Mutex<Vec<IpAddr>>> = Arc::default();
        let seen = connected.clone();
        tokio::spawn(async move {
            while let Ok((mut connection, _)) = listener.accept().await {
                let to = connection.local_addr().unwrap().ip();
                seen.lock().unwrap().push(to);
                let mut request = [0; 4096];
                let _ = connection.read(&mut request).await;
                let answer = "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";
                let _ = connection.write_all(answer.as_bytes()).await;
            }
        });
        Everywhere { port, connected }
    }

    fn connected(&self) -> Vec<IpAddr> {
        self.connected.lock().unwrap().clone()
    }

    fn endpoint(&self, host: &str) -> Endpoint {
        let url = format!("http://{host}:{}/", self.port);
        Endpoint::new(&url, secret(&KEY)).unwrap()
    }
}

/// Answers each question with the next of its answers, and the last of them from then on.
struct Scripted {
    answers: Vec<Vec<IpAddr>>,
    asked: AtomicUsize,
}

impl Scripted {
    fn new(answers: &[&[IpAddr]]) -> Arc<Scripted> {
        Arc::new(Scripted {
            answers: answers.iter().map(|answer| answer.to_vec()).collect(),
            asked: AtomicUsize::new(0),
        })
    }
}

impl Resolve for Scripted {
    fn resolve(&self, _: Name) -> Resolving {
        let asked = self.asked.fetch_add(1, Ordering::SeqCst);
        let answer = self.answers[asked.min(self.answers.len() - 1)].clone();
        let addresses = answer
            .into_iter()
            .map(|address| SocketAddr::new(address, 0));
        Box::pin(std::future::ready(Ok(Box::new(addresses) as Addrs)))
    }
}

#[tokio::test]
async fn an_address_inside_is_not_connected_to_however_the_url_writes_it() {
    let everywhere = Everywhere::start().await;
    for host in [
        "127.0.0.1",
        "127.1",
        "2130706433",
        "0x7f000001",
        "[::ffff:127.0.0.1]",
    ] {
        let webhooks = Webhooks::to(everywhere.endpoint(host)).allow_http();
        let publisher = webhooks.build().unwrap();
        let result = publisher.publish(&message("orders")).await;
        assert_failed!(result, Rejected, "not an address of the public internet");
    }
    assert!(everywhere.connected().is_empty());
}

#[tokio::test]
async fn a_name_that_leads_inside_is_not_connected_to() {
    let everywhere = Everywhere::start().await;
    let webhooks = Webhooks::to(everywhere.endpoint("localhost")).allow_http();
    let publisher = webhooks.build().unwrap();
    let result = publisher.publish(&message("orders")).await;
    assert_failed!(result, Failed, "not an address of the public internet");
    for address in ["127.0.0.1", "::ffff:127.0.0.1"] {
        let webhooks = Webhooks::to(everywhere.endpoint("shop.example"))
            .allow_http()
            .resolver(Scripted::new(&[&[address.parse().unwrap()]]));
        let publisher = webhooks.build().unwrap();
        let result = publisher.publish(&message("orders")).await;
        assert_failed!(result, Failed, "not an address of the public internet");
    }
    assert!(everywhere.connected().is_empty());
}

#[tokio::test]
async fn of_a_names_addresses_only_the_public_ones_are_tried() {
    let everywhere = Everywhere::start().await;
    let webhooks = Webhooks::to(everywhere.endpoint("shop.example"))
        .allow_http()
        .allow_addresses(|address| address == PUBLIC)
        .resolver(Scripted::new(&[&[INSIDE, PUBLIC, INSIDE]]));
    webhooks
        .build()
        .unwrap()
        .publish(&message("orders"))
        .await
        .unwrap();
    assert_eq!(everywhere.connected(), [PUBLIC]);
}

#[tokio::test]
async fn a_name_that_leads_inside_later_is_refused_then() {
    let everywhere = Everywhere::start().await;
    let webhooks = Webhooks::to(everywhere.endpoint("shop.example"))
        .allow_http()
        .allow_addresses(|address| address == PUBLIC)
        .resolver(Scripted::new(&[&[PUBLIC], &[INSIDE], &[PUBLIC]]));
    let publisher = webhooks.build().unwrap();
    publisher.publish(&message("orders")).await.unwrap();
    let rebound = publisher.publish(&message("orders")).await;
    assert_failed!(rebound, Failed, "not an address of the public internet");
    publisher.publish(&message("orders")).await.unwrap();
    assert_eq!(everywhere.connected(), [PUBLIC, PUBLIC]);
}

#[tokio::test]
async fn plain_http_is_refused_unless_allowed() {
    let everywhere = Everywhere::start().await;
    let webhooks = Webhooks::to(everywhere.endpoint("127.0.0.1")).allow_addresses(|_| true);
    let result = webhooks.build().unwrap().publish(&message("orders")).await;
    assert_failed!(result, Rejected, "http is not allowed");
    assert!(everywhere.connected().is_empty());
}

#[tokio::test]
async fn without_tls_messages_to_https_endpoints_wait() {
    let everywhere = Everywhere::start().await;
    let url = format!("https://127.0.0.1:{}/", everywhere.port);
    let endpoint = Endpoint::new(&url, secret(&KEY)).unwrap();
    let webhooks = Webhooks::to(endpoint).allow_addresses(|address| address.is_loopback());
    let result = webhooks.build().unwrap().publish(&message("orders")).await;
    assert_failed!(result, Unavailable, "reqwest has no TLS");
}
