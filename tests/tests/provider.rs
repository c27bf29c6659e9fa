//! The fake provider does what the tests of external steps rely on.

use std::time::Duration;

use idem_tests::http::{Call, Client, fresh_key};
use idem_tests::process::Server;
use serde_json::Value;
use tempfile::TempDir;

struct Provider {
    server: Server,
    client: Client,
    directory: TempDir,
}

impl Provider {
    async fn start() -> Provider {
        Self::start_in(TempDir::new().expect("a temporary directory")).await
    }

    async fn start_in(directory: TempDir) -> Provider {
        let ledger = directory.path().join("ledger").display().to_string();
        let server = Server::start("provider", &[("LEDGER".to_owned(), ledger)]).await;
        Provider {
            client: Client::new(server.address()),
            server,
            directory,
        }
    }

    fn charge(&self, key: &str, fault: &str) -> Call {
        let call = self
            .client
            .post("/charge")
            .key(key)
            .body("text/plain", "12 EUR");
        call.set("x-fault", fault.as_bytes())
    }

    async fn ledger(&self) -> Value {
        self.client.get("/charges").send().await.json()
    }

    /// How many charges and how many attempts a key has.
    async fn counts(&self, key: &str) -> (usize, usize) {
        let ledger = self.ledger().await;
        let of = |list: &str| {
            let list = ledger[list].as_array().expect("a list");
            list.iter().filter(|entry| entry["key"] == key).count()
        };
        (of("charges"), of("attempts"))
    }
}

#[tokio::test]
async fn a_key_is_charged_once_and_every_attempt_is_remembered() {
    let provider = Provider::start().await;
    let key = fresh_key();
    let first = provider.charge(&key, "").send().await;
    let again = provider.charge(&key, "").send().await;
    assert_eq!((first.status, again.status), (201, 201));
    assert_eq!(first.body, again.body);
    assert_eq!(provider.counts(&key).await, (1, 2));

    let other = provider
        .charge(&key, "")
        .body("text/plain", "13 EUR")
        .send()
        .await;
    assert_eq!(other.status, 422);
    assert_eq!(provider.counts(&key).await, (1, 3));

    let found = provider
        .client
        .get(&format!("/charges/by-key/{key}"))
        .send()
        .await;
    assert_eq!(found.json()["id"], first.json()["id"]);
    let absent = provider.client.get("/charges/by-key/none").send().await;
    assert_eq!(absent.status, 404);
}

#[tokio::test]
async fn faults_happen_before_or_after_the_charge_as_asked() {
    let provider = Provider::start().await;
    for (fault, status, charges) in [
        ("drop-before", None, 0),
        ("drop-after", None, 1),
        ("refuse", Some(402), 0),
        ("500-after", Some(500), 1),
        ("slow:20", Some(201), 1),
    ] {
        let key = fresh_key();
        let answer = provider.charge(&key, fault).try_send().await;
        assert_eq!(answer.ok().map(|answer| answer.status), status, "{fault}");
        assert_eq!(provider.counts(&key).await, (charges, 1), "{fault}");
    }
}

#[tokio::test]
async fn a_slow_charge_happens_though_its_caller_has_given_up() {
    let provider = Provider::start().await;
    let key = fresh_key();
    let call = provider.charge(&key, "slow:300");
    let given_up = call
        .giving_up_after(Duration::from_millis(50))
        .try_send()
        .await;
    assert!(given_up.is_err(), "{given_up:?}");
    idem_tests::wait::until("the charge", idem_tests::wait::PATIENCE, async || {
        provider.counts(&key).await == (1, 1)
    })
    .await;
}

#[tokio::test]
async fn keys_are_not_honoured_when_switched_off() {
    let provider = Provider::start().await;
    let key = fresh_key();
    let off = provider.client.post("/honour-keys/off").send().await;
    assert_eq!(off.status, 204);
    provider.charge(&key, "").send().await;
    provider.charge(&key, "").send().await;
    assert_eq!(provider.counts(&key).await, (2, 2));
    provider.client.post("/honour-keys/on").send().await;
    provider.charge(&key, "").send().await;
    assert_eq!(provider.counts(&key).await, (2, 3));
}

#[tokio::test]
async fn the_ledger_outlives_the_process() {
    let mut provider = Provider::start().await;
    let key = fresh_key();
    provider
        .charge(&key, "drop-after")
        .try_send()
        .await
        .expect_err("closed");
    provider.server.kill().await;
    let provider = Provider::start_in(provider.directory).await;
    assert_eq!(provider.counts(&key).await, (1, 1));
    assert_eq!(provider.charge(&key, "").send().await.status, 201);
    assert_eq!(provider.counts(&key).await, (1, 2));
}

#[tokio::test]
async fn a_fault_that_is_asked_for_once_meets_the_first_request_with_a_key() {
    let provider = Provider::start().await;
    for (key, first) in [(fresh_key(), 402), (fresh_key(), 201)] {
        let once = |fault: &str| {
            let call = provider
                .client
                .post("/charge")
                .key(&key)
                .body("text/plain", "12 EUR");
            call.set("x-fault-once", fault.as_bytes())
        };
        // Also where the first went well.
        let fault = if first == 402 { "refuse" } else { "" };
        assert_eq!(once(fault).send().await.status, first);
        assert_eq!(once("refuse").send().await.status, 201);
    }
}
