//! The probe, running with a database of its own, and what can be asked about it from outside.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::deployment;
use crate::http::{Answer, Call, Client, fresh_key};
use crate::process::{Died, Server};
use crate::servers::{Backend, TestDatabase};
use crate::wait::{PATIENCE, until};

/// How a probe is started.
#[derive(Clone, Debug)]
pub struct Setting {
    environment: Vec<(String, String)>,
}

impl Setting {
    /// The probe on the database at `url`, with every default, but for a recovery worker: that would pass crash points, and take
    /// connections, beside the request that a test is about.
    pub fn of(backend: Backend, url: &str) -> Setting {
        let setting = Setting {
            environment: Vec::new(),
        };
        let round_trips = format!("{:?}", backend.round_trips()).to_lowercase();
        let setting = setting
            .with("DATABASE_URL", deployment::url(backend, url))
            .with("ROUND_TRIPS", round_trips)
            .with("RECOVERY", "off");
        if deployment::is_pooled(backend) {
            setting.with("TRANSACTION_POOLING", "on")
        } else {
            setting
        }
    }

    /// One more variable of its environment.
    pub fn with(mut self, name: &str, value: impl ToString) -> Setting {
        self.environment.push((name.to_owned(), value.to_string()));
        self
    }
}

/// A running probe.
#[derive(Debug)]
pub struct Application {
    /// Its process.
    pub server: Server,
    /// A client of it.
    pub client: Client,
}

impl Application {
    /// Starts a probe.
    pub async fn start(setting: &Setting) -> Application {
        match Self::try_start(setting).await {
            Ok(application) => application,
            Err(died) => panic!("the probe did not start: {died:?}"),
        }
    }

    /// Starts a probe that may die early, as one does that was told to crash.
    ///
    /// # Errors
    ///
    /// When it ends before it listens.
    pub async fn try_start(setting: &Setting) -> Result<Application, Died> {
        let server = Server::try_start("probe", &setting.environment).await?;
        let client = Client::new(server.address());
        Ok(Application { server, client })
    }

    /// A POST as alice with a key that no other test has, and a small JSON body.
    pub fn effect(&self, path: &str) -> Call {
        self.with_key(path, &fresh_key())
    }

    /// The same with a key of the test's own.
    pub fn with_key(&self, path: &str, key: &str) -> Call {
        self.client
            .post(path)
            .key(key)
            .json(&json!({"amount": 1200, "currency": "EUR"}))
    }

    /// The business rows of an account.
    pub async fn rows(&self, account: &str) -> Vec<Value> {
        let answer = self
            .client
            .get(&format!("/effects?account={account}"))
            .send()
            .await;
        assert_eq!(answer.status, 200, "{answer:?}");
        answer.json()["rows"]
            .as_array()
            .expect("the probe lists its rows")
            .clone()
    }

    /// How many effects a key of alice's has had.
    pub async fn effects(&self, key: &str) -> usize {
        self.effects_of("alice", key).await
    }

    /// How many effects a key of an account's has had.
    pub async fn effects_of(&self, account: &str, key: &str) -> usize {
        let digest = key_digest(key);
        self.rows(account)
            .await
            .iter()
            .filter(|row| row["key_digest"] == digest)
            .count()
    }

    /// How often a handler has been entered for a key, committed or not, in this process.
    pub async fn entered(&self, key: &str) -> u64 {
        let path = format!("/entered?key_digest={}", key_digest(key));
        let answer = self.client.get(&path).send().await;
        answer.json()["count"]
            .as_u64()
            .unwrap_or_else(|| panic!("the probe counts: {answer:?}"))
    }

    /// How many requests that [ask](Call::asking) for the `gate` of this name the framework has, and how many handlers came
    /// to stand at it.
    pub async fn at_gate(&self, name: &str) -> (u64, u64) {
        let answer = self.client.get(&format!("/gates/{name}")).send().await;
        let seen = answer.json();
        let number = |field: &str| {
            seen[field]
                .as_u64()
                .unwrap_or_else(|| panic!("the probe counts: {answer:?}"))
        };
        (number("requests"), number("handlers"))
    }

    /// Waits until the framework has so many requests that ask for the gate, one of which stands at it in its handler.
    pub async fn gathered(&self, name: &str, requests: u64) {
        until("all wait at the gate", PATIENCE, async || {
            let (arrived, handlers) = self.at_gate(name).await;
            arrived >= requests && handlers > 0
        })
        .await;
    }

    /// Lets all pass the gate of this name, now and later.
    pub async fn open_gate(&self, name: &str) {
        let path = format!("/gates/{name}/open");
        let answer = self.client.post(&path).send().await;
        assert_eq!(answer.status, 204, "{answer:?}");
    }

    /// How often each signal was emitted in this process.
    pub async fn signals(&self) -> BTreeMap<String, u64> {
        let answer = self.client.get("/signals").send().await;
        serde_json::from_slice(&answer.body)
            .unwrap_or_else(|error| panic!("the probe counts signals: {error}: {answer:?}"))
    }

    /// Sends a request that is expected to be a first use with status `expected`.
    pub async fn accepted(&self, call: &Call, expected: u16) -> Answer {
        let answer = call.send().await;
        assert_eq!(answer.status, expected, "{answer:?}");
        assert!(!answer.is_replay(), "{answer:?}");
        answer
    }
}

/// A probe together with the database that it alone uses.
#[derive(Debug)]
pub struct Fixture {
    /// The probe. Dropped first.
    pub application: Application,
    /// Its database.
    pub database: TestDatabase,
}

impl Fixture {
    /// A probe with the given variables, on a fresh database.
    pub async fn start(backend: Backend, environment: &[(&str, &str)]) -> Fixture {
        let database = TestDatabase::create(backend).await;
        let mut setting = Setting::of(backend, database.url());
        for (name, value) in environment {
            setting = setting.with(name, value);
        }
        Fixture {
            application: Application::start(&setting).await,
            database,
        }
    }
}

impl std::ops::Deref for Fixture {
    type Target = Application;

    fn deref(&self) -> &Application {
        &self.application
    }
}

/// What the probe stores of a key, so that a test can find its own rows.
pub fn key_digest(key: &str) -> String {
    Sha256::digest(key.as_bytes())
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}
