//! Two owners: an attempt stands still past its lease, another takes the operation over, and the first goes on.

use std::time::Duration;

use idem_tests::application::Application;
use idem_tests::http::{Answer, fresh_key};
use idem_tests::servers::Backend;
use idem_tests::wait::{PATIENCE, until};
use tokio::task::JoinHandle;

use crate::setup::{Ledger, Provider, Shop, charge, on_databases, on_every_database, settled};

const KINDS: [Provider; 3] = [
    Provider::HonoursKeys,
    Provider::CanBeAsked,
    Provider::Neither,
];

/// A process that stands still in the middle of an attempt.
struct Frozen {
    app: Application,
    /// What its client is told in the end.
    answer: JoinHandle<Answer>,
}

impl Frozen {
    /// At a point, by its name and number.
    async fn at_point(shop: &Shop, key: &str, point: &str) -> Frozen {
        let app = shop.without_recovery(&[("IDEM_STOP_AT", point)]).await;
        let call = charge(&app, key);
        let answer = tokio::spawn(async move { call.send().await });
        let frozen = Frozen { app, answer };
        frozen.is_still().await;
        frozen
    }

    /// While its request is at a provider that takes so long to charge.
    async fn at_slow_provider(shop: &Shop, key: &str, charging: Duration) -> Frozen {
        let app = shop
            .without_recovery(&[("KEEP_EVENTS", "idem=error")])
            .await;
        let call =
            charge(&app, key).asking("provider-fault", format!("slow:{}", charging.as_millis()));
        let answer = tokio::spawn(async move { call.send().await });
        until("the provider has the request", PATIENCE, async || {
            let all = shop.at_provider.get("/charges").send().await.json();
            all["arrived"]
                .as_array()
                .is_some_and(|keys| !keys.is_empty())
        })
        .await;
        app.server.signal("STOP").await;
        let frozen = Frozen { app, answer };
        frozen.is_still().await;
        frozen
    }

    async fn is_still(&self) {
        until("the process stands still", PATIENCE, async || {
            self.app.server.is_stopped()
        })
        .await;
    }

    /// It goes on, to the end of its attempt.
    async fn thaw(self) -> (Application, Answer) {
        self.app.server.signal("CONT").await;
        let answer = self.answer.await.expect("the client is answered");
        (self.app, answer)
    }
}

/// The attempt is fenced: what it writes is undone, and what it has not begun it does not begin.
async fn an_attempt_that_stood_still_does_nothing_more(backend: Backend, points: &[&str]) {
    for kind in KINDS {
        for point in points {
            let what = format!("{backend:?}, {kind:?}, {point}");
            let shop = Shop::open(backend, kind).await;
            let key = fresh_key();
            let frozen = Frozen::at_point(&shop, &key, point).await;
            let other = shop.probe().await;
            let answer = settled(&charge(&other, &key)).await;
            let before = (shop.ledger(&key).await, shop.rows(&key).await);
            let lost = kind == Provider::Neither && point.starts_with("call.");
            let sent = usize::from(*point != "call.before#1");
            if lost {
                answer.assert_problem(409, "idempotency-outcome-unknown");
                assert_eq!((before.0.charges, before.1), (sent, (1, 0)), "{what}");
            } else {
                assert_eq!(answer.status, 201, "{what}: {answer:?}");
                assert_eq!((before.0.charges, before.1), (1, (1, 1)), "{what}");
            }

            let (_first, late) = frozen.thaw().await;
            let after = (shop.ledger(&key).await, shop.rows(&key).await);
            assert_eq!(after, before, "{what}: it writes nothing and calls nothing");
            if lost {
                late.assert_problem(409, "idempotency-outcome-unknown");
            } else {
                late.assert_replays(&answer);
            }
            let again = charge(&other, &key).send().await;
            assert_eq!(
                (again.status, &again.body),
                (answer.status, &answer.body),
                "{what}"
            );
        }
    }
}

/// Where no transaction is open.
async fn an_attempt_that_stood_still_between_its_steps_does_nothing_more(backend: Backend) {
    let points = ["call.before#1", "call.after#1", "step.begin#2"];
    an_attempt_that_stood_still_does_nothing_more(backend, &points).await;
}

/// Where one is: nobody else could write on SQLite.
async fn an_attempt_that_stood_still_in_its_last_step_does_nothing_more(backend: Backend) {
    an_attempt_that_stood_still_does_nothing_more(backend, &["complete.before#1"]).await;
}

const CHARGING: Duration = Duration::from_millis(5000);

