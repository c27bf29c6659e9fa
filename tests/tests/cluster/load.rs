//! Clients that go on whatever happens: each tries a key until it is acknowledged, and then the next.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::future::join_all;
use idem_tests::application::{Application, key_digest};
use idem_tests::http::{Answer, Client, fresh_key};
use idem_tests::wait::until;
use serde_json::json;
use tokio::task::JoinHandle;

/// How long one key may take: what is between is an outage, and the end of it.
const KEY: Duration = Duration::from_secs(120);
/// Longer than a service says that its database is away.
const GIVE_UP: Duration = Duration::from_secs(10);

/// A key that was acknowledged.
#[derive(Debug)]
pub(crate) struct Acknowledged {
    key: String,
    at: Instant,
    body: Bytes,
}

#[derive(Debug, Default)]
struct Counts {
    stop: AtomicBool,
    acknowledged: AtomicUsize,
    retries: AtomicUsize,
}

pub(crate) struct Load {
    counts: Arc<Counts>,
    clients: Vec<JoinHandle<Vec<Acknowledged>>>,
}

impl Load {
    /// Each try goes to the next of the probes, as behind a load balancer.
    pub(crate) fn start(probes: &[&Application], clients: usize) -> Load {
        let counts = Arc::new(Counts::default());
        let targets: Arc<[Client]> = probes.iter().map(|probe| probe.client.clone()).collect();
        let run = |number| {
            let (counts, targets) = (Arc::clone(&counts), Arc::clone(&targets));
            tokio::spawn(async move { client(number, &targets, &counts).await })
        };
        Load {
            clients: (0..clients).map(run).collect(),
            counts,
        }
    }

    /// Waits for so many acknowledgements more.
    pub(crate) async fn goes_on(&self, more: usize) {
        let acknowledged = || self.counts.acknowledged.load(Ordering::Relaxed);
        let enough = acknowledged() + more;
        until("the load goes on", KEY, async || {
            let ended = self.clients.iter().any(JoinHandle::is_finished);
            ended || acknowledged() >= enough
        })
        .await;
    }

    /// Takes no new keys, and waits until the last ones are acknowledged.
    pub(crate) async fn stop(self) -> Report {
        self.counts.stop.store(true, Ordering::Relaxed);
        let mut acknowledged = Vec::new();
        for client in join_all(self.clients).await {
            acknowledged.extend(client.expect("no client fails"));
        }
        acknowledged.sort_by_key(|one| one.at);
        Report {
            retries: self.counts.retries.load(Ordering::Relaxed),
            acknowledged,
        }
    }
}

async fn client(number: usize, targets: &[Client], counts: &Counts) -> Vec<Acknowledged> {
    let mut acknowledged = Vec::new();
    let mut next = number;
    while !counts.stop.load(Ordering::Relaxed) {
        let key = fresh_key();
        let start = Instant::now();
        let answer = loop {
            let call = targets[next % targets.len()]
                .post("/effects")
                .key(&key)
                .json(&json!({"amount": 1200, "currency": "EUR"}))
                .giving_up_after(GIVE_UP);
            next += 1;
            match call.try_send().await {
                Ok(answer) if answer.status == 201 => break answer,
                Ok(answer) => assert!(asks_to_try_again(&answer), "{answer:?}"),
                Err(_) => {}
            }
            assert!(start.elapsed() < KEY, "a key is never acknowledged");
            counts.retries.fetch_add(1, Ordering::Relaxed);
            tokio::time::sleep(Duration::from_millis(20)).await;
        };
        acknowledged.push(Acknowledged {
            key,
            at: Instant::now(),
            body: answer.body,
        });
        counts.acknowledged.fetch_add(1, Ordering::Relaxed);
    }
    acknowledged
}

/// What may be said while a database is away. The handler's own 500 has no code: one of its statements met the break.
fn asks_to_try_again(answer: &Answer) -> bool {
    match (answer.status, answer.code().as_deref()) {
        (500, None) | (409, Some("idempotency-key-in-progress")) => true,
        (503, Some(_)) => answer.header("retry-after").is_some(),
        _ => false,
    }
}

/// What all clients together were told.
#[derive(Debug)]
pub(crate) struct Report {
    acknowledged: Vec<Acknowledged>,
    retries: usize,
}

impl Report {
    /// How many keys there were: each was acknowledged in the end.
    pub(crate) fn keys(&self) -> usize {
        self.acknowledged.len()
    }

    /// How many answers asked to try again, or did not come.
    pub(crate) fn retries(&self) -> usize {
        self.retries
    }

    /// The longest time between two moments in which nobody was acknowledged.
    pub(crate) fn pause(&self, from: Instant, to: Instant) -> Duration {
        let times = self.acknowledged.iter().map(|one| one.at);
        let mut last = from;
        let mut longest = Duration::ZERO;
        for at in times.filter(|at| (from..to).contains(at)).chain([to]) {
            longest = longest.max(at - last);
            last = at;
        }
        longest
    }

    /// Asserts that the effects are those of these keys, and one of each; `effects` are the digests of all that there are.
    pub(crate) fn assert_effects(&self, effects: &[String]) {
        let keys = self.acknowledged.iter().map(|one| key_digest(&one.key));
        let keys: BTreeSet<String> = keys.collect();
        let distinct: BTreeSet<String> = effects.iter().cloned().collect();
        let lost: Vec<&String> = keys.difference(&distinct).collect();
        assert!(lost.is_empty(), "acknowledged and lost: {lost:?}");
        assert_eq!(effects.len(), distinct.len(), "none is doubled");
        assert_eq!(distinct.len(), keys.len(), "no other effect than theirs");
    }

    /// Asserts that whoever asks again is given the answer that was acknowledged: of some keys, at each of the probes.
    pub(crate) async fn assert_replays(&self, probes: &[&Application]) {
        let step = (self.acknowledged.len() / 50).max(1);
        for one in self.acknowledged.iter().step_by(step) {
            for probe in probes {
                let again = probe.with_key("/effects", &one.key).send().await;
                assert!(again.is_replay(), "{again:?}");
                assert_eq!(again.body, one.body, "{again:?}");
            }
        }
    }
}