/// A request that is still on its way when another attempt decides.
async fn a_request_that_arrives_late_is_one_charge_where_keys_are_honoured(backend: Backend) {
    let shop = Shop::open(backend, Provider::HonoursKeys).await;
    let key = fresh_key();
    let frozen = Frozen::at_slow_provider(&shop, &key, CHARGING).await;
    let other = shop.probe().await;
    let answer = settled(&charge(&other, &key)).await;
    assert_eq!(answer.status, 201, "{answer:?}");
    arrived(&shop, &key, 2).await;
    let (_first, late) = frozen.thaw().await;
    late.assert_replays(&answer);
    let once = Ledger {
        charges: 1,
        attempts: 2,
    };
    assert_eq!(shop.ledger(&key).await, once);
    assert_eq!(shop.rows(&key).await, (1, 1));
}

async fn a_request_that_arrives_late_is_one_charge_of_unknown_outcome(backend: Backend) {
    let shop = Shop::open(backend, Provider::Neither).await;
    let key = fresh_key();
    let frozen = Frozen::at_slow_provider(&shop, &key, CHARGING).await;
    let other = shop.probe().await;
    let call = charge(&other, &key);
    let unknown = settled(&call).await;
    unknown.assert_problem(409, "idempotency-outcome-unknown");
    arrived(&shop, &key, 1).await;
    let (_first, late) = frozen.thaw().await;
    late.assert_problem(409, "idempotency-outcome-unknown");
    let again = call.send().await;
    again.assert_problem(409, "idempotency-outcome-unknown");
    let once = Ledger {
        charges: 1,
        attempts: 1,
    };
    assert_eq!(shop.ledger(&key).await, once);
    assert_eq!(shop.rows(&key).await, (1, 0));
}

/// The provider breaks the limit that was declared for it: it charges after it has said that there is no charge and that no
/// more could come. That is a second charge, which the table of what can happen twice tells of.
async fn a_request_that_arrives_past_its_limit_is_a_second_charge(backend: Backend) {
    let shop = Shop::open(backend, Provider::CanBeAsked).await;
    let key = fresh_key();
    let frozen = Frozen::at_slow_provider(&shop, &key, CHARGING).await;
    let other = shop.probe().await;
    let answer = settled(&charge(&other, &key)).await;
    assert_eq!(answer.status, 201, "{answer:?}");
    arrived(&shop, &key, 2).await;
    let (_first, late) = frozen.thaw().await;
    late.assert_replays(&answer);
    let twice = Ledger {
        charges: 2,
        attempts: 2,
    };
    assert_eq!(shop.ledger(&key).await, twice);
    assert_eq!(shop.rows(&key).await, (1, 1));
}

/// The answer comes in time, and the attempt that is given it has lost its lease meanwhile: an operator finds what it says.
async fn an_answer_that_comes_past_the_lease_is_noted(backend: Backend) {
    let shop = Shop::open(backend, Provider::Neither).await;
    let patient = shop.with(&[("CALL_TIMEOUT", "40s"), ("IN_FLIGHT_LIMIT", "60s")]);
    let key = fresh_key();
    let frozen = Frozen::at_slow_provider(&patient, &key, Duration::from_millis(500)).await;
    let other = patient.probe().await;
    let call = charge(&other, &key);
    let unknown = settled(&call).await;
    unknown.assert_problem(409, "idempotency-outcome-unknown");
    arrived(&patient, &key, 1).await;
    let noted = "SELECT COUNT(*) FROM idem_operations WHERE reason LIKE '%took place%'";
    assert_eq!(patient.database.number(noted).await, 0);
    let (first, late) = frozen.thaw().await;
    late.assert_problem(409, "idempotency-outcome-unknown");
    assert_eq!(patient.database.number(noted).await, 1);
    let events = first.client.get("/events").send().await;
    let said = String::from_utf8_lossy(&events.body).contains("a late effect");
    assert!(said, "{events:?}");
    let again = call.send().await;
    again.assert_problem(409, "idempotency-outcome-unknown");
    assert_eq!(patient.ledger(&key).await.charges, 1);
    assert_eq!(patient.rows(&key).await, (1, 0));
}

async fn arrived(shop: &Shop, key: &str, attempts: usize) {
    until("the late request arrives", PATIENCE, async || {
        shop.ledger(key).await.attempts == attempts
    })
    .await;
}

on_every_database! {
    an_attempt_that_stood_still_between_its_steps_does_nothing_more,
    a_request_that_arrives_late_is_one_charge_where_keys_are_honoured,
    a_request_that_arrives_late_is_one_charge_of_unknown_outcome,
    a_request_that_arrives_past_its_limit_is_a_second_charge,
    an_answer_that_comes_past_the_lease_is_noted,
}

mod with_open_transactions {
    use super::{an_attempt_that_stood_still_in_its_last_step_does_nothing_more, on_databases};

    on_databases! {
        postgres: Postgres; [
            an_attempt_that_stood_still_in_its_last_step_does_nothing_more,
        ]
    }
    on_databases! {
        mysql: MySql; [
            an_attempt_that_stood_still_in_its_last_step_does_nothing_more,
        ]
    }
}
